// Evaluations, over graft/evaluate.h. Included by itself.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "graft/evaluate.h"
#include "graft/graft.hpp"
#include "graft/options.hpp"

namespace graft {
inline namespace v0 {

/// As graft_evaluation_options.
struct EvaluationOptions {
  std::vector<std::string> metrics = {};  ///< beside the loss, as in {"f1", "auroc"}
  bool confusion = false;
  bool outcomes = false;  ///< keep what is said of each sample, for compare()
};

/// One metric.
struct MetricValue {
  std::string name;
  double value = 0;
  std::vector<double> by_class = {};
};

/// What a model gave on a data set: evaluate() makes it.
class Evaluation {
 public:
  /// Of a model's weights; `training` says the loss, the batch, bindings, the precision.
  static Result<Evaluation> of(const Model& model, const DataSet& data, const EvaluationOptions& options = {},
                               const TrainerOptions& training = {}) {
    const detail::RawTrainerOptions raw(training);
    return make(options, raw.get(), model.context(), [&](const auto* wanted, graft_evaluation** made) {
      return graft_evaluate_model(model.get(), data.get(), wanted, made);
    });
  }
  /// Of a trainer's weights as they are now.
  static Result<Evaluation> of(const Trainer& trainer, const DataSet& data, const EvaluationOptions& options = {}) {
    return make(options, nullptr, trainer.context(), [&](const auto* wanted, graft_evaluation** made) {
      return graft_evaluate_trainer(trainer.get(), data.get(), wanted, made);
    });
  }

  /// Means over all samples; NaN where one has no meaning.
  graft_totals totals() const {
    auto totals = detail::sized<graft_totals>();
    (void)graft_evaluation_totals(handle_.get(), &totals);
    return totals;
  }
  /// In the order asked for.
  std::vector<MetricValue> metrics() const {
    std::vector<MetricValue> all;
    for (std::size_t i = 0; i < graft_evaluation_count(handle_.get()); ++i) {
      auto raw = detail::sized<graft_metric_value>();
      if (graft_evaluation_metric(handle_.get(), i, &raw) != GRAFT_OK) continue;
      all.push_back({raw.name, raw.value, {raw.by_class, raw.by_class + raw.class_count}});
    }
    return all;
  }
  /// Rows by what samples are, columns by what they were taken for; empty where it was not asked for.
  std::vector<std::vector<std::uint64_t>> confusion() const {
    const std::uint64_t* counts = nullptr;
    std::size_t classes = 0;
    std::vector<std::vector<std::uint64_t>> rows;
    if (graft_evaluation_confusion(handle_.get(), &counts, &classes) != GRAFT_OK) return rows;
    for (std::size_t i = 0; i < classes; ++i) rows.emplace_back(counts + i * classes, counts + (i + 1) * classes);
    return rows;
  }
  /// The names of the classes; empty where nobody says.
  std::vector<std::string> classes() const {
    std::vector<std::string> names;
    while (const char* name = graft_evaluation_class(handle_.get(), names.size())) names.emplace_back(name);
    return names;
  }
  /// How this one differs from an older one of the same data; its pointers are this one's. Both with outcomes.
  Result<graft_comparison> compare(const Evaluation& before) {
    auto comparison = detail::sized<graft_comparison>();
    Status got = detail::to_status(graft_evaluations_compare(before.get(), handle_.get(), &comparison), context_);
    if (!got.ok()) return got;
    return comparison;
  }
  /// What the trainer makes of it: graft_trainer_observe.
  Result<graft_verdict> observed_by(Trainer& trainer, const WatchOptions& options) const {
    const detail::RawWatchOptions raw(options);
    auto verdict = detail::sized<graft_verdict>();
    Status got = detail::to_status(graft_trainer_observe(trainer.get(), handle_.get(), raw.get(), &verdict), context_);
    if (!got.ok()) return got;
    return verdict;
  }
  graft_evaluation* get() const { return handle_.get(); }  ///< for what only the C ABI has

 private:
  Evaluation(graft_evaluation* handle, graft_context* context) : handle_(handle), context_(context) {}
  template <typename Make>
  static Result<Evaluation> make(const EvaluationOptions& options, const graft_trainer_options* training,
                                 graft_context* context, Make call) {
    const std::string metrics = detail::joined(options.metrics);
    auto raw = detail::sized<graft_evaluation_options>();
    raw.metrics = detail::or_null(metrics);
    raw.confusion = options.confusion ? 1 : 0;
    raw.outcomes = options.outcomes ? 1 : 0;
    raw.training = training;
    graft_evaluation* made = nullptr;
    const graft_status code = call(&raw, &made);
    return detail::made(code, context, Evaluation(made, context));
  }
  detail::Handle<graft_evaluation, graft_evaluation_destroy> handle_;
  graft_context* context_;
};

}  // namespace v0
}  // namespace graft
