// Norms of a sum of two tensors, which they add up themselves and give as well.
#include <algorithm>
#include <cstring>

#include "runtime/ops/choice.h"
#include "runtime/plan/chain.h"
#include "shaders/binary/binary_fn.h"
#include "shaders/chain/chain_fn.h"
#include "shaders/kernels.gen.h"

namespace graft {
namespace {

using shaders::KernelId;

constexpr std::size_t kConstants = 3;  // of rows.glsl; row_sum.glsl's follows

bool is_sum(const Chain& chain) {
  const auto whole = [](const ChainInput& input) { return input.reach.mode == chain_fn::same; };
  return !chain.source && chain.steps.size() == 1 && chain.outputs.size() == 1 && chain.inputs.size() == 2 &&
         chain.steps[0].kind == chain_fn::binary && chain.steps[0].fn == binary_fn::add &&
         std::all_of(chain.inputs.begin(), chain.inputs.end(), whole);
}

}  // namespace

bool can_take_sum(KernelId kernel) { return kernel == KernelId::rms_norm__f32 || kernel == KernelId::layer_norm__f32; }

std::optional<PlanKernel> take_sum(const gpu::Caps& caps, Step& norm, const PlanKernel& kernel, const Chain& sum) {
  if (!can_take_sum(kernel.id)) return std::nullopt;
  PlanKernel with = kernel;
  with.id = kernel.id == KernelId::rms_norm__f32 ? KernelId::rms_norm__f32_sum : KernelId::layer_norm__f32_sum;
  const bool fits = is_sum(sum) && kernel.specialization.size() == kConstants && !is_avoided(caps, with.id);
  if (!fits) return std::nullopt;
  const ChainOutput& total = sum.outputs[0];
  const PlanBinding x = norm.bindings[0];
  const auto bind = [&](std::size_t at, const PlanBinding& binding, Stored stored) {
    with.storage &= ~(BindingStorage{3} << (2 * at));
    with.storage |= static_cast<BindingStorage>(stored) << (2 * at);
    norm.bindings[at] = binding;
  };
  const std::size_t own = norm.bindings.size();
  norm.bindings.resize(own + 2);
  for (std::size_t i = 0; i < own; ++i) {  // x stands in the place of a scale or bias that is absent, too
    const PlanBinding& b = norm.bindings[i];
    if (b.access == Access::read && b.space == x.space && b.offset == x.offset) {
      bind(i, sum.inputs[0].binding, sum.inputs[0].stored);
    }
  }
  bind(own, sum.inputs[1].binding, sum.inputs[1].stored);
  bind(own + 1, total.binding, total.stored);
  with.specialization.push_back(static_cast<std::uint32_t>(total.stored));
  with.bindings = static_cast<std::uint32_t>(norm.bindings.size());
  return with;
}

}  // namespace graft
