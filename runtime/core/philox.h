// Philox4x32-10: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
// The twin of shaders/common/rng.glsl, word for word.
#pragma once

#include <array>
#include <cstdint>

namespace graft {

/// A block of four random words for a counter and a key: no state, so that any block can be had at any time.
constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int turn = 0; turn < 10; ++turn) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53u} * counter[0];
    const std::uint64_t product2 = std::uint64_t{0xCD9E8D57u} * counter[2];
    const auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
    counter = {high(product2) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(product2),
               high(product0) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(product0)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

}  // namespace graft
