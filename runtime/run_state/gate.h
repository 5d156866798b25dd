// Whether new weights may take the place of old ones: both are evaluated on data that neither was trained on.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/run_state/training.h"
#include "runtime/train/run/metrics.h"
#include "runtime/train/run/outcomes.h"

namespace graft {

/// What one model gives on a data set.
struct Evaluation {
  train::Metrics totals;
  std::vector<train::MetricValue> values;
  std::optional<train::ConfusionMatrix> confusion;
  train::Outcomes outcomes;
};
struct EvaluationOptions {
  train::TrainOptions train;
  std::vector<train::Metric> metrics;
  bool confusion = false;
  bool outcomes = false;  ///< keep what is said of each sample
  train::TrainerOptions trainer;
};
/// Weights are those of the model.
Result<Evaluation> evaluate_model(gpu::Device& device, const Model& model, data::Source& source,
                                  const EvaluationOptions& options);
/// The same of a trainer's weights, which was made with TrainOptions::predictions where predictions are asked for.
Result<Evaluation> evaluate_trainer(train::Trainer& trainer, data::Source& source, const EvaluationOptions& options);

/// "accuracy>=0.9", "loss<=0.3".
struct GateCondition {
  train::Metric metric;
  bool at_least = true;  ///< >=, else <=
  double bound = 0;
  std::string text;
};
Result<GateCondition> parse_gate_condition(std::string_view text);

struct GateOptions {
  std::vector<GateCondition> conditions;
  double margin = 0;  ///< by how much a metric may be worse than the old model's
};

struct GateRow {
  std::string metric;
  double now = 0;
  std::optional<double> before;
  bool holds = true;     ///< the condition
  bool no_worse = true;  ///< than the old one by more than the margin
};

struct GateReport {
  bool passed = false;
  std::vector<GateRow> rows;
  std::optional<train::Comparison> comparison;  ///< where there is an old model
  std::string reason;                           ///< one sentence, where it did not pass
};

/// `before`: null where there is no old model.
Result<GateReport> judge(const Evaluation& now, const Evaluation* before, const GateOptions& options);

/// The file that a refused model goes to: "live.rejected.graft" of "live.graft".
std::string rejected_path(const std::string& path);

}  // namespace graft
