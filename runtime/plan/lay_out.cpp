#include <algorithm>

#include "runtime/plan/chain.h"
#include "runtime/plan/draft.h"
#include "shaders/chain/chain_fn.h"

namespace graft {
namespace {

constexpr std::uint32_t kMergeReach = 64;  // positions from a node to what may become one dispatch with it

/// Operands that live until what may become one dispatch with their reader has run: its results must not stand in
/// their place, or it stays apart (fuse_steps()). As long as that raises the sum of live bytes nowhere above its peak.
class Lasting {
 public:
  explicit Lasting(const Draft& d)
      : d_(d), ends_(ends_with_chains(d.caps)), live_(d.live), blocks_(d.storages.blocks), limit_(peak(d)) {}

  std::vector<Block> run() {
    for (std::uint32_t p = 0; p < d_.order.size(); ++p) {
      const Part part = part_of(p);
      if (part == Part::source || part == Part::link) follow(p);
    }
    return std::move(blocks_);
  }

 private:
  enum class Part : std::uint8_t { none, source, link, norm };

  Part part_of(std::uint32_t position) const {
    const auto& dispatches = d_.emissions[d_.order[position].index].dispatches;
    const auto any = [&](auto is) {
      return std::any_of(dispatches.begin(), dispatches.end(), [&](const auto& x) { return is(x.kernel); });
    };
    if (ends_ && any(can_end_with_chain)) return Part::source;
    if (dispatches.size() == 1 && any(is_link)) return Part::link;
    return dispatches.size() == 1 && any(can_take_sum) ? Part::norm : Part::none;
  }

  /// What reads the results of the node at p, elementwise, and what reads those, up to a norm of a sum.
  void follow(std::uint32_t p) {
    std::vector<std::uint32_t> parts = {p};
    std::vector<std::uint32_t> made = roots_of(d_.graph.node(d_.order[p]).outputs);
    const auto end = std::min<std::uint32_t>(p + kMergeReach, static_cast<std::uint32_t>(d_.order.size()));
    for (std::uint32_t q = p + 1; q < end; ++q) {
      const Part part = part_of(q);
      const Node& node = d_.graph.node(d_.order[q]);
      if (part != Part::link && part != Part::norm) continue;
      const std::vector<std::uint32_t> read = roots_of(node.inputs);
      if (std::find_first_of(read.begin(), read.end(), made.begin(), made.end()) == read.end()) continue;
      for (const std::uint32_t earlier : parts) extend(earlier, q);
      if (part == Part::norm || parts.size() > chain_fn::epilogue_steps) return;
      parts.push_back(q);
      for (const std::uint32_t root : roots_of(node.outputs)) made.push_back(root);
    }
  }

  std::vector<std::uint32_t> roots_of(const std::vector<ValueId>& values) const {
    std::vector<std::uint32_t> roots;
    for (const ValueId v : values) {
      if (v.valid()) roots.push_back(d_.roots[v.index]);
    }
    return roots;
  }

  /// Keeps what the node at p reads until q has run.
  void extend(std::uint32_t p, std::uint32_t q) {
    for (const std::uint32_t root : roots_of(d_.graph.node(d_.order[p]).inputs)) {
      if (d_.storages.of_value[root] != kNoStorage) extend(blocks_[d_.storages.of_value[root]], q + 1);
    }
    const std::uint32_t scratch = d_.scratch[p];
    const auto count = static_cast<std::uint32_t>(d_.emissions[d_.order[p].index].scratch.size());
    for (std::uint32_t s = scratch; s < scratch + count; ++s) extend(blocks_[s], q + 1);
  }

  void extend(Block& block, std::uint32_t last) {
    if (block.last >= last) return;
    const auto from = live_.begin() + block.last + 1;
    const auto to = live_.begin() + last + 1;
    if (std::any_of(from, to, [&](std::uint64_t live) { return live + block.bytes > limit_; })) return;
    std::for_each(from, to, [&](std::uint64_t& live) { live += block.bytes; });
    block.last = last;
  }

  const Draft& d_;
  const bool ends_;
  std::vector<std::uint64_t> live_;
  std::vector<Block> blocks_;
  std::uint64_t limit_;
};

bool same_lives(const std::vector<Block>& a, const std::vector<Block>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Block& x, const Block& y) { return x.last == y.last; });
}

}  // namespace

std::uint64_t good_arena(const Draft& d) {
  constexpr std::uint64_t kRoom = 512;
  const std::uint64_t bound = least_arena(d.storages.blocks, d.residents.alignment());
  return bound + bound / kRoom;
}

void lay_out(Draft& d, std::uint64_t enough) {
  d.arena = assign_offsets(d.storages.blocks, d.residents.alignment(), d.residents.segment_bytes(), enough);
}

void keep_operands(Draft& d, const PlanOptions& options, std::uint64_t enough) {
  if (!options.fuse) return;
  const std::vector<Block> lasting = Lasting(d).run();
  if (same_lives(lasting, d.storages.blocks)) return;
  const std::uint64_t allowed = std::max(d.arena.bytes, enough);
  ArenaLayout arena = assign_offsets(lasting, d.residents.alignment(), d.residents.segment_bytes(), allowed);
  if (arena.bytes > allowed) return;
  // Longer lives may by luck need less: not counted, so that what fits a limit is what lay_out() says does.
  arena.bytes = std::max(arena.bytes, d.arena.bytes);
  d.arena = std::move(arena);
}

}  // namespace graft
