#include "runtime/plan/plan_time.h"

#include <algorithm>

#include "runtime/ops/choice.h"
#include "runtime/ops/time_model.h"

namespace graft {
namespace {

// Its product, if it has one, else what its first choice is about: what its other dispatches do is little beside it.
KernelUse use_of_node(const PlanNode& node, const gpu::Target& target, const gpu::Speed& speed) {
  KernelUse use{.issue = kPlainIssue};
  bool first = true;
  for (const PlanChoice& choice : node.choices) {
    const Variant* const variant = variant_named(choice.key, choice.variant);
    if (variant == nullptr || variant->family == Family::epilogue || variant->family == Family::gemm_parts) continue;
    const bool product = variant->family == Family::gemm;
    if (first || product) use = use_of(target, *variant, choice.shape, speed);
    first = false;
    if (product) break;
  }
  return use;
}

// A sum that was cut into parts along k has more workgroups than its tiles.
KernelUse with_groups(KernelUse use, const Step& step) {
  if (use.workgroups == 0) return use;
  const std::uint64_t groups = std::uint64_t{step.groups[0]} * step.groups[1] * step.groups[2];
  use.workgroups = std::max(use.workgroups, groups);
  return use;
}

}  // namespace

void TimeEstimate::add(const TimeEstimate& other, double times) {
  arithmetic += times * other.arithmetic;
  memory += times * other.memory;
  dispatching += times * other.dispatching;
}

PlanTime estimate_plan(const Plan& plan, const gpu::Target& target, const gpu::Speed& speed) {
  PlanTime time{.all = {.dispatching = speed.submit_seconds}, .nodes = std::vector<TimeEstimate>(plan.nodes.size())};
  std::vector<KernelUse> uses;
  for (const PlanNode& node : plan.nodes) uses.push_back(use_of_node(node, target, speed));
  for (const Step& step : plan.steps) {
    TimeEstimate one{.dispatching = speed.dispatch_seconds + (step.barrier_before ? speed.barrier_seconds : 0)};
    if (step.kind != StepKind::dispatch) {
      one.memory = 2 * static_cast<double>(step.bindings[0].size) / speed.transfer_bytes;  // read and written
    } else {
      const bool known = step.node < uses.size();
      const KernelUse use = known ? with_groups(uses[step.node], step) : KernelUse{.issue = kPlainIssue};
      const double arithmetic = static_cast<double>(step.flops) / arithmetic_rate(use, speed);
      const double memory = static_cast<double>(step.bytes) / (speed.memory_bytes * use.memory);
      (memory > arithmetic ? one.memory : one.arithmetic) = std::max(memory, arithmetic);
      if (known) time.nodes[step.node].add(one);
    }
    time.all.add(one);
  }
  return time;
}

double product_share(const gpu::Target& target, std::uint64_t size, const gpu::Speed& speed) {
  const ChoiceShape shape{size, size, size};
  const KernelUse use = use_of(target, *choose(Family::gemm, target, shape).variant, shape, speed);
  return use.issue * use.useful * fill_of(use, speed);
}

}  // namespace graft
