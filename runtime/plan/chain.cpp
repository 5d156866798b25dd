#include "runtime/plan/chain.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "platform/base/checked.h"
#include "shaders/binary/binary_fn.h"
#include "shaders/chain/chain_fn.h"
#include "shaders/chain/chain_push.h"
#include "shaders/common/strided_push.h"
#include "shaders/gated/gated_push.h"
#include "shaders/kernels.gen.h"
#include "shaders/unary/unary_fn.h"
#include "shaders/unary/unary_push.h"

namespace graft {
namespace {

using shaders::KernelId;

/// Functions of floats that give floats, and that do not make a pipeline slow to compile.
bool unary_fits(std::uint32_t fn) {
  switch (fn) {
    case unary_fn::logical_not:
    case unary_fn::is_nan:
    case unary_fn::is_inf: return false;
    default: return true;
  }
}

bool binary_fits(std::uint32_t fn) {
  return fn == binary_fn::add || fn == binary_fn::sub || fn == binary_fn::mul || fn == binary_fn::div ||
         fn == binary_fn::maximum || fn == binary_fn::minimum;
}

template <typename Push>
Push push_of(const Step& step) {
  Push push{};
  std::memcpy(&push, step.push.data(), std::min(sizeof(Push), step.push.size()));
  return push;
}

/// The axes of a StridedPush in elements; see runtime/ops/elementwise.cpp.
struct Axes {
  std::uint32_t rank = 0;
  std::array<std::uint64_t, 8> dims = {};
  std::array<std::array<std::uint64_t, 8>, 2> strides = {};
  std::uint64_t count = 1;
};

Axes axes_of(const push::StridedPush& push, std::uint32_t rank, bool vector) {
  Axes axes;
  axes.rank = rank;
  const std::uint32_t* const tables[] = {push.strides_a, push.strides_b};
  for (std::uint32_t axis = 0; axis < rank; ++axis) {
    const bool fours = vector && rank > 1;
    axes.dims[axis] = std::uint64_t{push.dims[axis]} * (fours && axis == 0 ? 4 : 1);
    axes.count *= axes.dims[axis];
    for (std::size_t o = 0; o < 2; ++o) {
      axes.strides[o][axis] = std::uint64_t{tables[o][axis]} * (vector && axis > 0 && tables[o][0] == 1 ? 4 : 1);
    }
  }
  return axes;
}

/// nullopt where the operand is neither whole nor repeated in one manner.
std::optional<ChainReach> reach_of(const Axes& axes, std::size_t operand) {
  std::uint64_t div = 1;
  std::uint64_t mod = 1;
  enum { before, within, after } part = before;
  for (std::uint32_t axis = 0; axis < axes.rank; ++axis) {
    const std::uint64_t stride = axes.strides[operand][axis];
    if (part == before && stride == 0) {
      div *= axes.dims[axis];
    } else if (stride == 0) {
      part = after;
    } else {
      if (part == after || stride != mod) return std::nullopt;
      part = within;
      mod *= axes.dims[axis];
    }
  }
  if (mod == axes.count) return ChainReach{chain_fn::same, 1, 1};
  if (part == before) return ChainReach{chain_fn::one, 1, 1};
  const bool row = div == 1 && mod % 4 == 0;
  return ChainReach{row            ? chain_fn::row
                    : div % 4 == 0 ? chain_fn::column
                                   : chain_fn::any,
                    static_cast<std::uint32_t>(div), static_cast<std::uint32_t>(mod)};
}

std::optional<Chain> binary_chain(const Step& step, const PlanKernel& kernel) {
  if (!binary_fits(kernel.specialization[0])) return std::nullopt;
  const auto axes = axes_of(push_of<push::StridedPush>(step), kernel.specialization[1], kernel.specialization[2] != 0);
  if (axes.rank > 7 || axes.count > 0xffffffffu) return std::nullopt;
  Chain chain;
  chain.count = static_cast<std::uint32_t>(axes.count);
  for (std::size_t o = 0; o < 2; ++o) {
    const auto reach = reach_of(axes, o);
    if (!reach) return std::nullopt;
    chain.inputs.push_back({step.bindings[o], *reach, binding_storage(kernel.storage, o)});
  }
  const Stored stored = binding_storage(kernel.storage, 2);
  chain.steps.push_back({chain_fn::binary, kernel.specialization[0], 0, 1, 0, 0, stored});
  chain.outputs.push_back({step.bindings[2], chain_fn::inputs, stored});
  return chain;
}

constexpr ChainReach kWhole{chain_fn::same, 1, 1};

/// y = fn(gate) * up, or the gradient of that: see shaders/gated.
std::optional<Chain> gated_chain(const Step& step, const PlanKernel& kernel) {
  constexpr std::uint32_t kFns[] = {unary_fn::silu, unary_fn::gelu, unary_fn::gelu_tanh};
  const bool gradient = kernel.id == KernelId::gated_grad__f32;
  if (kernel.specialization[0] >= std::size(kFns)) return std::nullopt;
  const std::uint32_t fn = kFns[kernel.specialization[0]];
  Chain chain;
  chain.count = push_of<push::GatedPush>(step).count;
  const std::size_t inputs = gradient ? 3 : 2;
  for (std::size_t i = 0; i < inputs; ++i) {
    chain.inputs.push_back({step.bindings[i], kWhole, binding_storage(kernel.storage, i)});
  }
  const auto output = [&](std::size_t binding, std::uint32_t reg) {
    const Stored stored = binding_storage(kernel.storage, binding);
    chain.outputs.push_back({step.bindings[binding], chain_fn::inputs + reg, stored});
    chain.steps[reg].rounded = stored;
  };
  chain.steps.push_back({chain_fn::unary, fn, 0});
  chain.steps.push_back(
      {chain_fn::binary, binary_fn::mul, gradient ? 2u : chain_fn::inputs, gradient ? chain_fn::inputs : 1u});
  if (!gradient) {
    output(2, 1);
    return chain;
  }
  chain.steps.push_back({chain_fn::binary, binary_fn::mul, 2, 1});
  chain.steps.push_back({chain_fn::slope, fn, 0, chain_fn::inputs + 2});
  output(3, 3);
  output(4, 1);
  return chain;
}

/// Functions that kernels which end with a chain know: CHAIN_FEW in unary_apply.glsl and binary_apply.glsl.
bool is_common(const ChainStep& step) {
  if (step.kind == chain_fn::source) return true;
  if (step.kind == chain_fn::binary) {
    return step.fn == binary_fn::add || step.fn == binary_fn::sub || step.fn == binary_fn::mul;
  }
  switch (step.fn) {
    case unary_fn::tanh:
    case unary_fn::sigmoid:
    case unary_fn::relu:
    case unary_fn::gelu:
    case unary_fn::gelu_tanh:
    case unary_fn::silu:
    case unary_fn::erf:
    case unary_fn::affine:
    case unary_fn::clip: return true;
    default: return false;
  }
}

std::uint32_t add_input(Chain& chain, const ChainInput& input) {
  for (std::uint32_t i = 0; i < chain.inputs.size(); ++i) {
    const PlanBinding& b = chain.inputs[i].binding;
    const bool same = b.space == input.binding.space && b.offset == input.binding.offset &&
                      b.size == input.binding.size && chain.inputs[i].reach == input.reach &&
                      chain.inputs[i].stored == input.stored;
    if (same) return i;
  }
  chain.inputs.push_back(input);
  return static_cast<std::uint32_t>(chain.inputs.size() - 1);
}

/// Whether a step reads the register. What is only stored is rounded by the store.
bool is_read(const Chain& chain, std::size_t reg) {
  return std::any_of(chain.steps.begin(), chain.steps.end(), [&](const ChainStep& s) {
    if (s.kind == chain_fn::source) return false;
    return s.a == reg || (s.kind != chain_fn::unary && s.b == reg);
  });
}

static_assert(static_cast<std::uint32_t>(Stored::f16) == chain_fn::to_f16 &&
              static_cast<std::uint32_t>(Stored::bf16) == chain_fn::to_bf16);

}  // namespace

bool is_link(KernelId kernel) {
  switch (kernel) {
    case KernelId::binary__f32:
    case KernelId::unary__f32:
    case KernelId::unary_grad__f32:
    case KernelId::gated__f32:
    case KernelId::gated_grad__f32: return true;
    default: return false;
  }
}

std::optional<Chain> chain_of(const Step& step, const PlanKernel& kernel) {
  if (kernel.id == KernelId::binary__f32) return binary_chain(step, kernel);
  if (kernel.id == KernelId::gated__f32 || kernel.id == KernelId::gated_grad__f32) return gated_chain(step, kernel);
  const bool slope = kernel.id == KernelId::unary_grad__f32;
  if (!slope && kernel.id != KernelId::unary__f32) return std::nullopt;
  const std::uint32_t fn = kernel.specialization[0];
  if (!unary_fits(fn)) return std::nullopt;
  const auto push = push_of<push::UnaryPush>(step);
  Chain chain;
  chain.count = push.count;
  chain.inputs.push_back({step.bindings[0], kWhole, binding_storage(kernel.storage, 0)});
  std::uint32_t b = 0;
  if (slope) b = add_input(chain, {step.bindings[1], kWhole, binding_storage(kernel.storage, 1)});
  const Stored stored = binding_storage(kernel.storage, step.bindings.size() - 1);
  chain.steps.push_back({slope ? chain_fn::slope : chain_fn::unary, fn, 0, b, push.alpha, push.beta, stored});
  chain.outputs.push_back({step.bindings.back(), chain_fn::inputs, stored});
  return chain;
}

std::optional<Chain> join_chains(const Chain& first, const std::vector<char>& kept, const Chain& second) {
  Chain out = first;
  out.outputs.clear();
  const auto shift = static_cast<std::uint32_t>(first.steps.size());
  std::vector<std::uint32_t> registers;  // of the second's inputs
  for (const ChainInput& input : second.inputs) {
    const auto link = std::find_if(first.outputs.begin(), first.outputs.end(), [&](const ChainOutput& o) {
      return o.binding.space == input.binding.space && o.binding.offset == input.binding.offset;
    });
    registers.push_back(link != first.outputs.end() ? link->reg : add_input(out, input));
  }
  const auto moved = [&](std::uint32_t reg) { return reg < chain_fn::inputs ? registers[reg] : reg + shift; };
  for (ChainStep step : second.steps) {
    step.a = moved(step.a);
    step.b = moved(step.b);
    out.steps.push_back(step);
  }
  for (const ChainOutput& output : second.outputs) {
    out.outputs.push_back({output.binding, output.reg + shift, output.stored});
  }
  for (std::size_t i = 0; i < first.outputs.size(); ++i) {
    if (kept[i] != 0) out.outputs.push_back(first.outputs[i]);
  }
  return chain_fits(out) ? std::optional(std::move(out)) : std::nullopt;
}

bool chain_fits(const Chain& chain) {
  if (!chain.source) {
    return chain.inputs.size() <= chain_fn::inputs && chain.steps.size() <= chain_fn::steps &&
           chain.outputs.size() <= chain_fn::outputs;
  }
  std::uint32_t columns = chain.source->columns;
  for (const ChainInput& input : chain.inputs) {
    const ChainReach& reach = input.reach;
    if (reach.mode == chain_fn::same || reach.mode == chain_fn::one) continue;
    const bool row = reach.div == 1 && (reach.mode == chain_fn::row || reach.mode == chain_fn::any);
    if (!row || (columns != 0 && columns != reach.mod)) return false;
    columns = reach.mod;
  }
  return std::all_of(chain.steps.begin(), chain.steps.end(), is_common) &&
         chain.inputs.size() <= chain_fn::epilogue_inputs && chain.steps.size() <= 1 + chain_fn::epilogue_steps &&
         chain.outputs.size() <= chain_fn::epilogue_outputs;
}

std::vector<PlanBinding> chain_bindings(const Chain& chain) {
  std::vector<PlanBinding> bindings;
  if (chain.source) {
    const auto& own = chain.source->step.bindings;
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (i != chain.source->out) bindings.push_back(own[i]);
    }
  }
  for (const ChainInput& input : chain.inputs) bindings.push_back(input.binding);
  for (const ChainOutput& output : chain.outputs) bindings.push_back(output.binding);
  return bindings;
}

std::uint32_t step_code(const Chain& chain, std::size_t step) {
  const ChainStep& s = chain.steps[step];
  const std::uint32_t rounded = is_read(chain, chain_fn::inputs + step) ? static_cast<std::uint32_t>(s.rounded) : 0;
  return rounded << 24 | s.kind << 16 | s.fn << 8 | s.a << 4 | s.b;
}

PlanKernel chain_dispatch(const gpu::Caps& caps, const Chain& chain, Step& step) {
  constexpr std::uint32_t kUnitsPerGroup = 512;  // of chain.comp
  push::ChainPush push{};
  push.count = chain.count;
  std::uint32_t modes = static_cast<std::uint32_t>(chain.inputs.size()) << 16;
  for (std::size_t i = 0; i < chain_fn::inputs; ++i) {
    const ChainReach reach = i < chain.inputs.size() ? chain.inputs[i].reach : ChainReach{chain_fn::one, 1, 1};
    modes |= reach.mode << (4 * i);
    push.div[i] = reach.div;
    push.mod[i] = reach.mod;
  }
  std::uint32_t further = 0;
  for (std::size_t i = 1; i < chain.outputs.size(); ++i) further |= chain.outputs[i].reg << (8 * (i - 1));
  PlanKernel kernel{KernelId::chain__f32, {modes, further, static_cast<std::uint32_t>(chain.steps.size())}, 0, 0};
  for (std::size_t i = 0; i < chain_fn::steps; ++i) {
    const ChainStep s = i < chain.steps.size() ? chain.steps[i] : ChainStep{};
    kernel.specialization.push_back(i < chain.steps.size() ? step_code(chain, i) : 0);
    push.alpha[i] = s.alpha;
    push.beta[i] = s.beta;
  }
  step.bindings.clear();
  const auto bind = [&](const auto& operand) {
    kernel.storage |= static_cast<BindingStorage>(operand.stored) << (2 * step.bindings.size());
    step.bindings.push_back(operand.binding);
  };
  for (std::size_t i = 0; i < chain_fn::inputs; ++i) {
    bind(chain.inputs[i < chain.inputs.size() ? i : 0]);
  }
  for (std::size_t i = 0; i < chain_fn::outputs; ++i) {
    bind(chain.outputs[i < chain.outputs.size() ? i : 0]);
  }
  step.push.resize(sizeof(push));
  std::memcpy(step.push.data(), &push, sizeof(push));
  step.groups = spread_workgroups(caps, ceil_div(chain.count / 4 + chain.count % 4, kUnitsPerGroup));
  kernel.bindings = static_cast<std::uint32_t>(step.bindings.size());
  kernel.push_bytes = sizeof(push);
  return kernel;
}

}  // namespace graft
