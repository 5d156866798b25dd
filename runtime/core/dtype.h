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
  // Blocks of quantized numbers, laid out as in GGUF (MODEL_FORMAT.md): constants, along the last axis; q8_0: caches.
  q8_0 = 5,
  q4_0 = 6,
  q4_1 = 7,
  q5_0 = 8,
  q5_1 = 9,
  q4_k = 10,
  q5_k = 11,
  q6_k = 12,
};

/// `bytes` hold `elements` neighbours of the last axis; 1 element but for quantized dtypes.
struct DTypeBlock {
  std::uint32_t elements;
  std::uint32_t bytes;
};
constexpr DTypeBlock dtype_block(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::i32:
    case DType::boolean: return {1, 4};
    case DType::f16:
    case DType::bf16: return {1, 2};
    case DType::q8_0: return {32, 34};
    case DType::q4_0: return {32, 18};
    case DType::q4_1: return {32, 20};
    case DType::q5_0: return {32, 22};
    case DType::q5_1: return {32, 24};
    case DType::q4_k: return {256, 144};
    case DType::q5_k: return {256, 176};
    case DType::q6_k: return {256, 210};
  }
  return {1, 4};
}
constexpr bool is_quantized(DType dtype) { return dtype_block(dtype).elements > 1; }
/// Bytes of `elements` elements (whole blocks) on the device and in files. Requires that the result fits.
constexpr std::uint64_t storage_bytes(DType dtype, std::uint64_t elements) {
  return elements / dtype_block(dtype).elements * dtype_block(dtype).bytes;
}
/// Bytes of one element. Requires a dtype that is not quantized.
constexpr std::uint64_t dtype_size(DType dtype) { return dtype_block(dtype).bytes; }
constexpr bool is_float(DType dtype) { return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16; }
std::string_view dtype_name(DType dtype);  ///< "f32"

}  // namespace graft
