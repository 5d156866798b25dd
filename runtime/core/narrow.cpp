#include "runtime/core/narrow.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "platform/base/half.h"
#include "runtime/core/finite.h"

namespace graft {
namespace {

/// Where a block's scales in f16 are: as many, one behind the other.
struct Scales {
  std::size_t first = 0;
  std::size_t count = 1;
};

Scales scales_of(DType dtype) {
  switch (dtype) {
    case DType::q4_1:
    case DType::q5_1:
    case DType::q4_k:
    case DType::q5_k: return {0, 2};
    case DType::q6_k: return {208, 1};
    default: return {};
  }
}

}  // namespace

float largest_number(DType dtype) {
  if (dtype == DType::f16) return half_to_float(0x7bff);
  return dtype == DType::bf16 ? bfloat_to_float(0x7f7f) : std::numeric_limits<float>::max();
}

Status check_narrowing(std::string_view name, std::span<const float> numbers, DType dtype) {
  if (dtype != DType::f16 && dtype != DType::bf16) return ok_status();
  // What is nearer to the next power of two than to the largest number is rounded to infinity.
  const float limit = dtype == DType::f16 ? 65520.0f : std::bit_cast<float>(0x7f7f8000u);
  const auto large = first_of(numbers.size(), [&](std::size_t i) {
    return std::abs(numbers[i]) >= limit && std::abs(numbers[i]) <= std::numeric_limits<float>::max();
  });
  if (!large) return ok_status();
  return invalid("The tensor \"", name, "\" holds ", numbers[*large], " at element ", *large, ", which ",
                 dtype_name(dtype), " cannot: its largest number is ", largest_number(dtype), ".");
}

Status check_blocks(std::string_view name, std::span<const float> numbers, DType dtype,
                    std::span<const std::byte> blocks) {
  const DTypeBlock block = dtype_block(dtype);
  const Scales scales = scales_of(dtype);
  for (std::size_t b = 0; (b + 1) * block.bytes <= blocks.size(); ++b) {
    const auto bytes = blocks.subspan(b * block.bytes + scales.first, 2 * scales.count);
    if (!find_non_finite(bytes, DType::f16)) continue;
    const auto of_block = numbers.subspan(b * block.elements, block.elements);
    const auto largest =
        std::ranges::max_element(of_block, [](float x, float y) { return std::abs(x) < std::abs(y); });
    const auto at = b * block.elements + static_cast<std::size_t>(largest - of_block.begin());
    return invalid("The tensor \"", name, "\" holds ", *largest, " at element ", at, ", which a block of ",
                   dtype_name(dtype), " cannot: its scale would exceed ", largest_number(DType::f16),
                   ", the largest number of f16.");
  }
  return ok_status();
}

}  // namespace graft
