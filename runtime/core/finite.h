// NaN and infinity among many numbers, found fast.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "runtime/core/dtype.h"

namespace graft {

template <typename T>
T number_at(std::span<const std::byte> bytes, std::size_t index) {
  T number;
  std::memcpy(&number, bytes.data() + index * sizeof number, sizeof number);
  return number;
}

/// The first index that offends. Blocks are looked at without a branch for each number, and are of one length, so that
/// compilers vectorise at -O2, too.
template <typename Offends>
std::optional<std::size_t> first_of(std::size_t count, Offends offends) {
  constexpr std::size_t kBlock = 64;
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    if (count - begin >= kBlock) {
      std::uint32_t any = 0;
      for (std::size_t i = 0; i < kBlock; ++i) any |= offends(begin + i) ? 1u : 0u;
      if (any == 0) continue;
    }
    for (std::size_t i = begin; i < std::min(count, begin + kBlock); ++i) {
      if (offends(i)) return i;
    }
  }
  return std::nullopt;
}

/// The first number that is not finite. Of f32, f16 and bf16; other types hold none.
inline std::optional<std::size_t> find_non_finite(std::span<const std::byte> bytes, DType dtype) {
  if (dtype == DType::f32) {
    return first_of(bytes.size() / 4,
                    [&](std::size_t i) { return (number_at<std::uint32_t>(bytes, i) & 0x7f800000) == 0x7f800000; });
  }
  if (dtype != DType::f16 && dtype != DType::bf16) return std::nullopt;
  const std::uint16_t exponent = dtype == DType::f16 ? 0x7c00 : 0x7f80;
  return first_of(bytes.size() / 2,
                  [&](std::size_t i) { return (number_at<std::uint16_t>(bytes, i) & exponent) == exponent; });
}

}  // namespace graft
