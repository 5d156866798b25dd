// What a model said of each sample, and how two models differ.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/train/run/evaluated.h"

namespace graft::train {

/// Of all rows of a data set, in their order.
class Outcomes {
 public:
  explicit Outcomes(const TrainOptions& options) : options_(options) {}
  void clear();
  Status add(const EvaluatedBatch& batch);

  Task task() const { return task_; }
  std::uint64_t samples() const { return samples_; }
  std::uint64_t rows_per_sample() const { return rows_; }
  std::uint64_t classes() const { return classes_; }
  // By row; a label below 0 is ignored. Of yes_or_no 0 and 1.
  const std::vector<std::int32_t>& labels() const { return labels_; }
  const std::vector<std::int32_t>& predicted() const { return predicted_; }
  /// By sample: the mean square of what it was off by. Of a regression.
  const std::vector<double>& errors() const { return errors_; }

 private:
  TrainOptions options_;
  Task task_ = Task::none;
  std::uint64_t samples_ = 0, rows_ = 0, classes_ = 0;
  std::vector<std::int32_t> labels_;
  std::vector<std::int32_t> predicted_;
  std::vector<double> errors_;
};

struct ClassComparison {
  std::int32_t label = 0;
  std::uint64_t rows = 0, old_right = 0, new_right = 0;
};

/// Two models on the same data. Rows that only one of them has right decide McNemar's test; of a regression, samples
/// that one of them is closer to (a sign test).
struct Comparison {
  Task task = Task::none;
  std::uint64_t samples = 0, rows = 0;
  std::uint64_t both_right = 0, only_old = 0, only_new = 0, neither = 0;
  double p_value = 1;
  bool exact = true;  ///< of the binomial distribution; else of chi-squared with a correction for continuity
  std::vector<ClassComparison> classes;
  std::vector<std::uint64_t>
      changed;                        ///< samples of which another class is predicted; of a regression, those in `lost`
  std::vector<std::uint64_t> lost;    ///< samples with a row that only the old one has right
  std::vector<std::uint64_t> gained;  ///< the same of the new one
};

/// An error where they are not of the same data.
Result<Comparison> compare(const Outcomes& before, const Outcomes& now);

/// The two-sided p of McNemar's test for `b` and `c` rows that only one of two models has right: exact up to 25 of
/// them.
double mcnemar(std::uint64_t b, std::uint64_t c, bool& exact);

}  // namespace graft::train
