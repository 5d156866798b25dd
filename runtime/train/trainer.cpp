#include "runtime/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/train/optimizer.h"

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
                   plan_micro_batch(model_, options_, plan_, samples, device_.caps(), trainer_options_.request.plan));
  GRAFT_TRY_ASSIGN(Runner runner, make_runner(std::move(sized)));
  training_.push_back(std::move(runner));
  return &training_.back();
}

Result<Trainer::Runner*> Trainer::evaluation_runner(std::int64_t samples) {
  for (Runner& runner : evaluation_) {
    if (runner.samples == samples) return &runner;
  }
  GRAFT_TRY_ASSIGN(SizedPlan sized, plan_evaluation(model_, options_, plan_.residents, samples, device_.caps(),
                                                    trainer_options_.request.plan));
  GRAFT_TRY_ASSIGN(Runner runner, make_runner(std::move(sized)));
  evaluation_.push_back(std::move(runner));
  return &evaluation_.back();
}

/// Rows or elements that the loss is a mean of. Labels that no class has are found here, before anything runs.
Result<std::uint64_t> Trainer::count_of(const data::Batch& batch) const {
  const auto label = std::find_if(fields_.begin(), fields_.end(),
                                  [](const data::Field& field) { return field.role == data::Role::label; });
  const auto field = static_cast<std::size_t>(label - fields_.begin());
  const std::uint64_t rows = label->shape.elements();
  if (options_.loss.kind != Loss::cross_entropy) return batch.count() * rows;
  const std::int64_t classes = (plan_.training.empty() ? plan_.evaluation : plan_.training).front().loss.classes;
  const std::span<const std::byte> bytes = batch.field(field);
  std::uint64_t count = 0;
  for (std::uint64_t i = 0; i < batch.count() * rows; ++i) {
    std::int32_t value = 0;
    std::memcpy(&value, bytes.data() + 4 * i, 4);
    if (value == options_.loss.ignore_index) continue;
    if (value < 0 || value >= classes) {
      return invalid("Sample ", batch.first() + i / rows, " of epoch ", batch.epoch(), " has the label ", value,
                     ", but the model has ", classes, " classes.");
    }
    ++count;
  }
  return count;
}

Result<Metrics> Trainer::run(Runner& runner, const data::Batch& batch, std::uint64_t first, StepState& state) {
  runner.feeder.copy(batch, first, *runner.program);
  GRAFT_TRY(runner.program->run({}, state));
  Metrics metrics;
  metrics.loss_sum = scalar(*runner.program, kLossOutput);
  metrics.correct = scalar(*runner.program, kCorrectOutput);
  metrics.top5 = scalar(*runner.program, kTop5Output);
  metrics.has_correct = has_output(*runner.program, kCorrectOutput);
  metrics.has_top5 = has_output(*runner.program, kTop5Output);
  return metrics;
}

Result<Metrics> Trainer::run_pieces(const data::Batch& batch, bool training, StepState& state) {
  Metrics total;
  GRAFT_TRY_ASSIGN(total.count, count_of(batch));
  state.loss_weight = total.count == 0 ? 0.0f : static_cast<float>(1.0 / static_cast<double>(total.count));
  const auto micro = static_cast<std::uint64_t>(plan_.micro_batch);
  for (std::uint64_t first = 0; first < batch.count(); first += micro) {
    const auto samples = static_cast<std::int64_t>(std::min(micro, batch.count() - first));
    GRAFT_TRY_ASSIGN(Runner * runner, training ? training_runner(samples) : evaluation_runner(samples));
    GRAFT_TRY_ASSIGN(const Metrics part, run(*runner, batch, first, state));
    if (training) last_samples_ = samples;
    total.add(part);
    ++state.micro_step;
  }
  return total;
}

/// Plans what a step will run, so that only the device can fail between its micro-batches, and clears what a step that
/// failed has left in the accumulators.
Status Trainer::prepare_step(std::uint64_t samples) {
  const auto micro = static_cast<std::uint64_t>(plan_.micro_batch);
  if (samples >= micro) GRAFT_TRY(training_runner(plan_.micro_batch));
  if (samples % micro != 0) GRAFT_TRY(training_runner(static_cast<std::int64_t>(samples % micro)));
  if (!half_done_) return {};
  for (const TrainedTensor& tensor : plan_.tensors) GRAFT_TRY(memory_->fill(tensor.accumulator, 0));
  half_done_ = false;
  return {};
}

Result<StepResult> Trainer::train_step(const data::Batch& batch) {
  if (plan_.training.empty()) return invalid("This trainer was made for evaluation alone.");
  if (batch.count() > static_cast<std::uint64_t>(options_.batch)) {
    return invalid("A batch of ", batch.count(), " samples came, but the plan is for ", options_.batch, ".");
  }
  StepResult result;
  result.learning_rate = learning_rate();
  StepState state;
  state.seed = state_.seed;
  set_step(options_, state_.step, state);
  GRAFT_TRY(prepare_step(batch.count()));
  half_done_ = update_ != nullptr;
  GRAFT_TRY_ASSIGN(result.metrics, run_pieces(batch, true, state));
  const Program* last = update_.get();
  if (update_) {
    GRAFT_TRY(update_->run({}, state));
  } else {
    GRAFT_TRY_ASSIGN(Runner * runner, training_runner(static_cast<std::int64_t>(batch.count())));
    last = runner->program.get();
  }
  half_done_ = false;
  if (options_.clip_norm > 0) result.gradient_norm = std::sqrt(scalar(*last, kSquaredNormOutput));
  if (!std::isfinite(result.metrics.loss_sum)) {
    return error(Code::invalid_argument, "The loss of step ", state_.step, " is ", result.metrics.loss_sum,
                 ": the input holds such numbers, or the learning rate of ", result.learning_rate, " is too large.");
  }
  ++state_.step;
  if (batch.epoch() != state_.epoch) {
    state_.epoch = batch.epoch();
    state_.epoch_metrics = {};
  }
  state_.epoch_metrics.add(result.metrics);
  state_.cursor = batch.after();
  return result;
}

std::vector<Program*> Trainer::last_programs() {
  std::vector<Program*> programs;
  for (Runner& runner : training_) {
    if (runner.samples == last_samples_) programs.push_back(runner.program.get());
  }
  if (!programs.empty() && update_) programs.push_back(update_.get());
  return programs;
}

Result<Metrics> Trainer::evaluate(data::Source& source) {
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
    StepState state;
    GRAFT_TRY_ASSIGN(const Metrics metrics, run_pieces(*batch, false, state));
    total.add(metrics);
  }
}

}  // namespace graft::train
