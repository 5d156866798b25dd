// A device that runs out of memory while training runs: the work is done again under a plan for less.
#include <cstring>
#include <optional>

#include "runtime/train/trainer.h"

namespace graft::train {
namespace {

/// How often the device is asked for a step that has already changed what is kept.
constexpr int kMostResumes = 4;
/// Where there is no smaller plan: the shortage may have passed.
constexpr int kMostRepeats = 2;
constexpr int kMostReads = 3;

}  // namespace

Status Trainer::of_device(Status status) {
  refused_ = refused_ || status.code() == Code::out_of_memory;
  return status;
}

/// Repeats the attempt. Each failure either leads to a smaller plan or counts towards a limit, so this ends.
template <typename Try>
auto Trainer::with_answers(Try attempt) -> decltype(attempt()) {
  if (!memory_) GRAFT_TRY(build_within());
  for (int attempts = 0;;) {
    refused_ = false;
    auto result = attempt();
    if (result.ok() || !refused_) return result;
    GRAFT_TRY(answer(detail::to_status(std::move(result)), attempts));
  }
}

Status Trainer::answer(Status why, int& attempts) {
  if (unfinished_ != nullptr && unfinished_->wrote_residents()) return end_unfinished(std::move(why), attempts);
  if (unfinished_ != nullptr) GRAFT_TRY(settle_unfinished());
  GRAFT_TRY_ASSIGN(std::optional<TrainingPlan> smaller, plan_smaller());
  if (!smaller && ++attempts > kMostRepeats) {
    return std::move(why).with_context(
        cat("No plan is smaller than this one of ", bytes_text(plan_.memory().total()), ", and the device refuses it"));
  }
  return go_on_with(smaller ? *std::move(smaller) : plan_, cat("the device ran out of memory (", why.message(), ")"));
}

/// The step cannot be begun anew. What it can do without is freed, and the rest of it is tried again; the new plan
/// waits for its end.
Status Trainer::end_unfinished(Status why, int& attempts) {
  shrink_at_boundary_ = true;
  evaluation_.clear();
  if (++attempts <= kMostResumes) return {};
  return std::move(why).with_context(
      cat("Step ", state_.step, " has begun to change parameters and must end under its plan of ",
          bytes_text(plan_.memory().total()), "; ask for it again once the device has memory"));
}

/// What was submitted of a run that is to be begun anew.
Status Trainer::settle_unfinished() {
  Status settled;
  for (int i = 0; i < kMostReads; ++i) {
    settled = unfinished_->settle();
    if (settled.code() != Code::out_of_memory) break;
  }
  GRAFT_TRY(std::move(settled));
  unfinished_ = nullptr;
  return {};
}

/// Builds for another plan and moves the state over.
Status Trainer::go_on_with(TrainingPlan plan, const std::string& why) {
  if (before_replan_) before_replan_();
  std::vector<Fetched> fetched;
  const std::uint64_t fetched_samples = fetched_samples_;
  if (state_.samples_done != 0) fetched = std::move(fetched_);  // of micro-batches that are not run again
  GRAFT_TRY(save_state());
  tear_down();
  plan_ = std::move(plan);
  GRAFT_TRY(build_within());
  if (!fetched.empty()) {
    fetched_ = std::move(fetched);
    fetched_samples_ = fetched_samples;
  }
  ++shortages_;
  shrink_at_boundary_ = false;
  trainer_options_.log(LogLevel::warning, "In step ", state_.step, " ", why, "; training goes on with ",
                       bytes_text(plan_.memory().total()), " of it.");
  return {};
}

/// As keep_state(), from a device that may refuse the memory that moving it takes. Programs that can be made again on
/// demand go first.
Status Trainer::save_state() {
  if (!memory_) return {};
  Status kept;
  for (int i = 0; i < kMostReads; ++i) {
    kept = keep_state();
    if (kept.code() != Code::out_of_memory) return kept;
    training_.clear();
    evaluation_.clear();
  }
  return kept;
}

/// What to plan for, in this order: what the device says that it has, with other micro-batches too;
/// else ever finer shares of what it refused.
std::vector<Trainer::Smaller> Trainer::smaller_budgets(std::uint64_t asked) const {
  std::vector<Smaller> budgets;
  const bool whole_steps = !half_done() && options_.micro_batch == 0;
  const auto add = [&](std::initializer_list<std::uint64_t> sizes) {
    for (const bool same_size : {true, false}) {
      if (!same_size && !whole_steps) break;
      for (const std::uint64_t size : sizes) budgets.push_back({size, same_size});
    }
  };
  const std::uint64_t available = device_.available_memory();
  if (available != gpu::kUnknownMemory && available + device_bytes() < asked - asked / 8) {
    add({available + device_bytes()});
  }
  add({asked - asked / 8, asked - asked / 32, asked - asked / 128, asked - asked / 512});
  return budgets;
}

/// For another budget, with the same micro-batches or any.
Result<TrainingPlan> Trainer::plan_again(std::uint64_t budget, bool same_size) const {
  TrainOptions options = options_;
  PlanRequest request = trainer_options_.request;
  if (same_size) options.micro_batch = plan_.micro_batch;
  request.plan.budget = budget;
  request.shrink_micro_batch = !same_size;
  return plan_training(model_, options, request, device_.target());
}

/// nullopt where there is none for this budget.
Result<std::optional<TrainingPlan>> Trainer::plan_for(std::uint64_t budget, bool same_size) const {
  auto plan = plan_again(budget, same_size);
  if (!plan.ok()) {
    if (plan.status().code() == Code::out_of_memory) return std::optional<TrainingPlan>();
    return std::move(plan).status();
  }
  if (plan->memory().total() >= plan_.memory().total()) return std::optional<TrainingPlan>();
  return std::optional(std::move(plan).value());
}

/// A plan for less memory than plan_, where there is such.
Result<std::optional<TrainingPlan>> Trainer::plan_smaller() const {
  const std::uint64_t asked = plan_.memory().total();
  for (const auto& [budget, same_size] : smaller_budgets(asked)) {
    GRAFT_TRY_ASSIGN(std::optional<TrainingPlan> plan, plan_for(budget, same_size));
    if (!plan) continue;
    auto& reasons = plan->choice.reasons;
    reasons.insert(reasons.begin(), cat("The device had not the ", bytes_text(asked),
                                        " that were planned; this is for ", bytes_text(budget), "."));
    return plan;
  }
  return std::optional<TrainingPlan>();
}

/// Between two steps: takes a smaller plan where the driver allows no more than is held, step by step until it does.
/// Where none is smaller, the run goes on as it is.
Status Trainer::keep_to_heap() {
  const bool full = memory_ && device_.available_memory() == 0;
  if (!full) heap_overdrawn_ = false;
  if (!full || heap_overdrawn_) return {};
  GRAFT_TRY_ASSIGN(std::optional<TrainingPlan> smaller, plan_smaller());
  if (smaller) return go_on_with(*std::move(smaller), "the driver allowed no more memory than is held");
  heap_overdrawn_ = true;
  trainer_options_.log(LogLevel::warning, "In step ", state_.step,
                       " the driver allows no more memory than is held, but ", "no plan is smaller than this one of ",
                       bytes_text(plan_.memory().total()), "; training goes on with it.");
  return {};
}

Result<std::optional<StepResult>> Trainer::micro_step(const data::Batch& batch) {
  if (shrink_at_boundary_ && !half_done()) {
    shrink_at_boundary_ = false;
    GRAFT_TRY_ASSIGN(std::optional<TrainingPlan> smaller, plan_smaller());
    if (smaller) {
      GRAFT_TRY(go_on_with(*std::move(smaller), "the device ran out of memory (while the step before ended)"));
    }
  }
  if (!half_done()) GRAFT_TRY(keep_to_heap());
  return with_answers([&] { return try_micro_step(batch); });
}

Result<Metrics> Trainer::evaluate(data::Source& source) {
  return with_answers([&] { return try_evaluate(source); });
}

Status Trainer::capture() {
  return with_answers([&]() -> Status {
    GRAFT_TRY(check_settled());
    if (!capture_) return invalid("This trainer was not planned for checkpoints.");
    return of_device(capture_->take());
  });
}

Result<std::uint64_t> Trainer::state_hash() {
  return with_answers([&]() -> Result<std::uint64_t> {
    GRAFT_TRY(check_settled());
    if (!hash_) return invalid("This trainer was not planned for checkpoints.");
    GRAFT_TRY(of_device(hash_->run({}, {})));
    std::uint64_t hash = 0;
    std::memcpy(&hash, hash_->output(kHashOutput).data(), sizeof hash);
    return hash;
  });
}

}  // namespace graft::train
