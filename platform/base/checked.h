// Integer arithmetic for numbers that come from files: every overflow is seen.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>

namespace graft {

template <std::integral T>
std::optional<T> checked_add(T a, T b) {
  T out;
  if (__builtin_add_overflow(a, b, &out)) return std::nullopt;
  return out;
}

template <std::integral T>
std::optional<T> checked_mul(T a, T b) {
  T out;
  if (__builtin_mul_overflow(a, b, &out)) return std::nullopt;
  return out;
}

/// True when [offset, offset + size) lies within [0, total).
constexpr bool in_bounds(std::uint64_t offset, std::uint64_t size, std::uint64_t total) {
  return offset <= total && size <= total - offset;
}

/// Rounds up to a multiple of `alignment` (a power of two); nullopt on overflow.
constexpr std::optional<std::uint64_t> checked_align(std::uint64_t value, std::uint64_t alignment) {
  const std::uint64_t mask = alignment - 1;
  if (value > std::numeric_limits<std::uint64_t>::max() - mask) return std::nullopt;
  return (value + mask) & ~mask;
}

/// Requires that the result fits; for sizes that were validated before.
constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

template <std::integral T>
constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}

}  // namespace graft
