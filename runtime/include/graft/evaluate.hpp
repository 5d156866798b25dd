// Evaluations. Included by itself.
#pragma once

#include "graft/evaluation_calls.hpp"
#include "graft/graft.hpp"

namespace graft {
inline namespace v0 {

/// What a model gave on a data set.
class Evaluation : public detail::EvaluationCalls {
 public:
  using EvaluationCalls::EvaluationCalls;
  /// Rows by what samples are, columns by what they were taken for; empty where it was not asked for.
  std::vector<std::vector<std::uint64_t>> confusion() const {
    const std::uint64_t* counts = nullptr;
    std::size_t classes = 0;
    std::vector<std::vector<std::uint64_t>> rows;
    if (graft_evaluation_confusion(get(), &counts, &classes) != GRAFT_OK) return rows;
    for (std::size_t i = 0; i < classes; ++i) rows.emplace_back(counts + i * classes, counts + (i + 1) * classes);
    return rows;
  }
  /// How this one differs from an older one of the same data. Both with EvaluationOptions::outcomes.
  Result<Comparison> compare(const Evaluation& before) {
    auto comparison = detail::sized<graft_comparison>();
    const Status got = status(graft_evaluations_compare(before.get(), get(), &comparison));
    if (!got.ok()) return got;
    return Comparison(comparison);
  }
};

}  // namespace v0
}  // namespace graft
