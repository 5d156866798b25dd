#include "runtime/train/run/planned_run.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "runtime/core/features.h"
#include "runtime/kernels/kernel_proof.h"

namespace graft::train {
namespace {

/// Where moving the state is refused: the shortage may have passed, or what was freed suffices.
constexpr int kMostReads = 3;

SizedProgram* find(std::vector<SizedProgram>& programs, std::int64_t samples) {
  for (SizedProgram& program : programs) {
    if (program.samples == samples) return &program;
  }
  return nullptr;
}

}  // namespace

/// The least plan is tried twice: what was freed just now may take a moment to come back.
Status PlannedRun::build(bool within_step) {
  std::optional<TrainingPlan> wanted;  // comes back where nothing will do, for the next attempt
  bool again = true;
  for (;;) {
    Status built = build_once(within_step);
    if (built.ok()) {
      kept_.clear();
      return {};
    }
    tear_down();
    if (built.code() != Code::out_of_memory) return built;
    auto smaller = plan_smaller(setup_, plan_, device_bytes(), within_step);
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

Status PlannedRun::build_once(bool within_step) {
  GRAFT_TRY(prove(within_step));
  const std::vector<const Plan*> plans = plan_.plans();
  GRAFT_TRY_ASSIGN(memory_, Memory::create(*setup_.device, plan_.residents, plans));
  GRAFT_TRY(load_residents());
  GRAFT_TRY_ASSIGN(fetched_, FetchedValues::create(setup_, plan_));
  for (const SizedPlan& sized : plan_.training) {
    GRAFT_TRY_ASSIGN(SizedProgram program, make_program(sized));
    training_.push_back(std::move(program));
  }
  if (plan_.update) {
    GRAFT_TRY_ASSIGN(update_, Program::create(*memory_, *plan_.update, setup_.trainer.program));
  }
  if (plan_.hash) {
    ProgramOptions whole = setup_.trainer.program;
    whole.cancellable = false;  // it is of steps that are done
    GRAFT_TRY_ASSIGN(hash_, Program::create(*memory_, *plan_.hash, whole));
  }
  if (plan_.captures) {
    GRAFT_TRY_ASSIGN(capture_, Capture::create(*memory_, setup_.trainer.program.timeout));
  }
  if (plan_.keeps_statistics) {
    GRAFT_TRY_ASSIGN(statistics_, Capture::create(*memory_, setup_.trainer.program.timeout, Capture::What::statistics));
  }
  if (kHasGroups && plan_.slots) {
    GRAFT_TRY_ASSIGN(gradients_, Capture::create(*memory_, setup_.trainer.program.timeout, Capture::What::gradients));
  }
  for (const SizedPlan& sized : plan_.statistics) {
    if constexpr (!kHasGroups) break;
    GRAFT_TRY_ASSIGN(auto program, Program::create(*memory_, sized.plan, setup_.trainer.program));
    slot_statistics_.emplace_back(sized.samples, std::move(program));
  }
  for (const SizedPlan& sized : plan_.evaluation) {
    GRAFT_TRY_ASSIGN(SizedProgram program, make_program(sized));
    evaluation_.push_back(std::move(program));
  }
  return {};
}

/// Makes the plan again as long as some of its kernels are found to be wrong.
Status PlannedRun::prove(bool within_step) {
  KernelProof* const proof = setup_.trainer.program.proof;
  const bool same_size = within_step || setup_.options.micro_batch != 0 || !setup_.trainer.request.shrink_micro_batch;
  while (proof != nullptr) {
    GRAFT_TRY_ASSIGN(const bool again, proof->check(*setup_.device, plan_.plans()));
    if (!again) break;
    GRAFT_TRY_ASSIGN(plan_, plan_again(setup_, plan_, plan_.choice.budget, same_size));
  }
  return {};
}

/// Writes what was kept of an earlier plan, else the model's weights, and zeros to all else: optimizer state,
/// accumulators, statistics without contents.
Status PlannedRun::load_residents() {
  for (const Resident& resident : plan_.residents.entries()) {
    const auto& from = kept_.empty() ? host_copy_ : kept_;
    const auto kept = from.find(resident.name);
    const ValueId value = setup_.model.find_value(resident.name);
    const auto weight = value.valid() ? setup_.weight_of(value) : std::nullopt;
    if (kept != from.end()) {
      GRAFT_TRY(memory_->write(resident.name, kept->second.bytes()));
    } else if (weight) {
      GRAFT_TRY(memory_->provide(resident.name, *weight));
    } else if (const LossConstant* const constant = plan_.find_constant(resident.name)) {
      GRAFT_TRY(memory_->write(resident.name, std::as_bytes(std::span(constant->contents))));
    } else if (resident.kind == ValueKind::state) {
      GRAFT_TRY(memory_->fill(resident.name, 0));
    } else {
      return invalid("The model holds no contents for \"", resident.name, "\".");
    }
  }
  return {};
}

Result<SizedProgram> PlannedRun::make_program(SizedPlan sized) {
  SizedProgram made;
  made.samples = sized.samples;
  GRAFT_TRY_ASSIGN(made.feeder, Feeder::create(setup_.fields, setup_.model, sized));
  made.loss = sized.loss;
  auto program = Program::create(*memory_, std::move(sized.plan), setup_.trainer.program);
  GRAFT_TRY(execution_.note(program.status()));
  made.program = std::move(program).value();
  return made;
}

Result<SizedProgram*> PlannedRun::training(std::int64_t samples) {
  if (SizedProgram* const made = find(training_, samples)) return made;
  GRAFT_TRY_ASSIGN(SizedPlan sized, plan_micro_batch(setup_.model, setup_.options, plan_, samples,
                                                     setup_.device->target(), setup_.trainer.request.plan));
  GRAFT_TRY_ASSIGN(SizedProgram program, make_program(std::move(sized)));
  training_.push_back(std::move(program));
  return &training_.back();
}

Result<SizedProgram*> PlannedRun::evaluation(std::int64_t samples) {
  if (SizedProgram* const made = find(evaluation_, samples)) return made;
  PlanOptions options = setup_.trainer.request.plan;
  options.budget = 0;
  options.arena_limit = plan_.arena_bytes();
  GRAFT_TRY_ASSIGN(SizedPlan sized, plan_evaluation(setup_.model, setup_.options, plan_.residents, samples,
                                                    setup_.device->target(), options));
  GRAFT_TRY_ASSIGN(SizedProgram program, make_program(std::move(sized)));
  evaluation_.push_back(std::move(program));
  return &evaluation_.back();
}

Result<Program*> PlannedRun::statistics_of_slot(std::int64_t samples) {
  const auto found = std::ranges::find(slot_statistics_, samples, [](const auto& one) { return one.first; });
  if (found != slot_statistics_.end()) return found->second.get();
  GRAFT_TRY_ASSIGN(SizedPlan sized,
                   plan_slot_statistics(setup_.model, setup_.options, plan_, samples, setup_.device->target()));
  GRAFT_TRY_ASSIGN(auto program, Program::create(*memory_, std::move(sized.plan), setup_.trainer.program));
  slot_statistics_.emplace_back(samples, std::move(program));
  return slot_statistics_.back().second.get();
}

Status PlannedRun::keep_state() {
  HostState kept;
  GRAFT_TRY(copy_residents(kept));
  kept_ = std::move(kept);
  return {};
}

Status PlannedRun::copy_to_host() {
  GRAFT_TRY(copy_residents(next_copy_));
  std::swap(host_copy_, next_copy_);
  return {};
}

Status PlannedRun::write(std::string_view name, std::span<const std::byte> bytes) {
  GRAFT_TRY(memory_->write(name, bytes));
  const auto copy = host_copy_.find(name);
  if (copy != host_copy_.end()) std::ranges::copy(bytes, copy->second.bytes().begin());
  return {};
}

Status PlannedRun::copy_residents(HostState& to) {
  const auto changes = [](const Resident& resident) { return resident.kind != ValueKind::constant; };
  return read_residents(*memory_, changes, to, setup_.trainer.allocator);
}

Status PlannedRun::keep_state_in_shortage() {
  Status kept;
  for (int i = 0; i < kMostReads; ++i) {
    kept = keep_state();
    if (kept.code() != Code::out_of_memory) return kept;
    training_.clear();
    evaluation_.clear();
  }
  return kept;
}

void PlannedRun::tear_down() {
  training_.clear();
  evaluation_.clear();
  update_.reset();
  hash_.reset();
  capture_.reset();
  statistics_.reset();
  gradients_.reset();
  slot_statistics_.clear();
  fetched_ = {};
  memory_.reset();  // last: the others refer to it
}

std::uint64_t PlannedRun::device_bytes() const {
  return (memory_ ? memory_->allocated_bytes() : 0) + (capture_ ? capture_->bytes() : 0) +
         (statistics_ ? statistics_->bytes() : 0) + (gradients_ ? gradients_->bytes() : 0);
}

}  // namespace graft::train
