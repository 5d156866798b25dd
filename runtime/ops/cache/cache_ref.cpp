#include <algorithm>

#include "runtime/core/dtype.h"
#include "runtime/core/quantized.h"
#include "runtime/reference/ref_place.h"
#include "shaders/cache/cache_base.h"

namespace graft::ops::cache {

namespace {

/// What rows stand for once they are kept in blocks.
std::vector<double> rounded_to_blocks(DType dtype, std::span<const double> rows) {
  const std::vector<float> numbers(rows.begin(), rows.end());
  const DTypeBlock block = dtype_block(dtype);
  std::vector<std::byte> blocks(storage_bytes(dtype, rows.size()));
  quantize(dtype, numbers, blocks);
  std::vector<double> out(rows.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = dequantize_element(dtype, blocks.data() + i / block.elements * block.bytes,
                                static_cast<std::uint32_t>(i % block.elements));
  }
  return out;
}

}  // namespace

void ref_cache_append(RefContext& c) {
  const auto& cache = c.in_dims(0);
  const auto& x = c.in_dims(1);
  std::size_t row = 1;
  for (std::size_t axis = 2; axis < x.size(); ++axis) row *= static_cast<std::size_t>(x[axis]);
  const auto tokens = static_cast<std::size_t>(x[1]);
  const auto capacity = static_cast<std::size_t>(cache[1]);
  const DType dtype = c.graph().value(c.node().inputs[0]).dtype;
  const std::vector<double> given(c.in(1).begin(), c.in(1).end());
  const std::vector<double> kept = is_quantized(dtype) ? rounded_to_blocks(dtype, given) : given;
  const auto window = static_cast<std::uint32_t>(c.attrs().integer("window"));
  for (std::size_t item = 0; item < static_cast<std::size_t>(x[0]); ++item) {
    const RefPlace place = ref_place(c, 2, item);
    const auto whole = c.update(0).subspan(place.slot * capacity * row, capacity * row);
    std::size_t base = 0;
    if (window != 0) {
      base = cache_base(std::max(place.furthest, place.position), window);
      const std::size_t by = base - cache_base(place.furthest, window);
      if (by < capacity && by != 0) {
        std::copy(whole.begin() + static_cast<std::ptrdiff_t>(by * row), whole.end(), whole.begin());
      }
    }
    for (std::size_t token = 0; token < tokens; ++token) {
      if (place.position < base) continue;
      const std::size_t at = place.position - base + token;
      if (at >= capacity) continue;
      const auto from = std::span(kept).subspan((item * tokens + token) * row, row);
      std::copy(from.begin(), from.end(), whole.subspan(at * row, row).begin());
    }
  }
  std::copy(c.update(0).begin(), c.update(0).end(), c.out().begin());
}

void ref_positions(RefContext& c) {
  const auto sequence = static_cast<std::size_t>(c.out_dims().back());
  for (std::size_t i = 0; i < c.out().size(); ++i) {
    std::uint32_t first = c.attrs().flag("from_step") ? c.step_state().position : 0;
    if (c.has(0)) first = static_cast<std::uint32_t>(static_cast<std::int64_t>(c.in(0)[4 * (i / sequence) + 3]));
    if (c.has(0) && first == UINT32_MAX) first = 0;
    c.out()[i] = static_cast<double>(first) + static_cast<double>(i % sequence);
  }
}

}  // namespace graft::ops::cache
