#include "runtime/plan/arena.h"

#include <algorithm>
#include <numeric>

#include "platform/base/checked.h"
#include "platform/base/stable_sort.h"
#include "runtime/plan/residents.h"
#include "runtime/plan/storage.h"

namespace graft {
namespace {

using Order = std::vector<std::uint32_t>;

class Placer {
 public:
  Placer(const std::vector<Block>& blocks, std::uint64_t alignment, std::uint64_t segment)
      : blocks_(blocks), segment_(segment) {
    sizes_.reserve(blocks.size());
    for (const Block& block : blocks) sizes_.push_back(align_up(block.bytes, alignment));
  }

  /// Places the blocks one after the other, each at the lowest free offset, or into the tightest gap.
  ArenaLayout place(const Order& order, bool best_fit) const {
    ArenaLayout layout;
    layout.offsets.assign(blocks_.size(), 0);
    std::vector<Placed> placed;  // by offset
    placed.reserve(order.size());
    for (const std::uint32_t b : order) {
      const std::uint64_t offset = find_gap(b, placed, best_fit);
      layout.offsets[b] = offset;
      layout.bytes = std::max(layout.bytes, offset + sizes_[b]);
      const auto at = std::upper_bound(placed.begin(), placed.end(), offset,
                                       [](std::uint64_t o, const Placed& p) { return o < p.offset; });
      placed.insert(at, {offset, offset + sizes_[b], blocks_[b].first, blocks_[b].last});
    }
    return layout;
  }

  std::uint64_t size(std::uint32_t b) const { return sizes_[b]; }

 private:
  struct Placed {
    std::uint64_t offset;
    std::uint64_t end;
    std::uint32_t first;
    std::uint32_t last;
  };

  /// Most of the time of planning under a limit goes here.
  std::uint64_t find_gap(std::uint32_t b, const std::vector<Placed>& placed, bool best_fit) const {
    const Block block = blocks_[b];
    const std::uint64_t size = sizes_[b];
    std::uint64_t end = 0;  // of everything below that is alive together with b
    std::uint64_t best = 0;
    std::uint64_t best_gap = std::numeric_limits<std::uint64_t>::max();
    for (const Placed& p : placed) {
      if (p.last < block.first || block.last < p.first) continue;
      if (p.offset >= end + size) {
        const std::uint64_t candidate = fit_segment(end, size, segment_);
        if (p.offset >= candidate + size) {
          if (!best_fit) return candidate;
          const std::uint64_t gap = p.offset - candidate - size;
          if (gap < best_gap) {
            best_gap = gap;
            best = candidate;
          }
        }
      }
      end = std::max(end, p.end);
    }
    return best_gap == std::numeric_limits<std::uint64_t>::max() ? fit_segment(end, size, segment_) : best;
  }

  const std::vector<Block>& blocks_;
  std::vector<std::uint64_t> sizes_;
  std::uint64_t segment_;
};

template <typename Key>
Order sorted_by(std::size_t n, Key key) {
  Order order(n);
  std::iota(order.begin(), order.end(), 0u);
  graft::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return key(a) < key(b); });
  return order;
}

/// Blocks of the fullest moment first, by size; then those of the next fullest moment, and so on.
Order by_breadth(const std::vector<Block>& blocks, const Placer& placer) {
  std::uint32_t times = 0;
  for (const Block& block : blocks) times = std::max(times, block.last + 1);
  const std::vector<std::uint64_t> live = live_bytes(blocks, times);
  std::vector<std::uint64_t> fullest(blocks.size(), 0);  // the fullest moment of each block's life
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    fullest[b] = *std::max_element(live.begin() + blocks[b].first, live.begin() + blocks[b].last + 1);
  }
  return sorted_by(blocks.size(), [&](std::uint32_t b) { return std::pair{~fullest[b], ~placer.size(b)}; });
}

std::vector<Order> greedy_orders(const std::vector<Block>& blocks, const Placer& placer) {
  const std::size_t n = blocks.size();
  const auto span = [&](std::uint32_t b) { return std::uint64_t{blocks[b].last} - blocks[b].first + 1; };
  std::vector<Order> orders;
  orders.push_back(sorted_by(n, [&](std::uint32_t b) { return std::pair{~placer.size(b), ~span(b)}; }));
  orders.push_back(by_breadth(blocks, placer));
  orders.push_back(sorted_by(n, [&](std::uint32_t b) { return std::pair{~span(b), ~placer.size(b)}; }));
  orders.push_back(sorted_by(
      n, [&](std::uint32_t b) { return -static_cast<double>(span(b)) * static_cast<double>(placer.size(b)); }));
  orders.push_back(sorted_by(n, [&](std::uint32_t b) { return std::pair{blocks[b].first, ~placer.size(b)}; }));
  orders.push_back(sorted_by(n, [&](std::uint32_t b) { return std::pair{~blocks[b].last, ~placer.size(b)}; }));
  return orders;
}

/// Moves the block that ends highest towards the front of the order and places anew, as long as the work allows.
void improve(const Placer& placer, std::uint64_t enough, std::uint64_t rounds, Order order, bool best_fit,
             ArenaLayout& best) {
  ArenaLayout layout = placer.place(order, best_fit);
  for (std::uint64_t round = 0; round < rounds && best.bytes > enough; ++round) {
    std::size_t top = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (layout.offsets[order[i]] + placer.size(order[i]) == layout.bytes) top = i;
    }
    if (top == 0) return;
    // Half way: of the moves tried on random lifetimes the one that helped most (the very front disturbs too much).
    std::rotate(order.begin() + static_cast<std::ptrdiff_t>(top / 2), order.begin() + static_cast<std::ptrdiff_t>(top),
                order.begin() + static_cast<std::ptrdiff_t>(top) + 1);
    layout = placer.place(order, best_fit);
    if (layout.bytes < best.bytes) best = layout;
  }
}

}  // namespace

std::uint64_t least_arena(const std::vector<Block>& blocks, std::uint64_t alignment) {
  std::vector<Block> aligned = blocks;
  std::uint32_t times = 1;
  for (Block& block : aligned) {
    block.bytes = align_up(block.bytes, alignment);
    times = std::max(times, block.last + 1);
  }
  const std::vector<std::uint64_t> live = live_bytes(aligned, times);
  return *std::max_element(live.begin(), live.end());
}

ArenaLayout assign_offsets(const std::vector<Block>& blocks, std::uint64_t alignment, std::uint64_t segment,
                           std::uint64_t enough) {
  if (blocks.empty()) return {};
  const Placer placer(blocks, alignment, segment);
  enough = std::max(enough, least_arena(blocks, alignment));

  struct Start {
    std::uint64_t bytes;
    std::size_t order;
    bool best_fit;
  };
  ArenaLayout best;
  best.bytes = std::numeric_limits<std::uint64_t>::max();
  const std::vector<Order> orders = greedy_orders(blocks, placer);
  std::vector<Start> starts;
  for (std::size_t i = 0; i < orders.size() && (i == 0 || best.bytes > enough); ++i) {
    for (const bool best_fit : {false, true}) {
      ArenaLayout layout = placer.place(orders[i], best_fit);
      starts.push_back({layout.bytes, i, best_fit});
      if (layout.bytes < best.bytes) best = std::move(layout);
    }
  }
  graft::stable_sort(starts.begin(), starts.end(), [](const Start& a, const Start& b) { return a.bytes < b.bytes; });
  constexpr std::size_t kStarts = 4;
  constexpr std::uint64_t kWork = 200'000'000;  // pairs of blocks looked at
  const std::uint64_t n = blocks.size();
  const std::uint64_t rounds = std::min<std::uint64_t>(kWork / kStarts / (n * n + 1), 2 * n + 16);
  for (std::size_t i = 0; i < std::min(kStarts, starts.size()) && best.bytes > enough; ++i) {
    improve(placer, enough, rounds, orders[starts[i].order], starts[i].best_fit, best);
  }
  return best;
}

}  // namespace graft
