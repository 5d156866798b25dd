// Element types that tensors are quantized to, named as ONNX names them.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

namespace graft::ops::quantization {

struct QuantizedType {
  std::string_view name;
  std::uint32_t bits = 8;
  bool is_signed = false;  ///< of an integer
  float low = 0, high = 0;
  std::uint32_t mantissa = 0;  ///< bits of a floating-point type's; 0: an integer
  std::int32_t least = 0;      ///< its least exponent
  bool infinite = false;       ///< it has infinities, else what overflows without saturating is not a number
  bool saturates = false;      ///< it has neither

  bool is_float() const { return mantissa != 0; }
};

inline constexpr QuantizedType kQuantizedTypes[] = {
    {"uint8", 8, false, 0, 255},
    {"int8", 8, true, -128, 127},
    {"uint16", 16, false, 0, 65535},
    {"int16", 16, true, -32768, 32767},
    {"uint4", 4, false, 0, 15},
    {"int4", 4, true, -8, 7},
    {"uint2", 2, false, 0, 3},
    {"int2", 2, true, -2, 1},
    {"float8e4m3fn", 8, true, -448, 448, 3, -6},
    {"float8e4m3fnuz", 8, true, -240, 240, 3, -7},
    {"float8e5m2", 8, true, -57344, 57344, 2, -14, true},
    {"float8e5m2fnuz", 8, true, -57344, 57344, 2, -15},
    {"float4e2m1", 4, true, -6, 6, 1, 0, false, true},
};

constexpr const QuantizedType* find_quantized_type(std::string_view name) {
  for (const QuantizedType& type : kQuantizedTypes) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

/// The nearest number of a floating-point type, ties to even; what is beyond its range becomes its limit, or where it
/// does not saturate infinity or not a number.
inline double round_to_type(double x, const QuantizedType& type, bool saturate) {
  if (std::isnan(x)) return type.saturates ? static_cast<double>(type.high) : x;
  int exponent = type.least;
  if (x != 0 && !std::isinf(x)) exponent = std::max(std::ilogb(x), exponent);
  const double ulp = std::ldexp(1.0, exponent - static_cast<int>(type.mantissa));
  const double rounded = std::isinf(x) ? x : std::nearbyint(x / ulp) * ulp;
  if (std::abs(rounded) <= static_cast<double>(type.high)) return rounded;
  if (saturate || type.saturates) return std::copysign(static_cast<double>(type.high), x);
  return type.infinite ? std::copysign(HUGE_VAL, x) : std::nan("");
}

}  // namespace graft::ops::quantization
