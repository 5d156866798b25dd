// Metrics of predictions, as scikit-learn defines them, in double precision on the host.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/train/run/evaluated.h"

namespace graft::train {

enum class MetricKind : std::uint8_t {
  loss,
  accuracy,
  top_k,
  precision,
  recall,
  f1,
  auroc,
  iou,
  mae,
  mse,
  rmse,
  r2,
  perplexity,
};
enum class Average : std::uint8_t { macro, micro, weighted };

/// "f1" (macro), "f1_micro", "top3", ...
struct Metric {
  MetricKind kind{};
  Average average = Average::macro;
  std::uint64_t k = 1;  ///< top_k
  std::string name;
};
Result<Metric> parse_metric(std::string_view name);
/// "f1,auroc": at least one, each once.
Result<std::vector<Metric>> parse_metrics(std::string_view names);
/// What there is, for sentences.
std::string_view metric_names();
/// Whether a larger value is a better one.
bool larger_is_better(const Metric& metric);
/// Whether it needs predictions: the loss and the perplexity do not.
bool needs_predictions(const Metric& metric);

struct MetricValue {
  std::string name;
  double value = 0;                    ///< NaN where it is not defined
  std::vector<double> per_class = {};  ///< precision, recall, f1, iou, auroc; NaN for classes that do not occur
};

/// Rows by what they are and what they were taken for.
struct ConfusionMatrix {
  std::uint64_t classes = 0;
  std::vector<std::uint64_t> counts;  ///< [true, predicted]
};

/// What an evaluation has seen so far. Sample weights do not count, and ignored labels are left out.
class MetricSet {
 public:
  static Result<MetricSet> create(std::vector<Metric> metrics, const TrainOptions& options, bool confusion = false);

  void clear();
  Status add(const EvaluatedBatch& batch);
  /// In the order asked for. An error names a metric that has no meaning for this loss.
  Result<std::vector<MetricValue>> values(const Metrics& totals) const;
  const std::optional<ConfusionMatrix>& confusion() const { return confusion_; }

 private:
  struct Counts {
    std::uint64_t right = 0, taken = 0, real = 0;  ///< of a class: both, predicted so, labelled so
  };
  /// Running mean and squares about it.
  struct Column {
    std::uint64_t count = 0;
    double mean = 0, spread = 0, squares = 0, sizes = 0;
  };
  struct Score {
    double score;
    bool real;
  };

  Status add_class_row(const EvaluatedRows& rows, std::uint64_t row);
  Status add_yes_or_no(const EvaluatedRows& rows);
  void add_number(const EvaluatedRows& rows, std::uint64_t row);
  Status add_score(std::size_t column, double score, bool real);
  bool wants(MetricKind kind) const;
  Result<MetricValue> value_of(const Metric& metric, const Metrics& totals) const;
  MetricValue by_class(const Metric& metric) const;
  MetricValue auroc(const Metric& metric) const;
  MetricValue of_columns(const Metric& metric) const;

  std::vector<Metric> metrics_;
  TrainOptions options_;
  bool wants_confusion_ = false;
  Task task_ = Task::none;
  std::uint64_t rows_ = 0, right_rows_ = 0;
  std::vector<std::uint64_t> right_at_;  ///< by metric: of top_k
  std::vector<Counts> counts_;
  std::vector<Column> columns_;
  std::vector<std::vector<Score>> scores_;  ///< by class
  std::uint64_t kept_scores_ = 0;
  std::optional<ConfusionMatrix> confusion_;
};

}  // namespace graft::train
