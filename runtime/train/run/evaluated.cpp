#include "runtime/train/run/evaluated.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace graft::train {
namespace {

template <typename T>
T number_at(std::span<const std::byte> bytes, std::uint64_t index) {
  T number{};
  std::memcpy(&number, bytes.data() + sizeof number * index, sizeof number);
  return number;
}

Task task_of(const LossOptions& term, const LossNodes& loss) {
  switch (term.kind) {
    case Loss::cross_entropy: return loss.class_axes[0] != 0 ? Task::classes : Task::none;
    case Loss::focal:
    case Loss::dice: return loss.class_axes[0] != 0 ? Task::classes : Task::yes_or_no;
    case Loss::bce: return Task::yes_or_no;
    case Loss::mse:
    case Loss::l1:
    case Loss::huber:
    case Loss::smooth_l1: return Task::regression;
    default: return Task::none;
  }
}

}  // namespace

std::int32_t EvaluatedRows::label(std::uint64_t row) const { return number_at<std::int32_t>(targets, row); }

double EvaluatedRows::target(std::uint64_t row) const {
  return target_dtype == DType::i32 ? static_cast<double>(number_at<std::int32_t>(targets, row))
                                    : static_cast<double>(number_at<float>(targets, row));
}

std::uint64_t EvaluatedRows::predicted(std::uint64_t row) const {
  std::uint64_t best = 0;
  for (std::uint64_t c = 1; c < classes; ++c) {
    if (logit(row, c) > logit(row, best)) best = c;
  }
  return best;
}

std::uint64_t EvaluatedRows::rank_of_label(std::uint64_t row) const {
  const auto wanted = static_cast<std::uint64_t>(label(row));
  std::uint64_t before = 0;
  for (std::uint64_t c = 0; c < classes; ++c) {
    const bool larger = logit(row, c) > logit(row, wanted);
    before += larger || (logit(row, c) == logit(row, wanted) && c > wanted) ? 1 : 0;
  }
  return before;
}

double EvaluatedRows::log_sum(std::uint64_t row) const {
  double most = logit(row, 0);
  for (std::uint64_t c = 1; c < classes; ++c) most = std::max<double>(most, logit(row, c));
  double sum = 0;
  for (std::uint64_t c = 0; c < classes; ++c) sum += std::exp(logit(row, c) - most);
  return most + std::log(sum);
}

Result<EvaluatedRows> rows_of(const EvaluatedBatch& batch, const TrainOptions& options) {
  EvaluatedRows rows;
  const LossOptions& term = options.loss;
  rows.task = task_of(term, batch.loss);
  rows.samples = batch.batch.count();
  rows.ignore_index = term.ignore_index;
  const std::string name = cat(kPredictionPrefix, 0);
  const auto& outputs = batch.program.plan().outputs;
  const auto port = std::ranges::find(outputs, name, [](const PlanPort& output) { return output.name; });
  const auto field = batch.feeder.target_field(0);
  if (port == outputs.end() || !field || rows.samples == 0) {
    rows.task = Task::none;
    return rows;
  }
  const std::span<const std::byte> bytes = batch.program.output(name);
  rows.predictions = {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
  rows.targets = batch.batch.field(*field);
  rows.target_dtype = batch.feeder.fields()[*field].dtype;
  const Shape& shape = port->shape;
  std::size_t axis = batch.loss.class_axes[0];
  // Columns: the axis behind the batch's, as networks for images have it; the last one without height and width.
  if (axis == 0 && shape.rank() >= 2) axis = 1;
  if (axis != 0) {
    rows.classes = static_cast<std::uint64_t>(shape[axis].value());
    rows.inner = shape.elements(axis + 1, shape.rank());
  }
  // An output without a batch axis, of one sample: its rows are what metrics are over.
  if (shape.rank() > 0 && shape[0] != Dim(static_cast<std::int64_t>(rows.samples))) {
    rows.samples = static_cast<std::uint64_t>(shape[0].value());
  }
  rows.rows =
      shape.elements(1, shape.rank()) / (rows.task == Task::classes ? std::max<std::uint64_t>(rows.classes, 1) : 1);
  if (rows.targets.size() < rows.samples * rows.rows * 4) {
    return internal_error("An evaluated batch has too few targets.");
  }
  return rows;
}

}  // namespace graft::train
