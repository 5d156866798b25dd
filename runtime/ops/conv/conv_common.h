// What the four convolution ops share: one set of sizes, read from attributes and shapes, and the three dispatches.
// All are written in terms of the forward convolution x [images, h, w, c] * weight [o, kh, kw, c/groups] -> y.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/core/op_def.h"
#include "runtime/ops/emitter.h"
#include "runtime/ops/window.h"

namespace graft::ops::conv {

/// strides, dilations (both >= 1), pads top, left, bottom, right (>= 0) and groups (>= 1).
struct ConvWindow {
  std::array<std::int64_t, 2> strides = {1, 1};
  std::array<std::int64_t, 4> pads = {0, 0, 0, 0};
  std::array<std::int64_t, 2> dilations = {1, 1};
  std::int64_t groups = 1;
  std::array<Same, 2> same = {Same::no, Same::no};  ///< of conv alone, before it is bound
};

/// Reads and checks the attributes; absent ones have the defaults of ConvWindow.
Result<ConvWindow> read_conv_window(const Attrs& attrs);

/// Those attributes alone, as another convolution op takes them.
Attrs conv_window_attrs(const Attrs& attrs);

/// Positions of a window of `kernel` taps along an axis of `size`; an error when the padded axis is too short.
/// Axis 0 is height, 1 is width.
Result<std::int64_t> conv_output_size(const ConvWindow& window, std::size_t axis, std::int64_t size,
                                      std::int64_t kernel);

/// y's shape from x's and the weight's, all checked; the number of images may be symbolic.
Result<Shape> conv_output_shape(const ConvWindow& window, const Shape& x, const Shape& weight);

/// Concrete sizes for emit and for the reference.
struct ConvSizes {
  ConvWindow window;
  std::uint64_t images, h, w, c, oh, ow, o, kh, kw;
  std::uint64_t group_c() const { return c / static_cast<std::uint64_t>(window.groups); }
  std::uint64_t group_o() const { return o / static_cast<std::uint64_t>(window.groups); }
  std::uint64_t multiply_adds() const { return images * oh * ow * o * kh * kw * group_c(); }
};
/// Shapes are constant and were checked by inference.
ConvSizes conv_sizes(const Attrs& attrs, const Shape& x, const Shape& weight, const Shape& y);

/// CONV_LINES_FIELDS of a push block. Inference bounded each size; here the tensors must fit 32-bit addresses.
template <typename Push>
Status fill_conv_lines(const ConvSizes& sizes, Push& push) {
  GRAFT_TRY(count32(sizes.images * sizes.h * sizes.w * sizes.c, "images"));
  GRAFT_TRY(count32(sizes.images * sizes.oh * sizes.ow * sizes.o, "convolution's output"));
  GRAFT_TRY(count32(sizes.o * sizes.kh * sizes.kw * sizes.group_c(), "weight"));
  const auto u32 = [](auto value) { return static_cast<std::uint32_t>(value); };
  push.h = u32(sizes.h);
  push.w = u32(sizes.w);
  push.oh = u32(sizes.oh);
  push.ow = u32(sizes.ow);
  push.o = u32(sizes.o);
  push.kh = u32(sizes.kh);
  push.stride_h = u32(sizes.window.strides[0]);
  push.pad_h = u32(sizes.window.pads[0]);
  return ok_status();
}

/// CONV_FIELDS of a push block.
template <typename Push>
Status fill_conv(const ConvSizes& sizes, Push& push) {
  GRAFT_TRY(fill_conv_lines(sizes, push));
  const auto u32 = [](auto value) { return static_cast<std::uint32_t>(value); };
  push.c = u32(sizes.c);
  push.kw = u32(sizes.kw);
  push.stride_w = u32(sizes.window.strides[1]);
  push.pad_w = u32(sizes.window.pads[1]);
  push.dilation_h = u32(sizes.window.dilations[0]);
  push.dilation_w = u32(sizes.window.dilations[1]);
  push.group_c = u32(sizes.group_c());
  push.group_o = u32(sizes.group_o());
  return ok_status();
}

/// y = conv(x, weight) (+ bias).
Status emit_conv(Emitter& e, const ConvSizes& sizes, const Binding& x, const Binding& weight, const Binding* bias,
                 const Binding& y);
/// dx = gradient by x; with bias (over x's channels) it is a transposed convolution.
Status emit_conv_grad_data(Emitter& e, const ConvSizes& sizes, const Binding& dy, const Binding& weight,
                           const Binding* bias, const Binding& dx);
/// dw = gradient by the weight.
Status emit_conv_grad_weight(Emitter& e, const ConvSizes& sizes, const Binding& x, const Binding& dy,
                             const Binding& dw);

}  // namespace graft::ops::conv
