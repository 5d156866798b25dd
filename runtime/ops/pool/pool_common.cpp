#include "runtime/ops/pool/pool_common.h"

#include <algorithm>

namespace graft::ops::pool {
namespace {

Result<Dim> output_size(const PoolWindow& window, const Shape& x, std::size_t axis) {
  const std::string_view name = window_axis_name(axis);
  const Dim& dim = x[axis + 1];
  const std::int64_t size = dim.is_constant() ? dim.value() : kMaxWindowExtent;
  if (size > kMaxWindowExtent || window.kernel[axis] > kMaxWindowExtent / window.dilations[axis]) {
    return invalid("Pooling over a ", name, " of ", size, " with a window of ", window.kernel[axis],
                   " and a dilation of ", window.dilations[axis], " is out of range; the limit is ", kMaxWindowExtent,
                   ".");
  }
  const std::int64_t stride = window.strides[axis];
  if (window.same[axis] != Same::no) return same_count(dim, stride);  // with as much padding as that takes
  const std::int64_t before = window.pads[axis];
  const std::int64_t padded = size + before + window.pads[axis + 2];
  const std::int64_t extent = window.dilations[axis] * (window.kernel[axis] - 1) + 1;
  const bool one_cut_off = window.ceil_mode && padded < extent && padded + stride > extent;  // begins in the image
  if (padded < extent && !one_cut_off) {
    return invalid("The padded ", name, " is ", padded, ", less than the ", extent, " that the pooling window spans.");
  }
  if (one_cut_off) return Dim(1);
  if (!dim.is_constant()) {
    const std::int64_t behind = window.pads[axis + 2];
    if (!window.ceil_mode) return window_count(dim, before + behind, extent, stride);
    // Below, one window at most begins in the padding behind.
    if (behind > extent) {
      return invalid("Pooling in ceil_mode with a padding of ", behind,
                     ", more than its window, needs a number for the ", name, " of ", x.text(), "; \"", dim.text(),
                     "\" is a symbol. Bind it first.");
    }
    // The last window begins within the image or the padding before it, and reaches at most stride - 1 beyond its end.
    return window_count(dim, before, std::max<std::int64_t>(1 + extent - behind - stride, 1), stride);
  }
  const std::int64_t room = padded - extent;
  if (!window.ceil_mode) return Dim(room / stride + 1);
  const std::int64_t windows = (room + stride - 1) / stride + 1;
  return Dim((windows - 1) * stride >= size + before ? windows - 1 : windows);
}

}  // namespace

Result<PoolWindow> read_pool_window(const Attrs& attrs) {
  PoolWindow window;
  GRAFT_TRY(read_window_ints(attrs, "kernel", 1, window.kernel));
  window.strides = window.kernel;
  GRAFT_TRY(read_window_ints(attrs, "strides", 1, window.strides));
  GRAFT_TRY(read_window_ints(attrs, "pads", 0, window.pads));
  GRAFT_TRY(read_window_ints(attrs, "dilations", 1, window.dilations));
  GRAFT_TRY_ASSIGN(window.same, read_same(attrs));
  window.ceil_mode = attrs.flag("ceil_mode");
  window.count_include_pad = attrs.flag("count_include_pad");
  return window;
}

Result<Shape> pool_output_shape(const PoolWindow& window, const Shape& x) {
  if (x.rank() != 4) return invalid("Pooling needs images [N, H, W, C]; it was given the shape ", x.text(), ".");
  GRAFT_TRY_ASSIGN(const Dim oh, output_size(window, x, 0));
  GRAFT_TRY_ASSIGN(const Dim ow, output_size(window, x, 1));
  return Shape{x[0], oh, ow, x[3]};
}

}  // namespace graft::ops::pool
