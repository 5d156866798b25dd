// The number formats that `narrow` rounds to, by name.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace graft::ops::cast {

/// What becomes of what is too large: infinity, not-a-number, or the largest number.
enum class Overflow : std::uint32_t { infinity = 0, nan = 1, saturate = 2 };

struct FloatFormat {
  std::string_view name;
  std::int32_t mantissa;  ///< bits behind the point
  std::int32_t least;     ///< exponent of the smallest normal number
  float largest;
  Overflow overflow;  ///< where it does not saturate
  bool negative_zero;
};
inline constexpr std::array kFloatFormats = {
    FloatFormat{"f16", 10, -14, 65504.0F, Overflow::infinity, true},
    FloatFormat{"bf16", 7, -126, 3.38953139e38F, Overflow::infinity, true},
    FloatFormat{"f8e4m3fn", 3, -6, 448.0F, Overflow::nan, true},
    FloatFormat{"f8e4m3fnuz", 3, -7, 240.0F, Overflow::nan, false},
    FloatFormat{"f8e5m2", 2, -14, 57344.0F, Overflow::infinity, true},
    FloatFormat{"f8e5m2fnuz", 2, -15, 57344.0F, Overflow::nan, false},
    FloatFormat{"f4e2m1", 1, 0, 6.0F, Overflow::saturate, true},
};
/// Powers of two alone, 2^-127 to 2^127.
inline constexpr std::string_view kPowerFormat = "f8e8m0";

struct IntegerFormat {
  std::string_view name;
  std::int32_t bits;
  bool has_sign;
};
inline constexpr std::array kIntegerFormats = {
    IntegerFormat{"i2", 2, true},   IntegerFormat{"u2", 2, false},   IntegerFormat{"i4", 4, true},
    IntegerFormat{"u4", 4, false},  IntegerFormat{"i8", 8, true},    IntegerFormat{"u8", 8, false},
    IntegerFormat{"i16", 16, true}, IntegerFormat{"u16", 16, false},
};

template <typename Formats>
constexpr auto find_format(const Formats& formats, std::string_view name) -> decltype(formats.data()) {
  for (const auto& format : formats) {
    if (format.name == name) return &format;
  }
  return nullptr;
}

/// How powers of two are rounded to.
enum class PowerRounding : std::uint32_t { up = 0, down = 1, nearest = 2 };

}  // namespace graft::ops::cast
