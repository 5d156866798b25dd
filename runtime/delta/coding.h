// How a delta's numbers are kept as bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "platform/base/status.h"

namespace graft::delta {

/// Numbers as in schema/delta.fbs.
enum class Coding : std::uint8_t {
  f32,
  bf16,   ///< the nearest
  int8,   ///< blocks of 256: an f32 scale, the largest magnitude over 127, and codes from -127 to 127
  fixed,  ///< integers modulo 2^32, which add up in any order and hide behind masks that cancel
};
inline constexpr std::size_t kBlock = 256;
inline constexpr std::uint32_t kMaxFixedBits = 30;

std::string_view coding_name(Coding coding);  ///< "f32", "bf16", "int8", "fixed"
Result<Coding> parse_coding(std::string_view name);

/// Bytes of so many numbers.
std::size_t coded_bytes(Coding coding, std::size_t numbers);
/// Of one element, for how they are arranged before they are packed.
std::size_t coded_width(Coding coding);

/// What codes one number of Coding::fixed.
struct Fixed {
  double scale = 1;        ///< what a number is multiplied by: samples * 2^bits
  std::uint32_t room = 1;  ///< so many integers must fit in 32 bits together
};

/// `out` has coded_bytes(). Requires finite numbers. invalid_argument: Coding::fixed, and a number that does not fit.
Status encode(Coding coding, std::span<const double> numbers, const Fixed& fixed, std::span<std::byte> out);
/// The way back; `fixed.scale` divides.
void decode(Coding coding, std::span<const std::byte> coded, const Fixed& fixed, std::span<float> numbers);

/// Number `index` of Coding::fixed, modulo 2^32.
std::uint32_t integer_at(std::span<const std::byte> coded, std::size_t index);

}  // namespace graft::delta
