#include "runtime/plan/recompute/recompute_segments.h"

#include <limits>

namespace graft {

std::vector<char> nothing_dropped(const RecomputeGraph& graph) {
  std::vector<char> dropped(graph.candidates().size(), 0);
  for (std::size_t c = 0; c < dropped.size(); ++c) dropped[c] = !graph.saved(c);
  return dropped;
}

Segments::Segments(const RecomputeEvaluator& evaluate) : evaluate_(evaluate) {
  const RecomputeGraph& graph = evaluate.graph();
  const Graph& nodes = graph.graph();
  std::vector<std::uint32_t> last_use(nodes.values().size(), 0);
  const auto& order = graph.joint_order();
  for (std::uint32_t p = 0; p < order.size(); ++p) {
    if (graph.late(order[p])) continue;
    for (const ValueId v : nodes.node(order[p]).inputs) {
      if (v.valid()) last_use[graph.root(v.index)] = p;
    }
    for (const ValueId v : nodes.node(order[p]).outputs) {
      if (graph.root(v.index) == v.index) last_use[v.index] = p;
    }
  }
  for (std::size_t c = 0; c < graph.candidates().size(); ++c) {
    const std::uint32_t v = graph.candidates()[c];
    made_.push_back(graph.place(nodes.values()[v].producer));
    read_.push_back(last_use[v]);
    if (graph.saved(c)) saved_bytes_ += evaluate.bytes(c);
  }
}

std::vector<char> Segments::cut(std::uint64_t limit) const {
  const std::size_t n = made_.size();
  constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
  std::vector<std::uint64_t> kept(n + 1, kNever);  // by how many candidates lie before the cut
  std::vector<std::size_t> from(n + 1, 0);
  kept[0] = 0;
  for (std::size_t b = 1; b <= n; ++b) {
    std::uint64_t inside = 0;
    std::uint64_t across = 0;
    for (std::size_t a = b; a-- > 0;) {
      const std::uint64_t bytes = evaluate_.bytes(a);
      if (crosses(a, b)) {
        across += bytes;
      } else if (evaluate_.graph().saved(a)) {
        inside += bytes;
      }
      if (inside > limit) break;
      if (kept[a] != kNever && kept[a] + across < kept[b]) {
        kept[b] = kept[a] + across;
        from[b] = a;
      }
    }
  }
  if (kept[n] == kNever) return {};
  std::vector<char> dropped = nothing_dropped(evaluate_.graph());
  // The last segment stays: the backward pass begins with it.
  for (std::size_t b = from[n]; b > 0; b = from[b]) {
    for (std::size_t c = from[b]; c < b; ++c) dropped[c] = !crosses(c, b);
  }
  return dropped;
}

}  // namespace graft
