// Offsets for blocks of memory with known lifetimes, so that blocks alive together never overlap and the whole is
// small.
#pragma once

#include <cstdint>
#include <vector>

namespace graft {

/// `bytes` of memory needed from time `first` to time `last`, both included.
struct Block {
  std::uint64_t bytes = 0;
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  friend bool operator==(const Block&, const Block&) = default;
};

struct ArenaLayout {
  std::vector<std::uint64_t> offsets;  ///< per block, multiples of the alignment
  std::uint64_t bytes = 0;             ///< end of the highest block
};

/// Tries several greedy orders and then rearranges the best around its highest blocks; keeps the smallest found.
/// Deterministic; time grows with the square of the number of blocks, at most a few hundred million simple steps.
/// `alignment` is a power of two; no block crosses a multiple of `segment`, and each fits one (segment: see Space).
/// Stops early at a layout of at most `enough` bytes.
ArenaLayout assign_offsets(const std::vector<Block>& blocks, std::uint64_t alignment, std::uint64_t segment,
                           std::uint64_t enough = 0);

/// What no layout is smaller than: the largest sum of live bytes, each block rounded up.
std::uint64_t least_arena(const std::vector<Block>& blocks, std::uint64_t alignment);

}  // namespace graft
