// Sizes of 2-D pooling over [N, H, W, C], shared by its four ops and their reference.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/core/op_def.h"
#include "runtime/ops/window.h"

namespace graft::ops::pool {

struct PoolWindow {
  std::array<std::int64_t, 2> kernel = {1, 1};
  std::array<std::int64_t, 2> strides = {1, 1};     ///< the default is the kernel's size, as in PyTorch
  std::array<std::int64_t, 4> pads = {0, 0, 0, 0};  ///< top, left, bottom, right
  std::array<std::int64_t, 2> dilations = {1, 1};
  bool ceil_mode = false;
  bool count_include_pad = false;
  std::array<Same, 2> same = {Same::no, Same::no};  ///< of max_pool and avg_pool, before they are bound
};

/// Reads and checks the attributes.
Result<PoolWindow> read_pool_window(const Attrs& attrs);

/// [N, oh, ow, C]. With ceil_mode a last, partial window counts only when it starts inside the image or the padding
/// before it (PyTorch's rule).
Result<Shape> pool_output_shape(const PoolWindow& window, const Shape& x);

}  // namespace graft::ops::pool
