// Attributes of sliding windows (convolution, pooling): fixed counts of small integers.
#pragma once

#include <algorithm>
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

/// The attribute "same" of a window over images: of each axis whether its pads follow from a size that is still a
/// symbol, so that a window begins at every stride-th element. bind() makes numbers of it.
enum class Same : std::int64_t { no, upper, lower };  ///< upper: what is odd goes behind
inline Result<std::array<Same, 2>> read_same(const Attrs& attrs) {
  std::array<std::int64_t, 2> given = {0, 0};
  GRAFT_TRY(read_window_ints(attrs, "same", 0, given));
  for (const std::int64_t mode : given) {
    if (mode > 2) return invalid("The attribute \"same\" holds ", mode, "; 0, 1 and 2 are known.");
  }
  return std::array<Same, 2>{Same{given[0]}, Same{given[1]}};
}
/// Pads before and behind an axis of `size`.
inline std::array<std::int64_t, 2> same_pads(Same mode, std::int64_t size, std::int64_t extent, std::int64_t stride) {
  const std::int64_t total = std::max<std::int64_t>((size - 1) / stride * stride + extent - size, 0);
  const std::int64_t less = total / 2, more = total - less;
  return mode == Same::lower ? std::array{more, less} : std::array{less, more};
}
/// How many windows such an axis has.
inline Result<Dim> same_count(const Dim& size, std::int64_t stride) {
  if (size.is_constant()) {
    return invalid("The pads of an axis of ", size.value(), " elements are numbers, not the attribute \"same\".");
  }
  return window_count(size, stride - 1, stride, stride);
}

/// "height" for axis 0, "width" for axis 1.
inline std::string_view window_axis_name(std::size_t axis) { return axis == 0 ? "height" : "width"; }

}  // namespace graft
