#include "runtime/train/step/step_result.h"

#include <array>
#include <cstring>

#include "runtime/train/step/loss.h"
#include "runtime/train/step/optimizer.h"
#include "runtime/train/step/training_graph.h"
#include "shaders/loss_scale/loss_scale_state.h"

namespace graft::train {
namespace {

/// A scalar output of the last run; 0 where there is none.
double scalar(const Program& program, std::string_view name) {
  const std::span<const std::byte> bytes = program.output(name);
  float value = 0;
  if (bytes.size() == sizeof value) std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

bool has_output(const Program& program, std::string_view name) { return !program.output(name).empty(); }

enum class Refused : std::uint8_t { none, step, parameters };

Refused refused_by(const Program& last) {
  if (std::isnan(scalar(last, kUpdateFactorOutput))) return Refused::step;
  return std::isnan(scalar(last, kSeparateFactorsOutput)) ? Refused::parameters : Refused::none;
}

/// An error where the run is not to go on from a step that gave this.
Status check_loss(const TrainOptions& options, std::uint64_t step, const StepResult& result,
                  std::uint64_t skipped_in_row, Refused refused) {
  const bool finite = std::isfinite(result.metrics.loss_sum);
  if (refused != Refused::none || (!result.skipped && !finite)) {
    const std::string what = finite ? cat("A gradient of step ", step, " is not finite, or their norm is not")
                                    : cat("The loss of step ", step, " is ", result.metrics.loss_sum);
    return error(Code::invalid_argument, what,
                 ": its samples hold numbers that are too large, or the learning rate of ", result.learning_rate,
                 " is. ",
                 finite && refused == Refused::parameters
                     ? "Its parameter did not move, but others may have taken the step (optimizer_in_backward)."
                     : "The step was not taken and nothing changed.");
  }
  if (skipped_in_row < kMostSkipped) return {};
  if (finite) {
    return error(Code::invalid_argument, skipped_in_row, " steps in a row, up to step ", step,
                 ", were left out: their gradients are not finite, although the loss scale came down to ",
                 result.loss_scale.value_or(0), ". The learning rate of ", result.learning_rate,
                 " may be too large, or gradients do not fit ", dtype_name(options.precision), ".");
  }
  return error(Code::invalid_argument, skipped_in_row, " steps in a row, up to step ", step,
               ", were left out: the loss is ", result.metrics.loss_sum, ". The forward pass overflows ",
               dtype_name(options.precision),
               " (bf16 and f32 reach further), the input holds such numbers, or the learning rate of ",
               result.learning_rate, " is too large.");
}

}  // namespace

void Metrics::add(const Metrics& other) {
  loss_sum += other.loss_sum;
  count += other.count;
  weight += other.weight;
  correct += other.correct;
  top5 += other.top5;
  has_correct = has_correct || other.has_correct;
  has_top5 = has_top5 || other.has_top5;
}

void TrainingState::end_step(const Metrics& metrics, const data::Batch& batch) {
  ++step;
  if (batch.epoch() != epoch) {
    epoch = batch.epoch();
    epoch_metrics = {};
  }
  if (std::isfinite(metrics.loss_sum)) epoch_metrics.add(metrics);
  cursor = batch.after();
}

Metrics metrics_of(const Program& program) {
  Metrics metrics;
  metrics.loss_sum = scalar(program, kLossOutput);
  metrics.correct = scalar(program, kCorrectOutput);
  metrics.top5 = scalar(program, has_output(program, kMarginOutput) ? kMarginOutput : kTop5Output);
  metrics.has_correct = has_output(program, kCorrectOutput);
  metrics.has_top5 = has_output(program, kTop5Output);
  return metrics;
}

Result<StepResult> step_result(const TrainOptions& options, std::uint64_t step, const Metrics& metrics,
                               const Program& last) {
  StepResult result;
  std::uint64_t skipped_in_row = 0;
  result.learning_rate = learning_rate_of(options, step);
  result.metrics = metrics;
  if (options.clip_norm > 0) result.gradient_norm = std::sqrt(scalar(last, kSquaredNormOutput));
  if (const auto scale = last.output(kLossScaleState); scale.size() == sizeof(float) * kLossScaleFields) {
    std::array<float, kLossScaleFields> fields = {};
    std::memcpy(fields.data(), scale.data(), scale.size());
    result.loss_scale = fields[kScale];
    result.skipped_steps = static_cast<std::uint64_t>(fields[kSkipped]);
    result.skipped = fields[kGrowing] < 0;
    if (result.skipped) skipped_in_row = static_cast<std::uint64_t>(-fields[kGrowing]);
  }
  GRAFT_TRY(check_loss(options, step, result, skipped_in_row, refused_by(last)));
  return result;
}

double learning_rate_of(const TrainOptions& options, std::uint64_t step) {
  return options.optimizer.learning_rate * learning_rate_factor(options.schedule, step);
}

}  // namespace graft::train
