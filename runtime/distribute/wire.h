// How gradients are sent: as they are, or rounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "platform/base/half.h"

namespace graft::distribute {

enum class Wire : std::uint8_t {
  f32,   ///< the bits of one worker
  bf16,  ///< half the bytes: each slot's gradients and their sum are rounded; the same bits for any number of workers,
         ///< but not those of one alone
};

inline constexpr std::size_t bytes_of(Wire wire) { return wire == Wire::f32 ? 4 : 2; }

/// f32 numbers in the form of the wire. `to` has as many elements.
inline void pack(std::span<const std::byte> from, Wire wire, std::span<std::byte> to) {
  if (wire == Wire::f32) {
    if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
    return;
  }
  for (std::size_t i = 0; i < from.size() / 4; ++i) {
    float number = 0;
    std::memcpy(&number, from.data() + 4 * i, 4);
    const std::uint16_t half = float_to_bfloat(number);
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
    const float number = bfloat_to_float(half);
    std::memcpy(to.data() + 4 * i, &number, 4);
  }
}

}  // namespace graft::distribute
