// A trainer whose memory shrinks while it runs: a new plan between two steps, and the state moved over.
#include <optional>

#include "runtime/train/trainer.h"

namespace graft::train {

void Trainer::tear_down() {
  training_.clear();
  evaluation_.clear();
  update_.reset();
  hash_.reset();
  capture_.reset();
  fetched_.clear();
  fetched_samples_ = 0;
  memory_.reset();  // last: the others refer to it
}

/// All that training changes, to the host.
Status Trainer::keep_state() {
  std::map<std::string, HostBuffer, std::less<>> kept;
  for (const Resident& resident : memory_->residents().entries()) {
    if (resident.kind == ValueKind::constant || resident.streamed) continue;
    GRAFT_TRY_ASSIGN(HostBuffer contents,
                     HostBuffer::create(resident.bytes, "the state of training", trainer_options_.allocator));
    GRAFT_TRY(memory_->read(resident.name, contents.bytes()));
    kept.emplace(resident.name, std::move(contents));
  }
  kept_ = std::move(kept);
  return {};
}

/// Builds for plan_; where the device does not have the memory, for less and less, as long as there is a plan. The
/// least is tried twice: what was freed just now may take a moment to come back.
Status Trainer::build_within() {
  std::optional<TrainingPlan> wanted;  // comes back where nothing will do, for the next attempt
  bool again = true;
  for (;;) {
    Status built = build();
    if (built.ok()) {
      kept_.clear();
      return {};
    }
    tear_down();
    if (built.code() != Code::out_of_memory) return built;
    auto smaller = plan_smaller();
    if (!smaller.ok()) return std::move(smaller).status();
    if (!*smaller && again) {
      again = false;
      continue;
    }
    if (!*smaller) {
      if (wanted) plan_ = *std::move(wanted);
      return built;
    }
    if (!wanted) wanted = plan_;
    plan_ = **std::move(smaller);
  }
}

Status Trainer::set_budget(std::uint64_t bytes) {
  if (state_.samples_done != 0 || unfinished_ != nullptr) {
    return invalid("Step ", state_.step, " is half done; the budget changes between two steps.");
  }
  PlanRequest request = trainer_options_.request;
  request.plan.budget = bytes;
  request.shrink_micro_batch = options_.micro_batch == 0;
  GRAFT_TRY_ASSIGN(TrainingPlan plan, plan_training(model_, options_, request, device_.target()));
  if (memory_) GRAFT_TRY(keep_state());
  tear_down();
  plan_ = std::move(plan);
  trainer_options_.request = request;
  return build_within();
}

Status Trainer::trim(std::uint64_t bytes) {
  const std::uint64_t now = device_bytes();
  if (bytes >= now) {
    return error(Code::out_of_memory, "The trainer holds ", now, " bytes of device memory and cannot give back ", bytes,
                 ".");
  }
  return set_budget(now - bytes);
}

}  // namespace graft::train
