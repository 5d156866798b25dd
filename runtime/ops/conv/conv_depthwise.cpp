#include "runtime/ops/conv/conv_depthwise.h"

#include <algorithm>
#include <array>
#include <optional>

#include "platform/base/checked.h"
#include "runtime/ops/gemm.h"
#include "shaders/built_kernels.gen.h"
#include "shaders/conv/conv_depthwise_push.h"
#include "shaders/conv/conv_depthwise_window_push.h"
#include "shaders/kernels.gen.h"

namespace graft::ops::conv {
namespace {

using shaders::KernelId;
constexpr std::uint32_t kWorkgroup = 64;  // of the kernels but those with windows
constexpr std::uint32_t kPixelsPer = 4;   // output pixels of one invocation of theirs

// ---- any sizes

// One invocation for kPixelsPer pixels of a line of one channel, in forward and data gradient.
Status emit_pixels(Emitter& e, KernelId kernel, const ConvSizes& sizes, std::uint64_t lines, std::uint64_t columns,
                   std::uint64_t channels, std::vector<Binding> bindings, bool has_bias,
                   std::initializer_list<std::uint32_t> constants = {}) {
  push::ConvDepthwisePush push{};
  GRAFT_TRY(fill_conv(sizes, push));
  const std::uint64_t count = lines * ceil_div<std::uint64_t>(columns, kPixelsPer) * channels;
  if (count == 0) return ok_status();
  GRAFT_TRY_ASSIGN(push.count, count32(count, "invocations of a depthwise convolution"));
  push.has_bias = has_bias ? 1 : 0;
  e.dispatch(kernel, constants, std::move(bindings), push, e.spread(ceil_div<std::uint64_t>(count, kWorkgroup)));
  return ok_status();
}

ChoiceShape shape_of(const ConvSizes& sizes) {
  return {.m = sizes.images * sizes.oh * sizes.ow, .n = sizes.o, .k = sizes.kh * sizes.kw};
}

// One invocation for up to kTaps neighbouring taps of one output channel over a share of the output's lines.
Status emit_taps(Emitter& e, const ConvSizes& sizes, const Binding& x, const Binding& dy, const Binding& dw) {
  constexpr std::uint64_t kMaxTaps = 5;
  push::ConvDepthwisePush push{};
  GRAFT_TRY(fill_conv(sizes, push));
  const std::uint64_t outputs = sizes.o * sizes.kh * sizes.kw;
  if (outputs == 0) return ok_status();
  const std::uint64_t taps = std::min(sizes.kw, kMaxTaps);
  const std::uint64_t threads = sizes.o * sizes.kh * ceil_div(sizes.kw, taps);
  const std::uint64_t lines = sizes.images * sizes.oh;
  const std::uint64_t wanted = e.note(choose(Family::depthwise_dw, e.target(), shape_of(sizes))).tile[0];
  const std::uint64_t splits =
      std::clamp<std::uint64_t>(ceil_div(wanted, threads), 1, std::clamp<std::uint64_t>(lines, 1, 64));
  GRAFT_TRY(count32(threads * splits, "invocations of a depthwise weight gradient"));
  GRAFT_TRY(count32(outputs * splits, "parts of a depthwise weight gradient"));
  push.lines = static_cast<std::uint32_t>(lines);
  push.lines_per_split = static_cast<std::uint32_t>(ceil_div(lines, splits));
  const auto compute = [&](std::uint64_t first, std::uint64_t count, const Binding& to) {
    push.first_split = static_cast<std::uint32_t>(first);
    push.count = static_cast<std::uint32_t>(threads * count);
    e.dispatch(KernelId::conv_depthwise_grad_weight__f32, {static_cast<std::uint32_t>(taps)}, {x, dy, to}, push,
               e.spread(ceil_div<std::uint64_t>(push.count, kWorkgroup)));
    return ok_status();
  };
  if (splits == 1) return compute(0, 1, dw);
  return emit_split(e, {splits, outputs}, {.a = x, .b = dy, .out = dw}, compute);
}

// ---- sliding windows: conv_depthwise_window.glsl

constexpr std::uint32_t kWindowWorkgroup = 8;
constexpr std::uint32_t kWindowLines = 4;      // kLines
constexpr std::uint64_t kWindowColumns = 128;  // of a unit at most: two more input columns are loaded than it has

bool unit_stride(const ConvSizes& sizes) { return sizes.window.strides == std::array<std::int64_t, 2>{1, 1}; }

constexpr std::array kWindow = {KernelId::conv_depthwise_window__f32, KernelId::conv_depthwise_window__f32_pairs};
constexpr std::array kWindowGradWeight = {KernelId::conv_depthwise_window_grad_weight__f32,
                                          KernelId::conv_depthwise_window_grad_weight__f32_pairs};

// Which of the kernels by windows can do it and is what suits the device (Family::depthwise), and how many channels its
// lanes have; none where `pixels` does.
struct WindowChoice {
  KernelId kernel;
  std::uint32_t channels;
};
std::optional<WindowChoice> choose_window(Emitter& e, const ConvSizes& sizes, KernelId pixels,
                                          const std::array<KernelId, 2>& windows) {
  const ConvWindow& window = sizes.window;
  const auto small = [](std::uint64_t kernel, std::int64_t stride) {
    return kernel <= 5 && static_cast<std::uint64_t>(stride) <= std::min<std::uint64_t>(kernel, 2);
  };
  const bool can = sizes.c == sizes.o && sizes.c % 4 == 0 && window.dilations == std::array<std::int64_t, 2>{1, 1} &&
                   small(sizes.kh, window.strides[0]) && small(sizes.kw, window.strides[1]);
  if (!can) return std::nullopt;
  const std::array kernels = {pixels, windows[0], windows[1]};
  const std::uint8_t chosen = e.note(choose(Family::depthwise, e.target(), shape_of(sizes), kernels)).kernel;
  if (chosen == 0) return std::nullopt;
  return WindowChoice{kernels[chosen], chosen == 2 ? 8u : 4u};
}

std::vector<std::uint32_t> window_constants(const ConvSizes& sizes) {
  return {static_cast<std::uint32_t>(sizes.kh), static_cast<std::uint32_t>(sizes.kw),
          static_cast<std::uint32_t>(sizes.window.strides[0]), static_cast<std::uint32_t>(sizes.window.strides[1])};
}

Result<push::ConvDepthwiseWindowPush> window_push(const ConvSizes& sizes, std::uint32_t channels) {
  push::ConvDepthwisePush all{};
  GRAFT_TRY(fill_conv(sizes, all));
  push::ConvDepthwiseWindowPush push{.h = all.h,
                                     .w = all.w,
                                     .oh = all.oh,
                                     .ow = all.ow,
                                     .pad_h = all.pad_h,
                                     .pad_w = all.pad_w,
                                     .strips = all.c / channels};
  push.row_blocks = ceil_div(push.oh, kWindowLines);
  const std::uint64_t column_blocks = ceil_div<std::uint64_t>(sizes.ow, kWindowColumns);
  push.columns_per_block =
      static_cast<std::uint32_t>(ceil_div<std::uint64_t>(sizes.ow, std::max<std::uint64_t>(column_blocks, 1)));
  push.column_blocks = push.columns_per_block == 0 ? 0 : ceil_div(push.ow, push.columns_per_block);
  push.units = static_cast<std::uint32_t>(sizes.images) * push.row_blocks * push.column_blocks;
  return push;
}

// Forward, or with `flip` the data gradient as a convolution of dy.
Status emit_window(Emitter& e, const WindowChoice& choice, const ConvSizes& sizes, const Binding& x,
                   const Binding& weight, const Binding* bias, const Binding& y, bool flip) {
  GRAFT_TRY_ASSIGN(push::ConvDepthwiseWindowPush push, window_push(sizes, choice.channels));
  push.has_bias = bias != nullptr ? 1 : 0;
  const std::uint64_t invocations = std::uint64_t{push.units} * push.strips;
  if (invocations == 0) return ok_status();
  const auto k = window_constants(sizes);
  e.dispatch(choice.kernel, {k[0], k[1], k[2], k[3], flip ? 1u : 0u}, {x, weight, bias != nullptr ? *bias : x, y}, push,
             e.spread(ceil_div<std::uint64_t>(invocations, kWindowWorkgroup)));
  return ok_status();
}

// The convolution of dy that gives dx at stride 1.
ConvSizes turned(const ConvSizes& sizes) {
  ConvSizes out = sizes;
  out.h = sizes.oh;
  out.w = sizes.ow;
  out.oh = sizes.h;
  out.ow = sizes.w;
  out.window.pads[0] = static_cast<std::int64_t>(sizes.kh) - 1 - sizes.window.pads[0];
  out.window.pads[1] = static_cast<std::int64_t>(sizes.kw) - 1 - sizes.window.pads[1];
  return out;
}

Status emit_window_grad_weight(Emitter& e, const WindowChoice& choice, const ConvSizes& sizes, const Binding& x,
                               const Binding& dy, const Binding& dw) {
  constexpr std::uint64_t kWanted = 64;  // invocations per strip and lane: a few workgroups for every core
  GRAFT_TRY_ASSIGN(push::ConvDepthwiseWindowPush push, window_push(sizes, choice.channels));
  const std::uint64_t outputs = sizes.o * sizes.kh * sizes.kw;
  const std::uint64_t wanted = std::clamp<std::uint64_t>(kWanted * kWindowWorkgroup / push.strips, 1, kWanted);
  const std::uint64_t splits = std::clamp<std::uint64_t>(wanted, 1, std::max(push.units, 1u));
  push.units_per_split = ceil_div(push.units, static_cast<std::uint32_t>(splits));
  const std::uint32_t parts = push.units == 0 ? 1 : ceil_div(push.units, push.units_per_split);
  const auto k = window_constants(sizes);
  const auto compute = [&](std::uint64_t first, std::uint64_t count, const Binding& to) {
    push.first_split = static_cast<std::uint32_t>(first);
    push.splits = static_cast<std::uint32_t>(count);
    e.dispatch(choice.kernel, {k[0], k[1], k[2], k[3]}, {x, dy, to}, push,
               e.spread(ceil_div<std::uint64_t>(std::uint64_t{push.strips} * push.splits, kWindowWorkgroup)));
    return ok_status();
  };
  if (parts == 1) return compute(0, 1, dw);
  return emit_split(e, {parts, outputs}, {.a = x, .b = dy, .out = dw}, compute);
}

/// A build without them needs nothing of the rest.
template <std::size_t N>
constexpr bool has_any(KernelId one, const std::array<KernelId, N>& others) {
  return shaders::is_built(one) || std::ranges::any_of(others, shaders::is_built);
}

}  // namespace

Status emit_depthwise(Emitter& e, const ConvSizes& sizes, const Binding& x, const Binding& weight, const Binding* bias,
                      const Binding& y) {
  constexpr KernelId kPixels = KernelId::conv_depthwise__f32;
  if constexpr (!has_any(kPixels, kWindow)) return no_other_kernel(e.caps(), kPixels);
  if (const auto choice = choose_window(e, sizes, KernelId::conv_depthwise__f32, kWindow))
    return emit_window(e, *choice, sizes, x, weight, bias, y, false);
  return emit_pixels(e, KernelId::conv_depthwise__f32, sizes, sizes.images * sizes.oh, sizes.ow, sizes.o,
                     {x, weight, bias != nullptr ? *bias : x, y}, bias != nullptr);
}

Status emit_depthwise_grad_data(Emitter& e, const ConvSizes& sizes, const Binding& dy, const Binding& weight,
                                const Binding* bias, const Binding& dx) {
  constexpr KernelId kPixels = KernelId::conv_depthwise_grad_data__f32;
  if constexpr (!has_any(kPixels, kWindow)) return no_other_kernel(e.caps(), kPixels);
  if (unit_stride(sizes)) {
    if (const auto choice = choose_window(e, sizes, KernelId::conv_depthwise_grad_data__f32, kWindow))
      return emit_window(e, *choice, turned(sizes), dy, weight, bias, dx, true);
  }
  return emit_pixels(e, KernelId::conv_depthwise_grad_data__f32, sizes, sizes.images * sizes.h, sizes.w, sizes.c,
                     {dy, weight, bias != nullptr ? *bias : dy, dx}, bias != nullptr, {unit_stride(sizes) ? 1u : 0u});
}

Status emit_depthwise_grad_weight(Emitter& e, const ConvSizes& sizes, const Binding& x, const Binding& dy,
                                  const Binding& dw) {
  constexpr KernelId kTaps = KernelId::conv_depthwise_grad_weight__f32;
  if constexpr (!has_any(kTaps, kWindowGradWeight)) return no_other_kernel(e.caps(), kTaps);
  if (sizes.o * sizes.kh * sizes.kw == 0) return ok_status();
  const auto choice = choose_window(e, sizes, KernelId::conv_depthwise_grad_weight__f32, kWindowGradWeight);
  return choice ? emit_window_grad_weight(e, *choice, sizes, x, dy, dw) : emit_taps(e, sizes, x, dy, dw);
}

}  // namespace graft::ops::conv
