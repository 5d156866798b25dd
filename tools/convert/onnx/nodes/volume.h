// Windows along one axis at a time, by slices: what graft's kernels over images do not have, such as a depth.
#pragma once

#include "tools/convert/onnx/nodes/spatial.h"

namespace graft::convert {

/// A window along one axis of a value.
struct AxisWindow {
  std::size_t axis = 0;  ///< of the value
  std::int64_t kernel = 1, stride = 1, dilation = 1, begin = 0, end = 0;
  Dim in = 1, out = 1;     ///< positions
  std::int64_t slack = 0;  ///< where `in` is a symbol: out is (in + slack) / stride + 1, rounded down

  bool is_open() const { return !in.is_constant(); }
  /// How many taps of window `o` lie in the image, or also in the padding around it. Requires numbers.
  std::int64_t taps(std::int64_t o, bool with_pads) const;
};

/// The window of source axis 2 + i over axis `axis` of a value. Errors: a kernel that does not fit.
Result<AxisWindow> axis_window(NodeContext& c, const Window& window, std::size_t i, std::size_t axis);

/// Tap k of every window: x along the axis at o * stride - begin + k * dilation, `fill` outside.
ValueId tap(NodeContext& c, ValueId x, const AxisWindow& w, std::int64_t k, double fill = 0);

/// Sums over windows along the axis, each scaled: by 1 / taps where averages are asked for.
enum class Averaged { no, over_image, over_padding };
Result<ValueId> window_sums(NodeContext& c, ValueId x, const AxisWindow& w, Averaged averaged);

/// The convolution of [N, D, H, W, C] with [O, kh, kw, kd, C / groups], as [N, D, H, W, O].
Result<ValueId> conv_volume(NodeContext& c, ValueId x, ValueId weight, ValueId bias, const Window& window,
                            std::int64_t groups);
/// The transposed convolution of [N, D, H, W, I] with [I, kh, kw, kd, O / groups], which gives `out` positions.
Result<ValueId> conv_transpose_volume(NodeContext& c, ValueId x, ValueId weight, ValueId bias, const Window& window,
                                      const Ints& output_padding, std::int64_t groups);

/// The product of dims; an error where it cannot be formed.
Result<Dim> dims_product(std::initializer_list<Dim> dims);

}  // namespace graft::convert
