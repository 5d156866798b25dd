#include "runtime/train/run/trainer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "runtime/core/features.h"
#include "runtime/exec/lost_device.h"
#include "runtime/train/step/optimizer.h"
#include "shaders/loss_scale/loss_scale_state.h"

namespace graft::train {
Trainer::Trainer(TrainingSetup setup, TrainingPlan plan)
    : setup_(std::move(setup)),
      run_(setup_, execution_, std::move(plan)),
      shortages_(setup_, state_, execution_, run_) {
  state_.seed = setup_.options.seed;
  first_learning_rate_ = setup_.options.optimizer.learning_rate;
  terms_ = 1 + setup_.options.more_losses.size();
}

Result<std::unique_ptr<Trainer>> Trainer::create(gpu::Device& device, const Graph& model, const WeightOf& weight_of,
                                                 const TrainOptions& options, const std::vector<data::Field>& fields,
                                                 const TrainerOptions& trainer_options) {
  if (trainer_options.exchange != nullptr) {
    if (!options.fetch.empty()) return unsupported("Values of steps that several workers take cannot be fetched.");
    if (trainer_options.reopen != nullptr) return unsupported("Several workers cannot go on after a lost device.");
  }
  TrainOptions known = options;
  GRAFT_TRY(set_targets(model, fields, known));
  GRAFT_TRY_ASSIGN(TrainingPlan plan, plan_training(model, known, trainer_options.request, device.target()));
  std::unique_ptr<Trainer> trainer(
      new Trainer({&device, model, weight_of, known, fields, trainer_options}, std::move(plan)));
  GRAFT_TRY(trainer->run_.build(false));
  GRAFT_TRY(trainer->set_anchor());
  GRAFT_TRY(trainer->set_ema());
  return trainer;
}

Status Trainer::set_anchor() { return setup_.options.optimizer.proximal == 0 ? ok_status() : copy_parameters(kAnchor); }

Status Trainer::set_ema() { return setup_.options.optimizer.ema == 0 ? ok_status() : copy_parameters(kEma); }

Status Trainer::copy_parameters(std::string_view suffix) {
  std::vector<std::byte> bytes;
  for (const TrainedTensor& tensor : plan().tensors) {
    bytes.resize(plan().residents.find(tensor.name)->shape.elements() * sizeof(float));
    GRAFT_TRY(read(tensor.name, bytes));
    GRAFT_TRY(write(cat(tensor.name, suffix), bytes));
  }
  return ok_status();
}

Status Trainer::read_ema(std::string_view name, std::span<std::byte> bytes) {
  GRAFT_TRY(read(name, bytes));
  const std::string mean = cat(name, kEma);
  if (plan().residents.find(mean) == nullptr) return ok_status();
  std::vector<std::byte> past(bytes.size());
  GRAFT_TRY(read(mean, past));
  const auto weight = static_cast<float>(1 - setup_.options.optimizer.ema);
  for (std::size_t at = 0; at + sizeof(float) <= bytes.size(); at += sizeof(float)) {
    float now = 0, before = 0;
    std::memcpy(&now, bytes.data() + at, sizeof now);
    std::memcpy(&before, past.data() + at, sizeof before);
    now = before + weight * (now - before);
    std::memcpy(bytes.data() + at, &now, sizeof now);
  }
  return ok_status();
}

Status Trainer::check_settled() const {
  if (!run_.is_built()) {
    return error(Code::out_of_memory,
                 "The training state waits with the host for device memory: a step or set_budget() tries again.");
  }
  if (!execution_.is_unfinished()) return {};
  return invalid("Step ", state_.step, " failed on the way and must be asked for again first.");
}

Result<Metrics> Trainer::run_micro_batch(SizedProgram& sized, const data::Batch& batch, const StepState& state) {
  if (!execution_.is_unfinished()) {
    const PhaseScope scope(setup_.trainer.program.observer, HostPhase::upload);
    sized.feeder.copy(batch, state_.samples_done, *sized.program);
  }
  GRAFT_TRY(execution_.run(*sized.program, state));
  submissions_ += sized.program->submissions();
  return metrics_of(*sized.program);
}

/// Plans what a step will run, so that only the device can fail between its micro-batches.
Status Trainer::prepare_step(const data::Batch& batch) {
  if (!run_.is_built()) GRAFT_TRY(check_settled());
  if (plan().training.empty()) return invalid("This trainer was made for evaluation alone.");
  if (batch.count() > static_cast<std::uint64_t>(setup_.options.batch)) {
    return invalid("A batch of ", batch.count(), " samples came, but the plan is for ", setup_.options.batch, ".");
  }
  const bool begun = state_.samples_done != 0 || execution_.is_unfinished();
  if (state_.samples_done > batch.count() || (begun && step_samples_ != 0 && step_samples_ != batch.count())) {
    return invalid(state_.samples_done, " samples of the step's batch are done", step_samples_ == 0 ? "" : " of ",
                   step_samples_ == 0 ? "" : cat(step_samples_), ", but it now has ", batch.count(),
                   "; a step goes on with the batch that it began with. Nothing changed.");
  }
  const auto micro = static_cast<std::uint64_t>(plan().micro_batch);
  SizedProgram* sized = nullptr;
  if (batch.count() >= micro) {
    GRAFT_TRY_ASSIGN(sized, run_.training(plan().micro_batch));
  }
  if (batch.count() % micro != 0) {
    GRAFT_TRY_ASSIGN(sized, run_.training(static_cast<std::int64_t>(batch.count() % micro)));
  }
  // All of the batch before its first micro-batch runs, so that a step that is refused changed nothing.
  const std::uint64_t samples = state_.samples_done == 0 ? batch.count() : std::min(micro, batch.count());
  const std::uint64_t first = std::min(state_.samples_done, batch.count() - samples);
  if (sized != nullptr) GRAFT_TRY(sized->feeder.check(batch, first, samples));
  weights_ = {};
  if (sized != nullptr) {
    GRAFT_TRY_ASSIGN(weights_, sized->feeder.weigh(batch, 0, batch.count()));
  }
  if (!weights_.is_nothing() || batch.count() == 0) return {};
  return nothing_counts(state_.step, weights_, setup_.options.loss.ignore_index);
}

/// The forward pass moves running statistics before anyone knows whether the step is finite.
Status Trainer::keep_statistics() {
  Capture* const copy = run_.statistics();
  if (copy == nullptr || execution_.is_unfinished()) return {};
  if (state_.samples_done != 0 && !statistics_.empty()) return {};
  GRAFT_TRY(execution_.note(copy->take()));
  statistics_.resize(copy->entries().size());
  for (std::size_t i = 0; i < statistics_.size(); ++i) {
    const std::span<const std::byte> now = copy->entries()[i].bytes;
    statistics_[i].assign(now.begin(), now.end());
  }
  return {};
}

Status Trainer::undo_statistics() {
  for (std::size_t i = 0; i < statistics_.size(); ++i) {
    GRAFT_TRY(run_.memory().write(run_.statistics()->entries()[i].resident->name, statistics_[i]));
  }
  return {};
}

Result<StepResult> Trainer::end_step(const data::Batch& batch, const Program& last) {
  Metrics metrics = std::exchange(state_.step_metrics, {});
  metrics.count = weights_.rows;
  metrics.weight = weights_.total(terms_);
  const std::uint32_t submissions = std::exchange(submissions_, 0);
  state_.samples_done = 0;
  auto ended = step_result(setup_.options, state_.step, metrics, last);
  if (!ended.ok()) {
    GRAFT_TRY(undo_statistics());
    return std::move(ended).status();
  }
  StepResult result = std::move(ended).value();
  result.submissions = submissions;
  state_.end_step(metrics, batch);
  return result;
}

Result<std::optional<StepResult>> Trainer::try_micro_step(const data::Batch& batch) {
  GRAFT_TRY(prepare_step(batch));
  GRAFT_TRY(keep_statistics());
  step_samples_ = batch.count();
  copy_is_of_now_ = false;
  const auto micro = static_cast<std::uint64_t>(plan().micro_batch);
  StepState state;
  state.seed = state_.seed;
  set_step(setup_.options, state_.step, state);
  state.micro_step = static_cast<std::uint32_t>(state_.samples_done / micro);
  weights_.to_step_state(terms_, state);
  Program* const update = run_.update();
  const Program* last = update;
  if (state_.samples_done < batch.count()) {
    const std::uint64_t samples = std::min(micro, batch.count() - state_.samples_done);
    GRAFT_TRY_ASSIGN(SizedProgram * sized, run_.training(static_cast<std::int64_t>(samples)));
    GRAFT_TRY_ASSIGN(const Metrics part, run_micro_batch(*sized, batch, state));
    const PhaseScope scope(setup_.trainer.program.observer, HostPhase::readback);
    run_.fetched().keep(*sized->program, state_.samples_done, samples);
    state_.step_metrics.add(part);
    state_.samples_done += samples;
    report_progress(state_.samples_done, batch.count());
    if (update == nullptr) last = sized->program.get();
  }
  if (state_.samples_done < batch.count()) return std::optional<StepResult>();
  if (update != nullptr) {
    if (!std::isfinite(state_.step_metrics.loss_sum)) state.loss_weight = std::nanf("");  // no step is taken
    GRAFT_TRY(execution_.run(*update, state));
    submissions_ += update->submissions();
  }
  const PhaseScope scope(setup_.trainer.program.observer, HostPhase::readback);
  GRAFT_TRY_ASSIGN(const StepResult result, end_step(batch, *last));
  return std::optional(result);
}

Result<StepResult> Trainer::train_step(const data::Batch& batch) {
  for (;;) {
    GRAFT_TRY_ASSIGN(const auto result, micro_step(batch));
    if (result) return *result;
  }
}

Result<Metrics> Trainer::try_evaluate(data::Source& source, const EvaluationReader& reader) {
  GRAFT_TRY(check_settled());
  data::LoaderOptions options;
  options.batch = static_cast<std::uint64_t>(plan().micro_batch);
  options.shuffle = false;
  options.epochs = 1;
  options.allocator = setup_.trainer.allocator;
  GRAFT_TRY_ASSIGN(const auto loader, data::Loader::create(source, options));
  Metrics total;
  std::uint64_t seen = 0;
  for (;;) {
    GRAFT_TRY_ASSIGN(const data::Batch* batch, loader->next());
    if (batch == nullptr) return total;
    GRAFT_TRY_ASSIGN(SizedProgram * sized, run_.evaluation(static_cast<std::int64_t>(batch->count())));
    GRAFT_TRY_ASSIGN(const LossWeights weights, sized->feeder.weigh(*batch, 0, batch->count()));
    StepState state;
    weights.to_step_state(terms_, state);
    GRAFT_TRY(sized->feeder.check(*batch, 0, batch->count()));
    sized->feeder.copy(*batch, 0, *sized->program);
    GRAFT_TRY(execution_.note(sized->program->run({}, state)));
    total.add(metrics_of(*sized->program));
    total.count += weights.rows;
    total.weight += weights.total(terms_);
    if (reader) GRAFT_TRY(reader({*batch, *sized->program, sized->loss, sized->feeder}));
    seen += batch->count();
    report_progress(seen, source.size().value_or(0));
  }
}

void Trainer::report_progress(std::uint64_t done, std::uint64_t total) const {
  if (const RunControl* control = setup_.trainer.program.control) control->report(Stage::samples, done, total);
}

/// The attempt with the run built, and with the host's copy that a loss of the device needs.
template <typename Try>
auto Trainer::attempt_built(Try attempt) -> decltype(attempt()) {
  if (!run_.is_built()) GRAFT_TRY(run_.build(shortages_.within_step()));
  if (copied_at_ && copy_is_of_now_) copied_at_ = state_;  // which its owner may have set
  if (kHasRecovery && setup_.trainer.reopen != nullptr && !copied_at_) GRAFT_TRY(keep_copy());
  return attempt();
}

/// Repeats the attempt where the device refuses memory, under a plan for less, and where it is lost, on another one.
/// Both have a limit for the whole call, so this ends. prepare() comes before each attempt; finish(its value) after one
/// that did what it should, and where the device is lost in it, all is done again.
template <typename Try, typename Prepare, typename Finish>
auto Trainer::on_device(Try attempt, Prepare prepare, Finish finish) -> decltype(attempt()) {
  for (int refusals = 0, losses = 0;;) {
    execution_.forget_refusal();
    auto result = [&]() -> decltype(attempt()) {
      GRAFT_TRY(prepare());
      return attempt_built(attempt);
    }();
    Status why;
    if (result.ok()) {
      why = finish(result);
      if (why.ok()) return result;
    } else {
      why = detail::to_status(std::move(result));
      if (execution_.refused()) {
        why = shortages_.answer(std::move(why), refusals);  // which may find the device lost
        if (why.ok()) continue;
      }
    }
    if (!kHasRecovery || setup_.trainer.reopen == nullptr || why.code() != Code::device_lost ||
        ++losses > kMostLosses) {
      return why;
    }
    GRAFT_TRY(recover(why));
  }
}

template <typename Try>
auto Trainer::on_device(Try attempt) -> decltype(attempt()) {
  return on_device(
      attempt, [] { return ok_status(); }, [](const auto&) { return ok_status(); });
}

/// Brings the host's copy up to date.
Status Trainer::keep_copy() {
  GRAFT_TRY(run_.copy_to_host());
  copied_at_ = state_;
  copy_is_of_now_ = true;
  return {};
}

/// The step is done, and counts once its copy is there: where the device is lost before, it is done again.
Status Trainer::keep_copy_of_step() {
  if (!kHasRecovery || setup_.trainer.reopen == nullptr) return {};
  Status kept = keep_copy();
  if (kept.ok() || kept.code() == Code::device_lost) return kept;
  copied_at_.reset();  // the next call tries again
  setup_.trainer.log(LogLevel::warning, "After step ", state_.step, " the state was not copied: ", kept.message());
  return {};
}

Status Trainer::recover(const Status& why) {
  if (!copied_at_ && !run_.has_kept()) return why;  // there is no copy of now
  setup_.trainer.log(LogLevel::warning, "In step ", state_.step, " the device was lost (", why.message(),
                     "); it is opened anew, and the step begun again.");
  shortages_.tell_before_invalidation();
  run_.tear_down();
  execution_.forget();
  if (!run_.has_kept()) {
    state_ = *copied_at_;
    copy_is_of_now_ = true;
  }
  GRAFT_TRY_ASSIGN(setup_.device, setup_.trainer.reopen());
  ++losses_;
  return {};  // the next attempt builds
}

Result<std::optional<StepResult>> Trainer::micro_step(const data::Batch& batch) {
  // What one worker began alone, all end alone, each for itself: it is the same for all.
  if (kHasGroups && is_shared() && state_.samples_done == 0) {
    GRAFT_TRY_ASSIGN(const StepResult result, shared_step(batch));
    return std::optional(result);
  }
  hash_.reset();
  return on_device([&] { return try_micro_step(batch); }, [&] { return shortages_.before_micro_step(); },
                   [&](const Result<std::optional<StepResult>>& done) -> Status {
                     if (!*done) return {};  // a step in progress
                     if (kHasGroups && is_sharded()) GRAFT_TRY(share_parameters());
                     return keep_copy_of_step();
                   });
}

Result<Metrics> Trainer::evaluate(data::Source& source, const EvaluationReader& reader,
                                  const std::function<void()>& begin) {
  return on_device([&] {
    if (begin) begin();
    return try_evaluate(source, reader);
  });
}

Status Trainer::capture() {
  return on_device([&]() -> Status {
    GRAFT_TRY(check_settled());
    if (run_.capture() == nullptr) return invalid("This trainer was not planned for checkpoints.");
    GRAFT_TRY(execution_.note(run_.capture()->take()));
    return kHasGroups && is_sharded() ? add_elsewhere() : ok_status();
  });
}

Result<std::uint64_t> Trainer::state_hash() {
  return on_device([&]() -> Result<std::uint64_t> {
    GRAFT_TRY(check_settled());
    if (run_.hash() == nullptr) return invalid("This trainer was not planned for checkpoints.");
    if (hash_) return *hash_;
    GRAFT_TRY(execution_.note(run_.hash()->run({}, {})));
    std::uint64_t hash = 0;
    std::memcpy(&hash, run_.hash()->output(kHashOutput).data(), sizeof hash);
    return hash;
  });
}

Status Trainer::pause() {
  if (!run_.is_built()) return {};
  if (execution_.has_changed_residents()) return check_settled();
  hash_.reset();  // of what will be built again
  GRAFT_TRY(execution_.settle());
  shortages_.tell_before_invalidation();
  FetchedValues fetched = std::move(run_.fetched());
  Status kept = run_.keep_state();
  if (kept.ok()) run_.tear_down();
  run_.fetched() = std::move(fetched);
  return kept;
}

Status Trainer::resume() {
  return on_device([] { return Status(); });
}

Status Trainer::set_budget(std::uint64_t bytes) {
  if constexpr (!kHasBudgets) return left_out("budgets of memory", "budgets");
  if (shortages_.within_step()) {
    return invalid("Step ", state_.step, " is half done; the budget changes between two steps.");
  }
  PlanRequest request = setup_.trainer.request;
  request.plan.budget = bytes;
  request.shrink_micro_batch = setup_.options.micro_batch == 0;
  GRAFT_TRY_ASSIGN(TrainingPlan plan, plan_training(setup_.model, setup_.options, request, setup_.device->target()));
  if (run_.is_built()) GRAFT_TRY(run_.keep_state());
  hash_.reset();
  run_.tear_down();
  run_.set_plan(std::move(plan));
  setup_.trainer.request = request;
  return run_.build(false);
}

Status Trainer::trim(std::uint64_t bytes) {
  const std::uint64_t now = device_bytes();
  if (bytes >= now) {
    return error(Code::out_of_memory, "The trainer holds ", now, " bytes of device memory and cannot give back ", bytes,
                 ".");
  }
  return set_budget(now - bytes);
}

Status Trainer::read(std::string_view name, std::span<std::byte> bytes) {
  if (kHasGroups && is_elsewhere(name)) return read_elsewhere(name, bytes);
  return on_device([&]() -> Status {
    GRAFT_TRY(check_settled());
    return run_.memory().read(name, bytes);
  });
}

Result<std::uint64_t> Trainer::skipped_steps() {
  if (plan().residents.find(kLossScaleState) == nullptr) return std::uint64_t{0};
  std::array<float, kLossScaleFields> fields = {};
  GRAFT_TRY(read(kLossScaleState, std::as_writable_bytes(std::span(fields))));
  return static_cast<std::uint64_t>(fields[kSkipped]);
}

Status Trainer::set_learning_rate(double rate) {
  GRAFT_TRY(check_settled());
  if (!(rate >= 0 && std::isfinite(rate))) {  // it may come from a file or from another worker
    return invalid("The learning rate is ", rate, "; it must be a finite number of 0 or more.");
  }
  setup_.options.optimizer.learning_rate = rate;
  return ok_status();
}

Status Trainer::write(std::string_view name, std::span<const std::byte> bytes) {
  if (kHasGroups && is_elsewhere(name)) {
    shortages_.tell_before_invalidation();
    whole_[std::string(name)].assign(bytes.begin(), bytes.end());
    return ok_status();
  }
  if (!run_.is_built()) GRAFT_TRY(resume());
  GRAFT_TRY(check_settled());
  statistics_.clear();  // of a step that is no longer the one in progress
  step_samples_ = 0;
  hash_.reset();
  // A copy of now takes the bytes too, and so outlives the device.
  if (!copied_at_ || !copy_is_of_now_) copied_at_.reset();
  return through_losses(
      setup_.trainer.reopen,
      [&]() -> Status {
        if (!run_.is_built()) GRAFT_TRY(run_.build(false));
        return run_.write(name, bytes);
      },
      [&](const Status& why) { return recover(why); });
}

std::vector<NamedTensor> Trainer::named_tensors() const {
  std::vector<NamedTensor> tensors;
  for (const Resident& r : plan().residents.entries()) {
    tensors.push_back({r.name, r.kind, r.memory_class, r.dtype, &r.shape, r.bytes});
  }
  for (const auto& [owner, r] : plan().elsewhere) {
    tensors.push_back({r.name, r.kind, r.memory_class, r.dtype, &r.shape, r.bytes});
  }
  return tensors;
}

std::vector<NamedTensor> Trainer::named_parameters() const {
  std::vector<NamedTensor> tensors = named_tensors();
  std::erase_if(tensors, [](const NamedTensor& t) { return t.kind != ValueKind::parameter; });
  return tensors;
}

}  // namespace graft::train
