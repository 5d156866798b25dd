#include "runtime/train/plan/replan.h"

#include <initializer_list>
#include <utility>

#include "runtime/core/features.h"

namespace graft::train {
namespace {

struct Smaller {
  std::uint64_t budget;
  bool same_size;  ///< of micro-batches
};

/// What to plan for, in this order: what the device says that it has, with other micro-batches too;
/// else ever finer shares of what it refused.
std::vector<Smaller> smaller_budgets(const TrainingSetup& setup, std::uint64_t asked, std::uint64_t held,
                                     bool within_step) {
  std::vector<Smaller> budgets;
  const bool any_size = !within_step && setup.options.micro_batch == 0;
  const auto add = [&](std::initializer_list<std::uint64_t> sizes) {
    for (const bool same_size : {true, false}) {
      if (!same_size && !any_size) break;
      for (const std::uint64_t size : sizes) budgets.push_back({size, same_size});
    }
  };
  const std::uint64_t available = setup.device->available_memory();
  if (available != gpu::kUnknownMemory && available + held < asked - asked / 8) add({available + held});
  add({asked - asked / 8, asked - asked / 32, asked - asked / 128, asked - asked / 512});
  return budgets;
}

/// nullopt where there is none for this budget that takes less than `plan`.
Result<std::optional<TrainingPlan>> plan_for(const TrainingSetup& setup, const TrainingPlan& plan,
                                             const Smaller& wanted) {
  auto smaller = plan_again(setup, plan, wanted.budget, wanted.same_size);
  if (!smaller.ok()) {
    if (smaller.status().code() == Code::out_of_memory) return std::optional<TrainingPlan>();
    return std::move(smaller).status();
  }
  if (smaller->memory().total() >= plan.memory().total()) return std::optional<TrainingPlan>();
  return std::optional(std::move(smaller).value());
}

}  // namespace

Result<TrainingPlan> plan_again(const TrainingSetup& setup, const TrainingPlan& plan, std::uint64_t budget,
                                bool same_size) {
  TrainOptions options = setup.options;
  PlanRequest request = setup.trainer.request;
  if (same_size) options.micro_batch = plan.micro_batch;
  request.plan.budget = budget;
  request.shrink_micro_batch = !same_size;
  return plan_training(setup.model, options, request, setup.device->target());
}

Result<std::optional<TrainingPlan>> plan_smaller(const TrainingSetup& setup, const TrainingPlan& plan,
                                                 std::uint64_t held, bool within_step) {
  if constexpr (!kHasBudgets) return std::optional<TrainingPlan>();
  const std::uint64_t asked = plan.memory().total();
  for (const Smaller& wanted : smaller_budgets(setup, asked, held, within_step)) {
    GRAFT_TRY_ASSIGN(std::optional<TrainingPlan> smaller, plan_for(setup, plan, wanted));
    if (!smaller) continue;
    auto& reasons = smaller->choice.reasons;
    reasons.insert(reasons.begin(), cat("The device had not the ", bytes_text(asked),
                                        " that were planned; this is for ", bytes_text(wanted.budget), "."));
    return smaller;
  }
  return std::optional<TrainingPlan>();
}

}  // namespace graft::train
