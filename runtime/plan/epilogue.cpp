// Kernels that end with a chain: products, convolutions and norms, which do what follows before they store.
#include <algorithm>
#include <bit>
#include <cstring>

#include "platform/base/checked.h"
#include "runtime/core/op_def.h"
#include "runtime/ops/choice.h"
#include "runtime/plan/chain.h"
#include "shaders/chain/chain_fn.h"
#include "shaders/conv/conv_push.h"
#include "shaders/kernels.gen.h"
#include "shaders/matmul/matmul_push.h"
#include "shaders/matmul/matmul_split_sum_push.h"
#include "shaders/norm/layer_norm_push.h"
#include "shaders/norm/norm_push.h"
#include "shaders/rms_norm/rms_norm_push.h"

namespace graft {
namespace {

using shaders::KernelId;

template <typename Push>
std::optional<Push> push_if(const Step& step) {
  Push push{};
  if (step.push.size() != sizeof(Push)) return std::nullopt;
  std::memcpy(&push, step.push.data(), sizeof(Push));
  return push;
}

/// What a kernel computes: elements, and columns of them.
struct Extent {
  std::uint64_t count = 0;
  std::uint32_t columns = 0;
};

std::optional<Extent> extent_of_product(const Step& step) {
  const auto push = push_if<push::MatmulPush>(step);
  if (!push || push->splits != 1) return std::nullopt;
  return Extent{std::uint64_t{push->m} * push->n * push->batches, push->n};
}

std::optional<Extent> extent_of_conv(const Step& step) {
  const auto push = push_if<push::ConvPush>(step);
  if (!push || push->splits != 1) return std::nullopt;
  return Extent{std::uint64_t{push->m} * push->o, push->o};
}

std::optional<Extent> extent_of_conv_grad(const Step& step) {
  const auto push = push_if<push::ConvPush>(step);
  if (!push || push->splits != 1 || push->oh == 0 || push->ow == 0) return std::nullopt;
  // Rows are those of dx in each phase of the stride, some beyond it.
  const std::uint64_t phase = std::uint64_t{ceil_div(push->h, push->stride_h)} * ceil_div(push->w, push->stride_w);
  if (phase == 0) return std::nullopt;
  return Extent{push->m / phase * push->h * push->w * push->c, push->c};
}

std::optional<Extent> extent_of_sum(const Step& step) {
  const auto push = push_if<push::MatmulSplitSumPush>(step);
  if (!push || push->to != 0) return std::nullopt;  // not the last of its rounds
  return Extent{push->count, push->bias_count};
}

std::optional<Extent> extent_of_norm(const Step& step) {
  const auto push = push_if<push::NormPush>(step);
  if (!push) return std::nullopt;
  return Extent{std::uint64_t{push->batches} * push->rows * push->cols, push->cols};
}

template <typename Push>
std::optional<Extent> extent_of_rows(const Step& step) {
  const auto push = push_if<Push>(step);
  if (!push || push->inner != 1) return std::nullopt;
  return Extent{std::uint64_t{push->rows} * push->columns, push->columns};
}

struct Ending {
  KernelId kernel;
  KernelId with;
  std::size_t out;
  std::optional<Extent> (*extent)(const Step&);
};

constexpr Ending kEndings[] = {
    {KernelId::matmul__f32, KernelId::matmul__f32_epilogue, 3, extent_of_product},
    {KernelId::matmul__f32_coopmat, KernelId::matmul__f32_coopmat_epilogue, 3, extent_of_product},
    {KernelId::matmul__f32_coopmat_bf16, KernelId::matmul__f32_coopmat_bf16_epilogue, 3, extent_of_product},
    {KernelId::matmul_split_sum__f32, KernelId::matmul_split_sum__f32_epilogue, 2, extent_of_sum},
    {KernelId::conv__f32, KernelId::conv__f32_epilogue, 3, extent_of_conv},
    {KernelId::conv__f32_coopmat, KernelId::conv__f32_coopmat_epilogue, 3, extent_of_conv},
    {KernelId::conv__f32_coopmat_bf16, KernelId::conv__f32_coopmat_bf16_epilogue, 3, extent_of_conv},
    {KernelId::conv_grad_data__f32, KernelId::conv_grad_data__f32_epilogue, 3, extent_of_conv_grad},
    {KernelId::conv_grad_data__f32_coopmat, KernelId::conv_grad_data__f32_coopmat_epilogue, 3, extent_of_conv_grad},
    {KernelId::conv_grad_data__f32_coopmat_bf16, KernelId::conv_grad_data__f32_coopmat_bf16_epilogue, 3,
     extent_of_conv_grad},
    {KernelId::norm_apply__f32, KernelId::norm_apply__f32_epilogue, 5, extent_of_norm},
    {KernelId::layer_norm_grad__f32, KernelId::layer_norm_grad__f32_epilogue, 5, extent_of_rows<push::LayerNormPush>},
    {KernelId::rms_norm_grad__f32, KernelId::rms_norm_grad__f32_epilogue, 4, extent_of_rows<push::RmsNormPush>},
};

/// It is there, and neither it nor it with the tile that was chosen failed its self-test.
bool may_use(const gpu::Caps& caps, KernelId kernel, const std::vector<PlanChoice>& choices) {
  if (!shaders::kernel_info(kernel).built() || is_avoided(caps, kernel)) return false;
  const std::string_view name = shaders::kernel_info(kernel).name;
  return caps.advice.avoided.empty() || std::none_of(choices.begin(), choices.end(), [&](const PlanChoice& choice) {
           return caps.advice.avoided.contains(cat(name, "/", choice.variant));
         });
}

constexpr std::size_t kFurtherBindings = chain_fn::epilogue_inputs + chain_fn::epilogue_outputs - 1;

}  // namespace

bool can_end_with_chain(KernelId kernel) {
  return std::any_of(std::begin(kEndings), std::end(kEndings), [&](const Ending& e) { return e.kernel == kernel; });
}

bool ends_with_chains(const gpu::Caps& caps) { return choose(Family::ends, caps, {}).variant->kernel == 0; }

std::optional<Chain> chain_from(const gpu::Caps& caps, const Step& step, const PlanKernel& kernel,
                                const std::vector<PlanChoice>& choices) {
  for (const Ending& ending : kEndings) {
    if (ending.kernel != kernel.id) continue;
    const auto extent = ending.extent(step);
    const PlanBinding& out = step.bindings[ending.out];
    const Stored stored = binding_storage(kernel.storage, ending.out);
    const std::uint64_t bytes = align_up((stored == Stored::declared ? 4 : 2) * (extent ? extent->count : 0), 4);
    const bool fits = extent && extent->count <= 0xffffffffu && out.access == Access::write && out.size == bytes &&
                      kernel.specialization.size() <= chain_fn::epilogue_constants &&
                      may_use(caps, ending.with, choices);
    if (!fits) return std::nullopt;
    Chain chain;
    chain.count = static_cast<std::uint32_t>(extent->count);
    chain.source = {step, kernel, ending.with, ending.out, extent->columns};
    chain.steps.push_back({chain_fn::source, 0, 0, 0, 0, 0, stored});
    chain.outputs.push_back({out, chain_fn::inputs, stored});
    return chain;
  }
  return std::nullopt;
}

PlanKernel epilogue_dispatch(const Chain& chain, Step& step) {
  const ChainSource& source = *chain.source;
  PlanKernel kernel = source.kernel;
  kernel.id = source.with;
  step.push = source.step.push;
  step.groups = source.step.groups;
  step.bindings = source.step.bindings;

  std::uint32_t modes = static_cast<std::uint32_t>(chain.inputs.size()) << 8;
  std::uint32_t columns = 0;
  for (std::size_t i = 0; i < chain.inputs.size(); ++i) {
    const ChainReach& reach = chain.inputs[i].reach;
    const bool whole = reach.mode == chain_fn::same || reach.mode == chain_fn::one;
    if (!whole) columns = reach.mod;
    modes |= (whole ? reach.mode : chain_fn::row) << (4 * i);
  }
  if (source.kernel.id == KernelId::matmul_split_sum__f32 && columns != 0) {
    std::memcpy(step.push.data() + offsetof(push::MatmulSplitSumPush, columns), &columns, sizeof(columns));
  }

  auto& constants = kernel.specialization;
  constants.resize(chain_fn::epilogue_constants);
  constants.insert(constants.end(), {modes, chain.outputs.size() > 1 ? chain.outputs[1].reg : 0,
                                     static_cast<std::uint32_t>(chain.steps.size() - 1), step_code(chain, 0)});
  const auto further = [&](auto word) {
    for (std::size_t i = 1; i <= chain_fn::epilogue_steps; ++i) {
      constants.push_back(i < chain.steps.size() ? word(i) : 0);
    }
  };
  further([&](std::size_t i) { return step_code(chain, i); });
  further([&](std::size_t i) { return std::bit_cast<std::uint32_t>(chain.steps[i].alpha); });
  further([&](std::size_t i) { return std::bit_cast<std::uint32_t>(chain.steps[i].beta); });

  const auto bind = [&](std::size_t at, const auto& operand) {
    kernel.storage &= ~(BindingStorage{3} << (2 * at));
    kernel.storage |= static_cast<BindingStorage>(operand.stored) << (2 * at);
    step.bindings[at] = operand.binding;
  };
  const std::size_t own = step.bindings.size();
  step.bindings.resize(own + kFurtherBindings);
  bind(source.out, chain.outputs[0]);
  // A binding that goes unused holds what another does.
  for (std::size_t i = 0; i < chain_fn::epilogue_inputs; ++i) {
    if (i < chain.inputs.size()) {
      bind(own + i, chain.inputs[i]);
    } else {
      bind(own + i, ChainInput{source.step.bindings[0], {}, binding_storage(source.kernel.storage, 0)});
    }
  }
  bind(own + chain_fn::epilogue_inputs, chain.outputs[chain.outputs.size() - 1]);
  kernel.bindings = static_cast<std::uint32_t>(step.bindings.size());
  return kernel;
}

}  // namespace graft
