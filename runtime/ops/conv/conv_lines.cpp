#include "runtime/ops/conv/conv_lines.h"

#include <algorithm>
#include <array>
#include <optional>

#include "platform/base/checked.h"
#include "shaders/built_kernels.gen.h"
#include "shaders/conv/conv_lines_push.h"
#include "shaders/kernels.gen.h"

namespace graft::ops::conv {
namespace {

using shaders::KernelId;

constexpr std::uint64_t kMostLineChannels = 4;
constexpr std::uint64_t kMostTaps = 11;  // of a line
// Multiply-adds of a step, all of them unrolled: with more, the kernel compiles for seconds.
constexpr std::uint64_t kMostLineProducts = 1024;

// What conv_lines_grad_data.comp has as constants.
struct Lines {
  std::uint64_t run, channels, taps, stride, pad;

  std::uint64_t products() const { return ceil_div(run * taps, stride) * channels * 4; }
  std::uint64_t columns() const { return (run - 1 + pad) / stride + ceil_div(taps - 1 - pad, stride) + 1; }
};

// Pixels of a lane with which lines take the least time; none where every run is too long for the compiler.
std::optional<Lines> choose_lines(const ConvSizes& sizes) {
  Lines lines = {.channels = sizes.c,
                 .taps = sizes.kw,
                 .stride = static_cast<std::uint64_t>(sizes.window.strides[1]),
                 .pad = static_cast<std::uint64_t>(sizes.window.pads[1])};
  // A load costs a CPU about as much as so many products of all lanes.
  constexpr std::uint64_t kLoadCost = 20;
  std::optional<Lines> best;
  std::uint64_t best_cost = 0;
  for (const std::uint64_t run : {16, 14, 12, 8}) {
    lines.run = run;
    if (run % lines.stride != 0 || lines.products() > kMostLineProducts) continue;
    const std::uint64_t cost = ceil_div(sizes.w, run) * (lines.products() + kLoadCost * lines.columns());
    if (best && best_cost <= cost) continue;
    best = lines;
    best_cost = cost;
  }
  return best;
}

bool suits_lines(const ConvSizes& sizes) {
  const ConvWindow& window = sizes.window;
  return window.groups == 1 && window.dilations == std::array<std::int64_t, 2>{1, 1} && sizes.c <= kMostLineChannels &&
         sizes.o % 4 == 0 && sizes.kw <= kMostTaps && window.pads[1] < static_cast<std::int64_t>(sizes.kw) &&
         sizes.images * sizes.h * sizes.w * sizes.c * sizes.oh * sizes.ow * sizes.o != 0;
}

}  // namespace

Result<bool> emit_grad_data_lines(Emitter& e, const ConvSizes& sizes, const Binding& dy, const Binding& weight,
                                  const Binding* bias, const Binding& dx) {
  if (!shaders::is_built(KernelId::conv_lines_grad_data__f32) || !suits_lines(sizes)) return false;
  const auto lines = choose_lines(sizes);
  if (!lines) return false;
  constexpr std::array kKernels = {KernelId::conv_grad_data__f32, KernelId::conv_lines_grad_data__f32};
  const ChoiceShape shape = {.m = sizes.images * sizes.oh * sizes.ow, .n = sizes.c, .k = sizes.kh * sizes.kw * sizes.o};
  if (e.note(choose(Family::few_channels, e.target(), shape, kKernels)).kernel == 0) return false;

  const auto u32 = [](auto value) { return static_cast<std::uint32_t>(value); };
  const std::uint32_t subgroup = cpu_lanes(e.caps());  // the first of a wide one
  push::ConvLinesPush push{.runs = u32(ceil_div(sizes.w, lines->run)), .has_bias = bias != nullptr ? 1u : 0u};
  GRAFT_TRY(fill_conv_lines(sizes, push));
  const std::uint64_t lanes = sizes.images * ceil_div<std::uint64_t>(sizes.h, push.stride_h) * push.runs;
  GRAFT_TRY_ASSIGN(push.lanes, count32(lanes, "runs of pixels"));
  push.groups = ceil_div(push.lanes, subgroup);
  const bool fours = sizes.w * sizes.c % 4 == 0 && lines->run * sizes.c % 4 == 0;
  e.dispatch(KernelId::conv_lines_grad_data__f32,
             {subgroup, u32(lines->run), u32(lines->channels), u32(lines->taps), u32(lines->stride), u32(lines->pad),
              fours ? 1u : 0u},
             {dy, weight, bias != nullptr ? *bias : dy, dx}, push,
             e.spread(std::uint64_t{push.groups} * push.stride_h));
  return true;
}

}  // namespace graft::ops::conv
