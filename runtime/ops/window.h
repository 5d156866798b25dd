// Attributes of sliding windows (convolution, pooling): fixed counts of small integers.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "runtime/core/attrs.h"
#include "runtime/core/shape.h"

namespace graft {

/// Far beyond any image, and small enough that positions, pads and dilated kernels add up within 31 bits.
inline constexpr std::int64_t kMaxWindowExtent = std::int64_t{1} << 27;

/// Reads the attribute `name` into `out`, which keeps its value where the attribute is absent. An error when it does
/// not hold kCount numbers between `least` and kMaxWindowExtent.
template <std::size_t kCount>
Status read_window_ints(const Attrs& attrs, std::string_view name, std::int64_t least,
                        std::array<std::int64_t, kCount>& out) {
  if (!attrs.has(name)) return ok_status();
  const Ints values = attrs.integers(name);
  if (values.size() != kCount) {
    return invalid("The attribute \"", name, "\" of a 2-D window must hold ", kCount, " numbers; it holds ",
                   values.size(), ".");
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    if (values[i] < least || values[i] > kMaxWindowExtent) {
      return invalid("The attribute \"", name, "\" holds ", values[i], "; each number must lie between ", least,
                     " and ", kMaxWindowExtent, ".");
    }
    out[i] = values[i];
  }
  return ok_status();
}

/// How many windows of `extent` elements, `stride` apart, an axis has with `padding` elements more, which may be a
/// symbol; the last window is a whole one.
inline Result<Dim> window_count(const Dim& size, std::int64_t padding, std::int64_t extent, std::int64_t stride) {
  const auto room = add(size, Dim(padding - extent));
  const auto steps = room ? divide_floor(*room, stride) : std::nullopt;
  const auto count = steps ? add(*steps, Dim(1)) : std::nullopt;
  if (!count)
    return invalid("An axis of ", size.text(), " elements cannot be written with windows over it; bind it first.");
  return *count;
}

/// "height" for axis 0, "width" for axis 1.
inline std::string_view window_axis_name(std::size_t axis) { return axis == 0 ? "height" : "width"; }

}  // namespace graft
