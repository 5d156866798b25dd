// A step that several workers take together: see slots.h.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "platform/base/checked.h"
#include "runtime/train/run/trainer.h"
#include "runtime/train/step/optimizer.h"

namespace graft::train {
namespace {

// x + -0 is x for every x: a slot's gradients come out as they are, signs of zeros included.
constexpr std::uint32_t kNothing = 0x80000000u;

// What a slot of this program would move running statistics by, one after another.
void take_statistics(const Program& program, std::vector<std::byte>& out) {
  out.clear();
  for (const PlanPort& port : program.plan().outputs) {
    if (!port.name.starts_with(kSlotPrefix)) continue;
    const std::span<const std::byte> bytes = program.output(port.name);
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
}

}  // namespace

Status Trainer::compute_slots(const data::Batch& batch, SlotExchange::Step& step, StepState& state) {
  const auto micro = static_cast<std::uint64_t>(plan().micro_batch);
  SlotExchange& others = *setup_.trainer.exchange;
  const SlotRange own = others.share().of(step.slots);
  const auto [first, samples] = others.share().of_samples(micro, batch.count());
  const auto size_of = [&](std::uint64_t slot) {
    return static_cast<std::int64_t>(std::min(micro, batch.count() - slot * micro));
  };
  // All that can be refused before anybody computes anything.
  for (const std::uint64_t slot : {own.first, own.first + own.count - 1}) {
    if (own.count == 0) break;
    GRAFT_TRY_ASSIGN(SizedProgram * sized, run_.training(size_of(slot)));
    if (slot == own.first) GRAFT_TRY(sized->feeder.check(batch, first, samples));
  }
  if (own.count > 0) {
    GRAFT_TRY_ASSIGN(SizedProgram * sized, run_.training(size_of(own.first)));
    GRAFT_TRY_ASSIGN(step.weights, sized->feeder.weigh(batch, first, samples));
  }
  step.seed = state_.seed;
  step.epoch = batch.epoch();
  step.place = batch.first();
  step.first_sample = first;
  step.own_samples = samples;
  step.own_weight = step.weights.total(terms_);
  step.precision =
      static_cast<std::uint64_t>(setup_.options.precision) << 8 | static_cast<std::uint64_t>(matmul_precision());
  step.learning_rate = setup_.options.optimizer.learning_rate;
  step.monitors = state_.monitors;
  step.evaluated_at = state_.evaluated_at;
  {
    const PhaseScope scope(setup_.trainer.program.observer, HostPhase::agree);
    GRAFT_TRY(others.begin(step));
  }
  setup_.options.optimizer.learning_rate = step.learning_rate;
  state_.monitors = step.monitors;
  state_.evaluated_at = step.evaluated_at;
  set_step(setup_.options, state_.step, state);
  weights_ = step.weights;
  if (weights_.is_nothing()) return nothing_counts(step.number, weights_, setup_.options.loss.ignore_index);
  weights_.to_step_state(terms_, state);
  for (std::uint64_t slot = own.first; slot < own.first + own.count; ++slot) {
    GRAFT_TRY_ASSIGN(SizedProgram * sized, run_.training(size_of(slot)));
    GRAFT_TRY(run_.gradients()->fill(kNothing));
    state.micro_step = static_cast<std::uint32_t>(slot);
    {
      const PhaseScope scope(setup_.trainer.program.observer, HostPhase::upload);
      sized->feeder.copy(batch, slot * micro, *sized->program);
    }
    GRAFT_TRY(sized->program->run({}, state));
    submissions_ += sized->program->submissions();
    const Metrics part = metrics_of(*sized->program);
    take_statistics(*sized->program, slot_statistics_);
    GRAFT_TRY(run_.gradients()->take());
    {
      const PhaseScope scope(setup_.trainer.program.observer, HostPhase::exchange);
      GRAFT_TRY(others.give(slot, {part, slot_statistics_, run_.gradients()->entries()}));
    }
    report_progress((slot + 1 - own.first) * micro, samples);
  }
  return ok_status();
}

/// The same moves, one after another, as if this worker had computed all slots.
Status Trainer::move_statistics(const SlotExchange::Sums& sums, const SlotExchange::Step& step,
                                const StepState& state) {
  const auto micro = static_cast<std::uint64_t>(plan().micro_batch);
  if (run_.statistics() == nullptr || plan().statistics.empty()) return ok_status();
  for (std::uint64_t slot = 0; slot < step.slots; ++slot) {
    const std::uint64_t samples = std::min(micro, step.samples - slot * micro);
    GRAFT_TRY_ASSIGN(Program * move, run_.statistics_of_slot(static_cast<std::int64_t>(samples)));
    std::span<const std::byte> from = sums.statistics[slot];
    for (std::size_t i = 0; i < move->plan().inputs.size(); ++i) {
      const std::span<std::byte> to = move->input(i);
      if (to.size() > from.size()) return error(Code::internal, "Slot ", slot, " has too few statistics.");
      std::memcpy(to.data(), from.data(), to.size());
      from = from.subspan(to.size());
    }
    GRAFT_TRY(move->run({}, state));
  }
  return ok_status();
}

Status Trainer::write_gradients(std::span<const std::byte> sums) {
  for (const Capture::Entry& entry : run_.gradients()->entries()) {
    GRAFT_TRY(run_.memory().write(entry.resident->name, sums.first(entry.bytes.size())));
    sums = sums.subspan(entry.bytes.size());
  }
  return ok_status();
}

Result<StepResult> Trainer::shared_step(const data::Batch& batch) {
  SlotExchange& others = *setup_.trainer.exchange;
  SlotExchange::Step step;
  StepState state;
  const auto take = [&]() -> Result<StepResult> {
    GRAFT_TRY(check_settled());
    if (plan().training.empty()) return invalid("This trainer was made for evaluation alone.");
    if (batch.count() == 0 || batch.count() > static_cast<std::uint64_t>(setup_.options.batch)) {
      return invalid("A batch of ", batch.count(), " samples came, but the plan is for ", setup_.options.batch, ".");
    }
    {
      const PhaseScope scope(setup_.trainer.program.observer, HostPhase::agree);
      GRAFT_TRY_ASSIGN(step.state_hash, state_hash());
    }
    hash_.reset();
    step.number = state_.step;
    step.wants_whole = is_sharded() && wants_whole_ && wants_whole_() ? 1 : 0;
    step.samples = batch.count();
    step.slots = ceil_div(batch.count(), static_cast<std::uint64_t>(plan().micro_batch));
    for (const Capture::Entry& entry : run_.gradients()->entries()) step.gradient_bytes += entry.bytes.size();
    if (!plan().statistics.empty()) {
      for (const PlanPort& port : plan().statistics.front().plan.inputs) step.statistics_bytes += port.bytes;
    }
    state.seed = state_.seed;
    GRAFT_TRY(keep_statistics());
    GRAFT_TRY(compute_slots(batch, step, state));
    const auto summed = [&] {
      const PhaseScope scope(setup_.trainer.program.observer, HostPhase::exchange);
      return others.end();
    };
    GRAFT_TRY_ASSIGN(const SlotExchange::Sums sums, summed());
    GRAFT_TRY(undo_statistics());  // of this worker's slots
    GRAFT_TRY(move_statistics(sums, step, state));
    GRAFT_TRY(write_gradients(sums.gradients));
    state_.step_metrics = sums.metrics;
    if (!std::isfinite(sums.metrics.loss_sum)) state.loss_weight = std::nanf("");  // no step is taken
    GRAFT_TRY(execution_.run(*run_.update(), state));
    submissions_ += run_.update()->submissions();
    if (!is_sharded()) {
      std::uint64_t hash = 0;
      std::memcpy(&hash, run_.update()->output(kHashOutput).data(), sizeof hash);
      GRAFT_TRY_ASSIGN(const StepResult result, end_step(batch, *run_.update()));
      hash_ = hash;
      return result;
    }
    GRAFT_TRY(share_parameters());
    GRAFT_TRY_ASSIGN(const StepResult result, end_step(batch, *run_.update()));
    if (step.wants_whole != 0) GRAFT_TRY(gather_state());
    return result;
  };
  auto taken = take();
  if (taken.ok() || !run_.is_built()) return taken;
  // The state is that of before, for whoever saves it.
  others.leave(taken.status());
  state_.step_metrics = {};
  if (!execution_.is_unfinished()) {
    GRAFT_TRY(undo_statistics());
    GRAFT_TRY(run_.gradients()->fill(0));
  }
  return taken;
}

}  // namespace graft::train
