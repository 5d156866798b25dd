#include "runtime/train/run/shortages.h"

#include <optional>
#include <utility>

#include "runtime/core/features.h"

namespace graft::train {
namespace {

/// How often the device is asked for a step that has already changed what is kept.
constexpr int kMostResumes = 4;
/// Where there is no smaller plan: the shortage may have passed.
constexpr int kMostRepeats = 2;

}  // namespace

Status Shortages::answer(Status why, int& refusals) {
  if constexpr (!kHasBudgets) return why;
  if (execution_.has_changed_residents()) return end_unfinished(std::move(why), refusals);
  GRAFT_TRY(execution_.settle());
  GRAFT_TRY_ASSIGN(std::optional<TrainingPlan> smaller, smaller_plan());
  const TrainingPlan& plan = run_.plan();
  if (!smaller && ++refusals > kMostRepeats) {
    return std::move(why).with_context(
        cat("No plan is smaller than this one of ", bytes_text(plan.memory().total()), ", and the device refuses it"));
  }
  return go_on_with(smaller ? *std::move(smaller) : plan, cat("the device ran out of memory (", why.message(), ")"));
}

/// The step cannot be begun anew. What it can do without is freed, and the rest of it is tried again; the new plan
/// waits for its end.
Status Shortages::end_unfinished(Status why, int& refusals) {
  shrink_at_boundary_ = true;
  run_.drop_evaluation();
  if (++refusals <= kMostResumes) return {};
  return std::move(why).with_context(
      cat("Step ", state_.step, " has begun to change parameters and must end under its plan of ",
          bytes_text(run_.plan().memory().total()), "; ask for it again once the device has memory"));
}

/// Builds for another plan and moves the state over.
Status Shortages::go_on_with(TrainingPlan plan, const std::string& why) {
  tell_before_invalidation();
  FetchedValues fetched;
  if (state_.samples_done != 0) fetched = std::move(run_.fetched());  // of micro-batches that are not run again
  if (run_.is_built()) GRAFT_TRY(run_.keep_state_in_shortage());
  run_.tear_down();
  run_.set_plan(std::move(plan));
  GRAFT_TRY(run_.build(within_step()));
  if (!fetched.empty()) run_.fetched() = std::move(fetched);
  ++count_;
  shrink_at_boundary_ = false;
  setup_.trainer.log(LogLevel::warning, "In step ", state_.step, " ", why, "; training goes on with ",
                     bytes_text(run_.plan().memory().total()), " of it.");
  return {};
}

/// Takes a smaller plan where the driver allows no more than is held, step by step until it does. Where none is
/// smaller, the run goes on as it is.
Status Shortages::keep_to_heap() {
  const bool full = run_.is_built() && setup_.device->available_memory() == 0;
  if (!full) heap_overdrawn_ = false;
  if (!full || heap_overdrawn_) return {};
  GRAFT_TRY_ASSIGN(std::optional<TrainingPlan> smaller, smaller_plan());
  if (smaller) return go_on_with(*std::move(smaller), "the driver allowed no more memory than is held");
  heap_overdrawn_ = true;
  setup_.trainer.log(LogLevel::warning, "In step ", state_.step, " the driver allows no more memory than is held, but ",
                     "no plan is smaller than this one of ", bytes_text(run_.plan().memory().total()),
                     "; training goes on with it.");
  return {};
}

Status Shortages::before_micro_step() {
  if (!kHasBudgets || within_step()) return {};
  if (shrink_at_boundary_) {
    shrink_at_boundary_ = false;
    GRAFT_TRY_ASSIGN(std::optional<TrainingPlan> smaller, smaller_plan());
    if (smaller) {
      GRAFT_TRY(go_on_with(*std::move(smaller), "the device ran out of memory (while the step before ended)"));
    }
  }
  return keep_to_heap();
}

}  // namespace graft::train
