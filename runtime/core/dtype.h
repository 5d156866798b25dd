// Element types of values. Sizes are those on the device and in weight segments.
#pragma once

#include <cstdint>
#include <string_view>

namespace graft {

enum class DType : std::uint8_t {
  f32 = 0,
  i32 = 1,      ///< also what 64-bit integer inputs of other formats become, range-checked
  boolean = 2,  ///< 0 or 1 in a 32-bit word, so that the baseline needs no 8-bit storage
  f16 = 3,
  bf16 = 4,
};

/// Bytes of one element on the device and in files.
constexpr std::uint64_t dtype_size(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16 ? 2 : 4; }
constexpr bool is_float(DType dtype) { return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16; }
std::string_view dtype_name(DType dtype);  ///< "f32"

}  // namespace graft
