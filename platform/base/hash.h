// The checksum of all graft files: XXH3-128, which finds damage but does not stop an attacker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace graft {

struct Hash128 {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend bool operator==(const Hash128&, const Hash128&) = default;
};

Hash128 hash128(std::span<const std::byte> bytes);
/// The hash of the parts one after another: that of their concatenation.
Hash128 hash128(std::span<const std::span<const std::byte>> parts);

/// XXH3-64, for parts of what a Hash128 covers whole.
std::uint64_t hash64(std::span<const std::byte> bytes);

/// 32 hexadecimal digits, high half first.
std::string hash_text(const Hash128& hash);

}  // namespace graft
