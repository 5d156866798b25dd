#include "runtime/plan/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/plan/storage.h"

namespace graft::plan_arena_test {
namespace {

constexpr std::uint64_t kAlign = 64;
constexpr std::uint64_t kSegment = std::uint64_t{1} << 40;

std::uint64_t lower_bound(const std::vector<Block>& blocks) {
  std::uint32_t times = 0;
  for (const Block& b : blocks) times = std::max(times, b.last + 1);
  const auto live = live_bytes(blocks, times);
  return live.empty() ? 0 : *std::max_element(live.begin(), live.end());
}

void expect_valid(const std::vector<Block>& blocks, const ArenaLayout& layout, std::uint64_t segment = kSegment) {
  ASSERT_EQ(layout.offsets.size(), blocks.size());
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(layout.offsets[i] % kAlign, 0u);
    EXPECT_LE(layout.offsets[i] + blocks[i].bytes, layout.bytes);
    EXPECT_EQ(layout.offsets[i] / segment, (layout.offsets[i] + blocks[i].bytes - 1) / segment) << "block " << i;
    for (std::size_t j = i + 1; j < blocks.size(); ++j) {
      const bool together = blocks[i].first <= blocks[j].last && blocks[j].first <= blocks[i].last;
      const bool overlap = layout.offsets[i] < layout.offsets[j] + blocks[j].bytes &&
                           layout.offsets[j] < layout.offsets[i] + blocks[i].bytes;
      EXPECT_FALSE(together && overlap) << "blocks " << i << " and " << j;
    }
  }
}

/// A generator of our own, so that the cases are the same everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 2654435761u + 1) {}
  std::uint64_t below(std::uint64_t n) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return (state_ >> 33) % n;
  }

 private:
  std::uint64_t state_;
};

/// Layer i's activation lives from the forward pass at time i to its backward at time 2n - i; gradients live for two
/// steps of the backward pass; every layer has scratch.
std::vector<Block> backward_chain(std::uint32_t layers, std::uint64_t seed) {
  Random random(seed);
  std::vector<Block> blocks;
  for (std::uint32_t i = 0; i < layers; ++i) {
    const std::uint64_t bytes = 4096 + random.below(1 << 20);
    const std::uint32_t back = 2 * layers - i;
    blocks.push_back({bytes, i, back});
    blocks.push_back({bytes, back - 1, back});
    blocks.push_back({1024 + random.below(1 << 18), i, i});
    blocks.push_back({1024 + random.below(1 << 18), back, back});
  }
  return blocks;
}

/// An encoder of halving sizes whose levels are all read again by a decoder.
std::vector<Block> u_net(std::uint32_t depth) {
  std::vector<Block> blocks;
  const std::uint32_t middle = 3 * depth;
  for (std::uint32_t i = 0; i < depth; ++i) {
    const std::uint64_t bytes = (std::uint64_t{8} << 20) >> i;
    const std::uint32_t t = 3 * i;
    const std::uint32_t u = middle + 3 * (depth - 1 - i);
    blocks.push_back({bytes, t, t + 1});      // conv
    blocks.push_back({bytes, t + 1, u + 2});  // the skip
    blocks.push_back({bytes / 4, t + 2, t + 3});
    blocks.push_back({bytes, u + 1, u + 2});      // upsampled
    blocks.push_back({2 * bytes, u + 2, u + 3});  // concatenated
    blocks.push_back({bytes, u + 3, u + 4});
  }
  return blocks;
}

/// Blocks of two with a value that bypasses them.
std::vector<Block> residual(std::uint32_t count) {
  std::vector<Block> blocks;
  Random random(7);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t bytes = 100'000 * (1 + random.below(8));
    blocks.push_back({bytes, 4 * i, 4 * i + 3});
    blocks.push_back({bytes * 4, 4 * i + 1, 4 * i + 2});
    blocks.push_back({bytes, 4 * i + 2, 4 * i + 3});
    blocks.push_back({bytes / 3, 4 * i + 1, 4 * i + 1});
  }
  return blocks;
}

std::vector<Block> chain(std::uint32_t count) {
  std::vector<Block> blocks;
  Random random(3);
  for (std::uint32_t i = 0; i < count; ++i) blocks.push_back({1000 + random.below(1'000'000), i, i + 1});
  return blocks;
}

TEST(PlanArena, StaysWithinFivePercentOfTheLargestSumOfLiveBytes) {
  std::vector<std::pair<std::string, std::vector<Block>>> cases = {
      {"chain", chain(200)}, {"residual", residual(50)}, {"u-net", u_net(5)}, {"empty", {}}};
  for (std::uint32_t seed = 1; seed <= 8; ++seed) {
    cases.emplace_back("backward chain " + std::to_string(seed), backward_chain(20 + 10 * seed, seed));
  }
  for (const auto& [name, blocks] : cases) {
    SCOPED_TRACE(name);
    const ArenaLayout layout = assign_offsets(blocks, kAlign, kSegment);
    expect_valid(blocks, layout);
    EXPECT_GE(layout.bytes, lower_bound(blocks));
    EXPECT_LE(static_cast<double>(layout.bytes), 1.05 * static_cast<double>(lower_bound(blocks)))
        << layout.bytes << " of at least " << lower_bound(blocks);
    RecordProperty(name, std::to_string(layout.bytes) + "/" + std::to_string(lower_bound(blocks)));
  }
}

TEST(PlanArena, NeverOverlapsLiveBlocks) {
  Random random(11);
  for (int round = 0; round < 30; ++round) {
    std::vector<Block> blocks;
    for (std::uint64_t i = random.below(60); i-- > 0;) {
      const auto first = static_cast<std::uint32_t>(random.below(40));
      blocks.push_back({1 + random.below(5000), first, first + static_cast<std::uint32_t>(random.below(15))});
    }
    expect_valid(blocks, assign_offsets(blocks, kAlign, kSegment));
  }
}

TEST(PlanArena, KeepsBlocksWithinSegments) {
  Random random(5);
  constexpr std::uint64_t kSmall = 8192;
  std::vector<Block> blocks;
  for (int i = 0; i < 80; ++i) {
    const auto first = static_cast<std::uint32_t>(random.below(20));
    blocks.push_back({64 + random.below(kSmall - 64), first, first + 4});
  }
  expect_valid(blocks, assign_offsets(blocks, kAlign, kSmall), kSmall);
}

TEST(PlanArena, IsDeterministic) {
  const auto blocks = backward_chain(60, 42);
  const ArenaLayout a = assign_offsets(blocks, kAlign, kSegment);
  const ArenaLayout b = assign_offsets(blocks, kAlign, kSegment);
  EXPECT_EQ(a.offsets, b.offsets);
  EXPECT_EQ(a.bytes, b.bytes);
}

TEST(PlanArena, LiveBytesCountBothEndsOfALifetime) {
  const std::vector<Block> blocks = {{10, 0, 2}, {5, 2, 3}};
  EXPECT_EQ(live_bytes(blocks, 5), (std::vector<std::uint64_t>{10, 10, 15, 5, 0}));
}

}  // namespace
}  // namespace graft::plan_arena_test
