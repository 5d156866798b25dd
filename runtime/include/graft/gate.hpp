// The gate before new weights, over graft/gate.h. Included by itself.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graft/gate.h"
#include "graft/graft.hpp"

namespace graft {
inline namespace v0 {

/// As graft_gate_options.
struct GateOptions {
  std::string conditions = {};  ///< as in "accuracy>=0.9,loss<=0.5": all must hold
  double margin = 0;            ///< by how much each of these metrics may be worse than the old model's
};

/// One condition of a gate: graft_gate_row.
struct GateRow {
  std::string metric;
  double now = 0;
  double before = 0;  ///< of the old model; NaN without one
  bool holds = false;
  bool no_worse = false;
};

/// What a gate found: graft_gate_result, with its conditions. Samples are told by their indices.
struct GateResult {
  bool passed = false;
  std::string reason;  ///< a sentence where it did not pass, else empty
  double p_value = 1;
  std::vector<GateRow> rows;           ///< in the order of the conditions
  std::vector<std::uint64_t> changed;  ///< another class is predicted
  std::vector<std::uint64_t> lost;     ///< the old model has them right, and the new one does not
  std::vector<std::uint64_t> gained;   ///< the other way round
};

/// Evaluates the candidate and the old model (null: there is none) on `data`, and saves the candidate where `path` is
/// not empty; see graft_gate. `training` says the loss, the batch, bindings, the precision.
inline Result<GateResult> gate(Model& candidate, const Model* old, const DataSet& data, const GateOptions& options,
                               const std::string& path = {}, const TrainerOptions& training = {}) {
  const detail::RawTrainerOptions raw_training(training);
  auto raw = detail::sized<graft_gate_options>();
  raw.conditions = detail::or_null(options.conditions);
  raw.margin = options.margin;
  raw.training = raw_training.get();
  auto found = detail::sized<graft_gate_result>();
  Status judged = detail::to_status(graft_gate(candidate.get(), old == nullptr ? nullptr : old->get(), data.get(), &raw,
                                               detail::or_null(path), &found),
                                    candidate.context());
  if (!judged.ok()) return judged;
  GateResult result;
  result.passed = found.passed != 0;
  result.reason = found.reason;
  result.p_value = found.p_value;
  result.changed.assign(found.changed, found.changed + found.changed_count);
  result.lost.assign(found.lost, found.lost + found.lost_count);
  result.gained.assign(found.gained, found.gained + found.gained_count);
  auto row = detail::sized<graft_gate_row>();
  while (graft_gate_condition(candidate.get(), result.rows.size(), &row) == GRAFT_OK) {
    result.rows.push_back({row.metric, row.now, row.before, row.holds != 0, row.no_worse != 0});
  }
  return result;
}
/// How the candidate differs from the old model in its last gate; GRAFT_NOT_FOUND where there was no old one. Pointers
/// are valid until the next gate.
inline Result<graft_comparison> gate_comparison(Model& candidate) {
  auto comparison = detail::sized<graft_comparison>();
  Status got = detail::to_status(graft_gate_compare(candidate.get(), &comparison), candidate.context());
  if (!got.ok()) return got;
  return comparison;
}

}  // namespace v0
}  // namespace graft
