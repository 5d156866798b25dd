// Dispatches of the three convolution kernels; depthwise ones (one input channel per group) have their own.
#include <algorithm>
#include <array>
#include <numeric>

#include "platform/base/checked.h"
#include "runtime/ops/conv/conv_common.h"
#include "runtime/ops/conv/conv_depthwise.h"
#include "runtime/ops/conv/conv_few.h"
#include "runtime/ops/conv/conv_lines.h"
#include "runtime/ops/parts.h"
#include "runtime/ops/product.h"
#include "shaders/conv/conv_grad_weight_push.h"
#include "shaders/conv/conv_push.h"
#include "shaders/kernels.gen.h"

namespace graft::ops::conv {
namespace {

using shaders::KernelId;

// 1x1 with stride 1: pixels are independent, and all images may be taken for one long line.
bool is_pointwise(const ConvSizes& sizes) {
  const ConvWindow& window = sizes.window;
  const bool plain =
      window.strides == std::array<std::int64_t, 2>{1, 1} && window.pads == std::array<std::int64_t, 4>{0, 0, 0, 0};
  return plain && sizes.kh == 1 && sizes.kw == 1;
}

// In one group that is the product of two matrices.
bool is_product(const ConvSizes& sizes) { return is_pointwise(sizes) && sizes.window.groups == 1; }

ConvSizes one_line(ConvSizes sizes) {
  sizes.w = sizes.ow = sizes.images * sizes.h * sizes.w;
  sizes.images = sizes.h = sizes.oh = 1;
  return sizes;
}

std::uint64_t pixels_of(const ConvSizes& sizes) { return sizes.images * sizes.oh * sizes.ow; }

GemmOperands operands(const Binding& a, const Binding& b, const Binding* bias, std::uint64_t bias_count,
                      const Binding& out) {
  GemmOperands x{.a = a, .b = b, .out = out, .takes_bias = true};
  if (bias != nullptr) {
    x.has_bias = true;
    x.bias = *bias;
    x.bias_count = bias_count;
  }
  return x;
}

// The three products over images that a binding can hold.

Status conv_part(Emitter& e, const ConvSizes& sizes, const Binding& x, const Binding& weight, const Binding* bias,
                 const Binding& y) {
  if (is_depthwise(sizes)) return emit_depthwise(e, sizes, x, weight, bias, y);
  GRAFT_TRY_ASSIGN(const bool done, emit_conv_few(e, sizes, x, weight, bias, y));
  if (done) return ok_status();
  if (is_product(sizes)) {
    return emit_product(e, {.m = pixels_of(sizes), .n = sizes.o, .k = sizes.c, .trans_b = true},
                        operands(x, weight, bias, sizes.o, y));
  }
  push::ConvPush push{};
  GRAFT_TRY(fill_conv(sizes, push));
  // Without padding at the sides, a line of the kernel reads one contiguous stretch of x: a single, longer inner step.
  const ConvWindow& window = sizes.window;
  if (window.groups == 1 && window.dilations[1] == 1 && window.pads[1] == 0 && window.pads[3] == 0) {
    push.group_c *= push.kw;
    push.kw = 1;
  }
  const std::uint64_t pixels = pixels_of(sizes);
  const bool fours = sizes.c % 4 == 0 && push.group_c % 4 == 0;
  const GemmProblem problem{.m = pixels,
                            .n = sizes.group_o(),
                            .outer = std::uint64_t{push.kh} * push.kw,
                            .inner = push.group_c,
                            .batches = static_cast<std::uint64_t>(sizes.window.groups),
                            .outputs = pixels * sizes.o,
                            .a_fours = fours ? Fours::along_k : Fours::none,
                            .b_fours = push.group_c % 4 == 0 ? Fours::along_k : Fours::none};
  return emit_gemm(
      e,
      {KernelId::conv__f32, KernelId::conv__f32_shuffle, KernelId::conv__f32_coopmat, KernelId::conv__f32_apart,
       KernelId::conv__f32_flexible, KernelId::conv__f32_coopmat_bf16, KernelId::conv__f32_flexible_bf16},
      problem, operands(x, weight, bias, sizes.o, y), push);
}

// A kernel of 1x1 with strides of 2 reaches one input pixel of each 2x2. Workgroups that store nothing but zeros took a
// quarter of the time on CPU devices.
bool is_in_cells(const ConvSizes& sizes) {
  const ConvWindow& window = sizes.window;
  return sizes.kh == 1 && sizes.kw == 1 && window.strides == std::array<std::int64_t, 2>{2, 2} && window.pads[0] == 0 &&
         window.pads[1] == 0 && sizes.h % 2 == 0 && sizes.w % 2 == 0;
}

Status grad_data_part(Emitter& e, const ConvSizes& sizes, const Binding& dy, const Binding& weight, const Binding* bias,
                      const Binding& dx) {
  if (is_depthwise(sizes)) return emit_depthwise_grad_data(e, sizes, dy, weight, bias, dx);
  if (bias == nullptr) {
    GRAFT_TRY_ASSIGN(const bool few, emit_grad_data_few(e, sizes, dy, weight, dx));
    if (few) return ok_status();
  }
  GRAFT_TRY_ASSIGN(const bool done, emit_grad_data_lines(e, sizes, dy, weight, bias, dx));
  if (done) return ok_status();
  if (is_product(sizes)) {
    return emit_product(e, {.m = pixels_of(sizes), .n = sizes.c, .k = sizes.o},
                        operands(dy, weight, bias, sizes.c, dx));
  }
  push::ConvPush push{};
  GRAFT_TRY(fill_conv(sizes, push));
  // Tap r reaches input row i when stride divides i + pad - r * dilation; such taps recur with this period.
  push.tap_step_h = push.stride_h / std::gcd(push.stride_h, push.dilation_h);
  push.tap_step_w = push.stride_w / std::gcd(push.stride_w, push.dilation_w);
  const std::uint64_t taps =
      ceil_div<std::uint64_t>(sizes.kh, push.tap_step_h) * ceil_div<std::uint64_t>(sizes.kw, push.tap_step_w);
  const std::uint64_t phase_pixels =
      ceil_div<std::uint64_t>(sizes.h, push.stride_h) * ceil_div<std::uint64_t>(sizes.w, push.stride_w);
  const std::uint64_t phases = std::uint64_t{push.stride_h} * push.stride_w;
  GemmProblem problem{.m = sizes.images * phase_pixels,
                      .n = sizes.group_c(),
                      .outer = taps,
                      .inner = sizes.group_o(),
                      .batches = static_cast<std::uint64_t>(sizes.window.groups) * phases,
                      .outputs = sizes.images * sizes.h * sizes.w * sizes.c,
                      .operands = matrix_operands(e, std::array{dy, weight}),
                      .a_fours = sizes.group_o() % 4 == 0 ? Fours::along_k : Fours::none,
                      .b_fours = sizes.group_c() % 4 == 0 ? Fours::across : Fours::none};
  GemmKernels kernels = {KernelId::conv_grad_data__f32,
                         KernelId::conv_grad_data__f32_shuffle,
                         KernelId::conv_grad_data__f32_coopmat,
                         KernelId::conv_grad_data__f32_apart,
                         KernelId::conv_grad_data__f32_flexible,
                         KernelId::conv_grad_data__f32_coopmat_bf16,
                         KernelId::conv_grad_data__f32_flexible_bf16};
  GemmProblem cells = problem;
  cells.batches /= phases;
  if (is_in_cells(sizes) && tile_owns_columns(e.target(), cells, kernels)) {
    problem = cells;
    kernels.special = 1;
  }
  return emit_gemm(e, kernels, problem, operands(dy, weight, bias, sizes.c, dx), push);
}

constexpr GemmKernels kGradWeight = {KernelId::conv_grad_weight__f32,
                                     KernelId::conv_grad_weight__f32_shuffle,
                                     KernelId::conv_grad_weight__f32_coopmat,
                                     KernelId::conv_grad_weight__f32_apart,
                                     KernelId::conv_grad_weight__f32_flexible,
                                     KernelId::conv_grad_weight__f32_coopmat_bf16,
                                     KernelId::conv_grad_weight__f32_flexible_bf16};

// Lanes that own columns load four at once. Where lines do not end at a multiple of four, all pixels of an image are
// one outer step: 49 pixels are 13 fours, but 7 lines of 7 are 14.
GemmProblem in_whole_images(Emitter& e, const ConvSizes& sizes, const GemmProblem& lines) {
  constexpr std::uint64_t kMostPixels = 1u << 20;  // of which a quotient by the width is exact: conv_grad_weight.comp
  GemmProblem images = lines;
  images.outer = sizes.images;
  images.inner = sizes.oh * sizes.ow;
  if (sizes.ow % 4 == 0 || sizes.oh == 1 || images.inner > kMostPixels) return lines;
  return tile_owns_columns(e.target(), images, kGradWeight) ? images : lines;
}

Status grad_weight_part(Emitter& e, const ConvSizes& sizes, const Binding& x, const Binding& dy, const Binding& dw) {
  if (is_depthwise(sizes)) return emit_depthwise_grad_weight(e, sizes, x, dy, dw);
  GRAFT_TRY_ASSIGN(const bool done, emit_grad_weight_few(e, sizes, x, dy, dw));
  if (done) return ok_status();
  if (is_product(sizes)) {
    return emit_product(e, {.m = sizes.o, .n = sizes.c, .k = pixels_of(sizes), .trans_a = true},
                        {.a = dy, .b = x, .out = dw});
  }
  if (is_pointwise(sizes) && sizes.images * sizes.oh > 1) return grad_weight_part(e, one_line(sizes), x, dy, dw);
  push::ConvGradWeightPush push{};
  GRAFT_TRY(fill_conv(sizes, push));
  const std::uint64_t columns = sizes.kh * sizes.kw * sizes.group_c();
  GemmProblem lines{.m = sizes.group_o(),
                    .n = columns,
                    .outer = sizes.images * sizes.oh,
                    .inner = sizes.ow,
                    .batches = static_cast<std::uint64_t>(sizes.window.groups),
                    .outputs = sizes.o * columns,
                    .a_fours = sizes.group_o() % 4 == 0 ? Fours::across : Fours::none,
                    .b_fours = sizes.group_c() % 4 == 0 ? Fours::across : Fours::none};
  lines.operands = matrix_operands(e, std::array{x, dy});  // as emit_gemm() does
  const GemmProblem problem = in_whole_images(e, sizes, lines);
  GemmKernels kernels = kGradWeight;
  if (problem.outer != lines.outer) {
    kernels.special = 1;
    push.lines_per_pixel = 1.0f / static_cast<float>(push.ow);
  }
  return emit_gemm(e, kernels, problem, {.a = x, .b = dy, .out = dw}, push);
}

// ---- in parts, image by image where need be

Result<std::uint64_t> images_per_part(const Emitter& e, const ConvSizes& sizes) {
  return items_per_part(e.caps(), sizes.images, {sizes.h * sizes.w * sizes.c, sizes.oh * sizes.ow * sizes.o},
                        "images of a convolution");
}

Binding x_part(const Binding& x, const ConvSizes& sizes, std::uint64_t first, std::uint64_t count) {
  return items_of(x, first, count, sizes.images, sizes.h * sizes.w * sizes.c);
}

Binding y_part(const Binding& y, const ConvSizes& sizes, std::uint64_t first, std::uint64_t count) {
  return items_of(y, first, count, sizes.images, sizes.oh * sizes.ow * sizes.o);
}

ConvSizes of_images(ConvSizes sizes, std::uint64_t count) {
  sizes.images = count;
  return sizes;
}

}  // namespace

Status emit_conv(Emitter& e, const ConvSizes& sizes, const Binding& x, const Binding& weight, const Binding* bias,
                 const Binding& y) {
  GRAFT_TRY_ASSIGN(const std::uint64_t per_part, images_per_part(e, sizes));
  return for_each_part(sizes.images, per_part, [&](std::uint64_t first, std::uint64_t count) {
    return conv_part(e, of_images(sizes, count), x_part(x, sizes, first, count), weight, bias,
                     y_part(y, sizes, first, count));
  });
}

Status emit_conv_grad_data(Emitter& e, const ConvSizes& sizes, const Binding& dy, const Binding& weight,
                           const Binding* bias, const Binding& dx) {
  GRAFT_TRY_ASSIGN(const std::uint64_t per_part, images_per_part(e, sizes));
  return for_each_part(sizes.images, per_part, [&](std::uint64_t first, std::uint64_t count) {
    return grad_data_part(e, of_images(sizes, count), y_part(dy, sizes, first, count), weight, bias,
                          x_part(dx, sizes, first, count));
  });
}

Status emit_conv_grad_weight(Emitter& e, const ConvSizes& sizes, const Binding& x, const Binding& dy,
                             const Binding& dw) {
  GRAFT_TRY_ASSIGN(const std::uint64_t per_part, images_per_part(e, sizes));
  const std::uint64_t outputs = sizes.o * sizes.kh * sizes.kw * sizes.group_c();
  if (per_part >= sizes.images || outputs == 0) return grad_weight_part(e, sizes, x, dy, dw);
  return emit_partial_sums(e, sizes.images, per_part, outputs, {.a = x, .b = dy, .out = dw},
                           [&](std::uint64_t first, std::uint64_t count, const Binding& to) {
                             return grad_weight_part(e, of_images(sizes, count), x_part(x, sizes, first, count),
                                                     y_part(dy, sizes, first, count), to);
                           });
}

}  // namespace graft::ops::conv
