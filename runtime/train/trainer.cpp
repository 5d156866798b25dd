#include "runtime/train/trainer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "runtime/train/optimizer.h"
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

/// Without the count.
Metrics metrics_of(const Program& program) {
  Metrics metrics;
  metrics.loss_sum = scalar(program, kLossOutput);
  metrics.correct = scalar(program, kCorrectOutput);
  metrics.top5 = scalar(program, kTop5Output);
  metrics.has_correct = has_output(program, kCorrectOutput);
  metrics.has_top5 = has_output(program, kTop5Output);
  return metrics;
}

}  // namespace

void Metrics::add(const Metrics& other) {
  loss_sum += other.loss_sum;
  count += other.count;
  correct += other.correct;
  top5 += other.top5;
  has_correct = has_correct || other.has_correct;
  has_top5 = has_top5 || other.has_top5;
}

double Trainer::learning_rate() const {
  return options_.optimizer.learning_rate * learning_rate_factor(options_.schedule, state_.step);
}

Result<Trainer::Runner*> Trainer::training_runner(std::int64_t samples) {
  for (Runner& runner : training_) {
    if (runner.samples == samples) return &runner;
  }
  GRAFT_TRY_ASSIGN(SizedPlan sized,
                   plan_micro_batch(model_, options_, plan_, samples, device_.target(), trainer_options_.request.plan));
  GRAFT_TRY_ASSIGN(Runner runner, make_runner(std::move(sized)));
  training_.push_back(std::move(runner));
  return &training_.back();
}

Result<Trainer::Runner*> Trainer::evaluation_runner(std::int64_t samples) {
  for (Runner& runner : evaluation_) {
    if (runner.samples == samples) return &runner;
  }
  PlanOptions options = trainer_options_.request.plan;
  options.budget = 0;
  options.arena_limit = plan_.arena_bytes();
  GRAFT_TRY_ASSIGN(SizedPlan sized,
                   plan_evaluation(model_, options_, plan_.residents, samples, device_.target(), options));
  GRAFT_TRY_ASSIGN(Runner runner, make_runner(std::move(sized)));
  evaluation_.push_back(std::move(runner));
  return &evaluation_.back();
}

/// Rows or elements that the loss is a mean of.
std::uint64_t Trainer::count_of(const data::Batch& batch) const {
  const auto label = std::find_if(fields_.begin(), fields_.end(),
                                  [](const data::Field& field) { return field.role == data::Role::label; });
  const auto field = static_cast<std::size_t>(label - fields_.begin());
  const std::uint64_t rows = label->shape.elements();
  if (options_.loss.kind != Loss::cross_entropy) return batch.count() * rows;
  const std::span<const std::byte> bytes = batch.field(field);
  std::uint64_t count = 0;
  for (std::uint64_t i = 0; i < batch.count() * rows; ++i) {
    std::int32_t value = 0;
    std::memcpy(&value, bytes.data() + 4 * i, 4);
    count += value == options_.loss.ignore_index ? 0 : 1;
  }
  return count;
}

/// Runs a program, or ends the run of it that failed.
Status Trainer::execute(Program& program, const StepState& state) {
  const bool going_on = unfinished_ == &program;
  unfinished_ = nullptr;
  Status status = of_device(going_on ? program.resume() : program.run({}, state));
  if (!status.ok() && program.unfinished()) unfinished_ = &program;
  return status;
}

Status Trainer::check_settled() const {
  if (!memory_) {
    return error(Code::out_of_memory,
                 "The training state waits with the host for device memory: a step or set_budget() tries again.");
  }
  if (unfinished_ == nullptr) return {};
  return invalid("Step ", state_.step, " failed on the way and must be asked for again first.");
}

Result<Metrics> Trainer::run(Runner& runner, const data::Batch& batch, std::uint64_t first, const StepState& state) {
  if (unfinished_ == nullptr) {
    const PhaseScope scope(trainer_options_.program.observer, HostPhase::upload);
    runner.feeder.copy(batch, first, *runner.program);
  }
  GRAFT_TRY(execute(*runner.program, state));
  submissions_ += runner.program->submissions();
  return metrics_of(*runner.program);
}

/// Plans what a step will run, so that only the device can fail between its micro-batches.
Status Trainer::prepare_step(const data::Batch& batch) {
  if (!memory_) GRAFT_TRY(check_settled());
  if (plan_.training.empty()) return invalid("This trainer was made for evaluation alone.");
  if (batch.count() > static_cast<std::uint64_t>(options_.batch)) {
    return invalid("A batch of ", batch.count(), " samples came, but the plan is for ", options_.batch, ".");
  }
  if (state_.samples_done > batch.count()) {
    return invalid(state_.samples_done, " samples of the step's batch are done, but it now has ", batch.count(),
                   "; a step goes on with the batch that it began with.");
  }
  const auto micro = static_cast<std::uint64_t>(plan_.micro_batch);
  if (batch.count() >= micro) GRAFT_TRY(training_runner(plan_.micro_batch));
  if (batch.count() % micro != 0) GRAFT_TRY(training_runner(static_cast<std::int64_t>(batch.count() % micro)));
  // All of the batch before its first micro-batch runs, so that a step that is refused changed nothing.
  const std::uint64_t samples = state_.samples_done == 0 ? batch.count() : std::min(micro, batch.count());
  const std::uint64_t first = std::min(state_.samples_done, batch.count() - samples);
  GRAFT_TRY(training_.front().feeder.check(batch, first, samples));
  count_ = count_of(batch);
  if (count_ > 0 || batch.count() == 0) return {};
  return invalid("All labels of step ", state_.step, "'s batch are ", options_.loss.ignore_index,
                 ", which is ignored: there is nothing to learn from.");
}

/// An error where the run is not to go on from a step that gave this.
Status Trainer::check_loss(const StepResult& result, std::uint64_t skipped_in_row) const {
  const bool finite = std::isfinite(result.metrics.loss_sum);
  if (!result.skipped && !finite) {
    return error(Code::invalid_argument, "The loss of step ", state_.step, " is ", result.metrics.loss_sum,
                 ": the input holds such numbers, or the learning rate of ", result.learning_rate, " is too large.");
  }
  if (skipped_in_row < kMostSkipped) return {};
  if (finite) {
    return error(Code::invalid_argument, skipped_in_row, " steps in a row, up to step ", state_.step,
                 ", were left out: their gradients are not finite, although the loss scale came down to ",
                 result.loss_scale.value_or(0), ". The learning rate of ", result.learning_rate,
                 " may be too large, or gradients do not fit ", dtype_name(options_.precision), ".");
  }
  return error(Code::invalid_argument, skipped_in_row, " steps in a row, up to step ", state_.step,
               ", were left out: the loss is ", result.metrics.loss_sum, ". The forward pass overflows ",
               dtype_name(options_.precision),
               " (bf16 and f32 reach further), the input holds such numbers, or the learning rate of ",
               result.learning_rate, " is too large.");
}

Result<StepResult> Trainer::end_step(const data::Batch& batch, const Program& last) {
  StepResult result;
  std::uint64_t skipped_in_row = 0;
  result.learning_rate = learning_rate();
  result.metrics = state_.step_metrics;
  result.metrics.count = count_;
  if (options_.clip_norm > 0) result.gradient_norm = std::sqrt(scalar(last, kSquaredNormOutput));
  if (const auto scale = last.output(kLossScaleState); scale.size() == sizeof(float) * kLossScaleFields) {
    std::array<float, kLossScaleFields> fields = {};
    std::memcpy(fields.data(), scale.data(), scale.size());
    result.loss_scale = fields[kScale];
    result.skipped_steps = static_cast<std::uint64_t>(fields[kSkipped]);
    result.skipped = fields[kGrowing] < 0;
    if (result.skipped) skipped_in_row = static_cast<std::uint64_t>(-fields[kGrowing]);
  }
  result.submissions = std::exchange(submissions_, 0);
  state_.samples_done = 0;
  state_.step_metrics = {};
  GRAFT_TRY(check_loss(result, skipped_in_row));
  ++state_.step;
  if (batch.epoch() != state_.epoch) {
    state_.epoch = batch.epoch();
    state_.epoch_metrics = {};
  }
  if (std::isfinite(result.metrics.loss_sum)) state_.epoch_metrics.add(result.metrics);
  state_.cursor = batch.after();
  return result;
}

Result<std::optional<StepResult>> Trainer::try_micro_step(const data::Batch& batch) {
  GRAFT_TRY(prepare_step(batch));
  const auto micro = static_cast<std::uint64_t>(plan_.micro_batch);
  StepState state;
  state.seed = state_.seed;
  set_step(options_, state_.step, state);
  state.micro_step = static_cast<std::uint32_t>(state_.samples_done / micro);
  state.loss_weight = count_ == 0 ? 0.0f : static_cast<float>(1.0 / static_cast<double>(count_));
  const Program* last = update_.get();
  if (state_.samples_done < batch.count()) {
    const std::uint64_t samples = std::min(micro, batch.count() - state_.samples_done);
    GRAFT_TRY_ASSIGN(Runner * runner, training_runner(static_cast<std::int64_t>(samples)));
    GRAFT_TRY_ASSIGN(const Metrics part, run(*runner, batch, state_.samples_done, state));
    const PhaseScope scope(trainer_options_.program.observer, HostPhase::readback);
    keep_fetched(*runner->program, state_.samples_done, samples);
    state_.step_metrics.add(part);
    state_.samples_done += samples;
    if (!update_) last = runner->program.get();
  }
  if (state_.samples_done < batch.count()) return std::optional<StepResult>();
  if (update_) {
    GRAFT_TRY(execute(*update_, state));
    submissions_ += update_->submissions();
  }
  const PhaseScope scope(trainer_options_.program.observer, HostPhase::readback);
  GRAFT_TRY_ASSIGN(const StepResult result, end_step(batch, *last));
  return std::optional(result);
}

Result<StepResult> Trainer::train_step(const data::Batch& batch) {
  for (;;) {
    GRAFT_TRY_ASSIGN(const auto result, micro_step(batch));
    if (result) return *result;
  }
}

Result<Metrics> Trainer::try_evaluate(data::Source& source) {
  GRAFT_TRY(check_settled());
  data::LoaderOptions options;
  options.batch = static_cast<std::uint64_t>(plan_.micro_batch);
  options.shuffle = false;
  options.epochs = 1;
  options.allocator = trainer_options_.allocator;
  GRAFT_TRY_ASSIGN(const auto loader, data::Loader::create(source, options));
  Metrics total;
  for (;;) {
    GRAFT_TRY_ASSIGN(const data::Batch* batch, loader->next());
    if (batch == nullptr) return total;
    const std::uint64_t count = count_of(*batch);
    StepState state;
    state.loss_weight = count == 0 ? 0.0f : static_cast<float>(1.0 / static_cast<double>(count));
    GRAFT_TRY_ASSIGN(Runner * runner, evaluation_runner(static_cast<std::int64_t>(batch->count())));
    GRAFT_TRY(runner->feeder.check(*batch, 0, batch->count()));
    runner->feeder.copy(*batch, 0, *runner->program);
    GRAFT_TRY(of_device(runner->program->run({}, state)));
    total.add(metrics_of(*runner->program));
    total.count += count;
  }
}

}  // namespace graft::train
