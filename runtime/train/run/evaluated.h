// One batch of an evaluation as rows of predictions and what they should have been.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/train/run/trainer.h"

namespace graft::train {

enum class Task : std::uint8_t {
  classes,     ///< one label of several for each row: cross entropy, focal and dice of labels
  yes_or_no,   ///< one logit for each target of 0 or 1: bce, focal and dice of targets
  regression,  ///< numbers
  none,        ///< nothing to compare with a target: the loss says it all
};

/// Borrowed from a batch. A sample has `rows` rows; a row is one label, or one number of yes_or_no and regression.
struct EvaluatedRows {
  Task task = Task::none;
  std::uint64_t samples = 0;
  std::uint64_t rows = 0;     ///< of a sample
  std::uint64_t classes = 1;  ///< of a row of Task::classes; else the columns that rows are told apart by
  std::uint64_t inner = 1;    ///< elements between two classes, or columns
  std::int32_t ignore_index = -100;
  std::span<const float> predictions;
  std::span<const std::byte> targets;  ///< 4 bytes for each row
  DType target_dtype = DType::f32;

  /// Of Task::classes.
  float logit(std::uint64_t row, std::uint64_t c) const {
    return predictions[(row / inner * classes + c) * inner + row % inner];
  }
  std::int32_t label(std::uint64_t row) const;
  bool is_ignored(std::uint64_t row) const { return label(row) == ignore_index; }
  /// The class of the largest logit, of equal ones the first.
  std::uint64_t predicted(std::uint64_t row) const;
  /// How many logits go before the label's: larger ones, and equal ones of higher index, as in scikit-learn.
  std::uint64_t rank_of_label(std::uint64_t row) const;
  /// The logarithm of the probability of each class is its logit less this.
  double log_sum(std::uint64_t row) const;
  // Of the others.
  double target(std::uint64_t row) const;
  std::uint64_t column(std::uint64_t row) const { return row / inner % classes; }
};

/// Of the loss's first term.
Result<EvaluatedRows> rows_of(const EvaluatedBatch& batch, const TrainOptions& options);

}  // namespace graft::train
