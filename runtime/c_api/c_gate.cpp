#include "graft/gate.h"

#include <cmath>

#include "platform/base/text.h"
#include "runtime/c_api/c_data.h"
#include "runtime/c_api/c_handles.h"
#include "runtime/c_api/c_options.h"
#include "runtime/c_api/c_trainer.h"
#include "runtime/language/text_data.h"
#include "runtime/run_state/data_hints.h"
#include "runtime/run_state/gate.h"

using namespace graft;
using namespace graft::c_api;

namespace {

Result<GateReport> run_gate(graft_model& candidate, graft_model* old, graft_data_set& data,
                            const graft_gate_options& given) {
  if (data.has_loader()) return invalid("A loader reads the data set; destroy it before the gate.");
  GRAFT_TRY_ASSIGN(const graft_trainer_options training, read_trainer_options(given.training));
  EvaluationOptions options;
  GRAFT_TRY_ASSIGN(options.train, train_options_of(training));
  options.outcomes = true;
  options.trainer.allocator = candidate.context->allocator;
  options.trainer.program.proof = candidate.context->proof.get();
  options.trainer.program.control = &candidate.context->control;
  GateOptions gate;
  gate.margin = given.margin;
  for (const std::string& text : split_text(given.conditions == nullptr ? "" : given.conditions, ',')) {
    GRAFT_TRY_ASSIGN(GateCondition condition, parse_gate_condition(text));
    options.metrics.push_back(condition.metric);
    gate.conditions.push_back(std::move(condition));
  }
  if (gate.conditions.empty()) return invalid("A gate needs a condition, as in \"accuracy>=0.9\".");
  GRAFT_TRY_ASSIGN(gpu::Device * device, device_of(*candidate.context));
  const auto evaluate = [&](const Model& model) -> Result<Evaluation> {
    GRAFT_TRY_ASSIGN(const std::optional<Model> masked, model_for(*data.source, model));
    const Model& evaluated = masked ? *masked : model;
    bind_length(*data.source, evaluated, options.train.bindings);
    return evaluate_model(*device, evaluated, *data.source, options);
  };
  GRAFT_TRY_ASSIGN(const Evaluation now, evaluate(candidate.model));
  if (old == nullptr) return judge(now, nullptr, gate);
  auto before = evaluate(old->model);
  if (!before.ok()) return std::move(before).status().with_context("Of the old model");
  return judge(now, &*before, gate);
}

void set_indices(const std::vector<std::uint64_t>& from, const std::uint64_t*& to, std::size_t& count) {
  to = from.data();
  count = from.size();
}

graft_gate_result result_of(const GateReport& report) {
  graft_gate_result out{};
  out.passed = report.passed ? 1 : 0;
  out.reason = report.reason.c_str();
  out.now = report.rows.front().now;
  out.before = report.rows.front().before.value_or(std::nan(""));
  out.p_value = 1;
  if (!report.comparison) return out;
  out.p_value = report.comparison->p_value;
  set_indices(report.comparison->changed, out.changed, out.changed_count);
  set_indices(report.comparison->lost, out.lost, out.lost_count);
  set_indices(report.comparison->gained, out.gained, out.gained_count);
  return out;
}

}  // namespace

graft_status graft_gate(graft_model* candidate, graft_model* old, graft_data_set* data,
                        const graft_gate_options* options, const char* path, graft_gate_result* result) {
  if (candidate == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(candidate->context, [&]() -> Status {
    if (data == nullptr) return invalid("graft_gate needs a data set.");
    GRAFT_TRY(check_info(result, "graft_gate_result"));
    GRAFT_TRY_ASSIGN(const graft_gate_options given, read_options(options, "graft_gate_options"));
    GRAFT_TRY_ASSIGN(GateReport report, run_gate(*candidate, old, *data, given));
    if (path != nullptr) {
      if (!candidate->allow_non_finite) GRAFT_TRY(candidate->model.check_finite().with_context("Nothing was saved"));
      const std::string where = report.passed ? std::string(path) : rejected_path(path);
      GRAFT_TRY(save_model(*candidate->context->files, where, candidate->model));
    }
    candidate->gate = std::make_unique<GateReport>(std::move(report));
    return write_info(result_of(*candidate->gate), result, "graft_gate_result");
  });
}

graft_status graft_gate_condition(const graft_model* candidate, size_t index, graft_gate_row* row) {
  if (candidate == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(candidate->context, [&]() -> Status {
    const std::size_t count = candidate->gate ? candidate->gate->rows.size() : 0;
    if (index >= count) {
      return error(Code::not_found, "The gate has ", count, " conditions; number ", index, " is not one.");
    }
    const GateRow& from = candidate->gate->rows[index];
    graft_gate_row out{};
    out.metric = from.metric.c_str();
    out.now = from.now;
    out.before = from.before.value_or(std::nan(""));
    out.holds = from.holds ? 1 : 0;
    out.no_worse = from.no_worse ? 1 : 0;
    return write_info(out, row, "graft_gate_row");
  });
}

graft_status graft_gate_compare(graft_model* candidate, graft_comparison* comparison) {
  if (candidate == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(candidate->context, [&]() -> Status {
    if (!candidate->gate || !candidate->gate->comparison) {
      return error(Code::not_found, "No gate has compared this model with an old one.");
    }
    return write_info(comparison_of(*candidate->gate->comparison, candidate->gate_changes), comparison,
                      "graft_comparison");
  });
}
