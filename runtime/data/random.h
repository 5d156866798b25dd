// Random numbers that depend on nothing but a key: the same on every machine, and with no state to save.
#pragma once

#include <cstdint>

namespace graft::data {

/// A bijection of 64-bit words in which every input bit reaches every output bit. Constants: the finalizer of
/// SplitMix64 (Steele, Lea, Flood 2014).
constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}
constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b) { return mix(mix(a) ^ b); }
constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b, std::uint64_t c) { return mix(mix(a, b) ^ c); }

/// A sequence of numbers for one key, as in Random(mix(seed, epoch, position)).
class Random {
 public:
  explicit constexpr Random(std::uint64_t key) : state_(key) {}
  constexpr std::uint64_t next() { return mix(state_++); }
  /// Uniform in [0, 1), on a grid of 2^-53.
  constexpr double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  constexpr double uniform(double low, double high) { return low + (high - low) * uniform(); }
  /// Mean 0, variance 1, within [-3.47, 3.47]: a sum of four uniforms, exact in IEEE arithmetic, so that it does not
  /// depend on a machine's math library.
  constexpr double bell() {
    const double sum = uniform() + uniform() + uniform() + uniform();
    return (sum - 2.0) * 1.7320508075688772;  // the variance of the sum is 4/12
  }
  /// Uniform in [0, n). Requires n > 0; the bias is below n / 2^64.
  constexpr std::uint64_t below(std::uint64_t n) { return next() % n; }

 private:
  std::uint64_t state_;
};

/// A permutation of [0, n) that is computed, not stored: a keyed Feistel network over the next even power of two,
/// walked until it lands inside. A shuffle of any size needs no memory, and its cursor is one position.
class Permutation {
 public:
  constexpr Permutation(std::uint64_t n, std::uint64_t key) : n_(n), key_(key) {
    while (half_bits_ < 32 && (n >> (2 * half_bits_)) != 0) ++half_bits_;
  }

  /// Requires i < n.
  constexpr std::uint64_t operator()(std::uint64_t i) const {
    do i = encrypt(i);
    while (i >= n_);
    return i;
  }

 private:
  constexpr std::uint64_t encrypt(std::uint64_t x) const {
    const std::uint64_t mask = (1ull << half_bits_) - 1;
    std::uint64_t left = x >> half_bits_;
    std::uint64_t right = x & mask;
    for (std::uint64_t round = 0; round < 8; ++round) {
      const std::uint64_t next = left ^ (mix(key_ + round, right) & mask);
      left = right;
      right = next;
    }
    return (left << half_bits_) | right;
  }

  std::uint64_t n_;
  std::uint64_t key_;
  // At least 4 bits a side: on smaller domains few of the permutations would be reached.
  int half_bits_ = 4;
};

}  // namespace graft::data
