#include <algorithm>

#include "runtime/core/dtype.h"
#include "runtime/core/quantized.h"
#include "runtime/reference/ref_context.h"
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
  std::size_t base = 0;
  if (window != 0) {
    const std::uint32_t before = c.step_state().step;
    base = cache_base(std::max(before, c.step_state().position), window);
    const std::size_t by = base - cache_base(before, window);
    for (std::size_t i = 0; by < capacity && by != 0 && i < static_cast<std::size_t>(x[0]); ++i) {
      const auto whole = c.update(0).subspan(i * capacity * row, capacity * row);
      std::copy(whole.begin() + static_cast<std::ptrdiff_t>(by * row), whole.end(), whole.begin());
    }
  }
  for (std::size_t item = 0; item < static_cast<std::size_t>(x[0]); ++item) {
    for (std::size_t token = 0; token < tokens; ++token) {
      if (c.step_state().position < base) continue;
      const std::size_t at = c.step_state().position - base + token;
      if (at >= capacity) continue;
      const auto from = std::span(kept).subspan((item * tokens + token) * row, row);
      std::copy(from.begin(), from.end(), c.update(0).subspan((item * capacity + at) * row, row).begin());
    }
  }
  std::copy(c.update(0).begin(), c.update(0).end(), c.out().begin());
}

void ref_positions(RefContext& c) {
  const auto sequence = static_cast<std::size_t>(c.out_dims().back());
  const double first = c.attrs().flag("from_step") ? c.step_state().position : 0;
  for (std::size_t i = 0; i < c.out().size(); ++i) c.out()[i] = first + static_cast<double>(i % sequence);
}

}  // namespace graft::ops::cache
