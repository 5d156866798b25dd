// How gradients are sent: as they are, or rounded.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace graft::distribute {

enum class Wire : std::uint8_t {
  f32,   ///< the bits of one worker
  bf16,  ///< half the bytes: each slot's gradients and their sum are rounded; the same bits for any number of workers,
         ///< but not those of one alone
};

inline constexpr std::size_t bytes_of(Wire wire) { return wire == Wire::f32 ? 4 : 2; }

/// To the nearest, ties to even; what is no number stays none.
inline std::uint16_t to_bf16(std::uint32_t bits) {
  const std::uint32_t rounded = bits + 0x7fff + ((bits >> 16) & 1);
  const std::uint32_t quiet = bits | 0x400000;
  return static_cast<std::uint16_t>(((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded) >> 16);
}

/// f32 numbers in the form of the wire. `to` has as many elements.
inline void pack(std::span<const std::byte> from, Wire wire, std::span<std::byte> to) {
  if (wire == Wire::f32) {
    if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
    return;
  }
  for (std::size_t i = 0; i < from.size() / 4; ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, from.data() + 4 * i, 4);
    const std::uint16_t half = to_bf16(bits);
    std::memcpy(to.data() + 2 * i, &half, 2);
  }
}

/// And back.
inline void unpack(std::span<const std::byte> from, Wire wire, std::span<std::byte> to) {
  if (wire == Wire::f32) {
    if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
    return;
  }
  for (std::size_t i = 0; i < to.size() / 4; ++i) {
    std::uint16_t half = 0;
    std::memcpy(&half, from.data() + 2 * i, 2);
    const std::uint32_t bits = std::uint32_t{half} << 16;
    std::memcpy(to.data() + 4 * i, &bits, 4);
  }
}

}  // namespace graft::distribute
