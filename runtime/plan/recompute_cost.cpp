#include <algorithm>

#include "runtime/plan/draft.h"
#include "runtime/plan/recompute_search.h"
#include "runtime/plan/schedule.h"
#include "runtime/plan/storage.h"

namespace graft {

RecomputeEvaluator::RecomputeEvaluator(RecomputeGraph& graph, const std::vector<std::uint64_t>& bytes,
                                       const std::vector<NodeCost>& costs, bool in_place)
    : graph_(graph), costs_(costs), in_place_(in_place) {
  const std::size_t values = graph.graph().values().size();
  bytes_.reserve(values);
  for (std::uint32_t v = 0; v < values; ++v) bytes_.push_back(bytes[graph.original_value(v)]);
  for (const NodeId id : graph.joint_order()) {
    joint_.flops += costs_[id.index].flops;
    joint_.bytes += costs_[id.index].bytes;
  }
}

std::uint64_t RecomputeEvaluator::work(std::size_t candidate) const {
  return costs_[graph_.graph().values()[graph_.candidates()[candidate]].producer.index].work();
}

RecomputeCost RecomputeEvaluator::operator()(const std::vector<char>& dropped, std::uint64_t level) {
  graph_.drop(dropped);
  const std::vector<NodeId> order = graph_.order();
  Storages storages = find_storages(graph_.graph(), order, alias_roots(graph_.graph()), bytes_, in_place_);
  NodeCost sum;
  for (std::uint32_t p = 0; p < order.size(); ++p) {
    const NodeCost& node = costs_[graph_.original(order[p]).index];
    sum.flops += node.flops;
    sum.bytes += node.bytes;
    if (node.scratch != 0) storages.blocks.push_back({node.scratch, p + 1, p + 1});
  }
  RecomputeCost cost;
  cost.flops = sum.flops - joint_.flops;
  cost.bytes = sum.bytes - joint_.bytes;
  cost.work = sum.work() - joint_.work();
  const auto live = live_bytes(storages.blocks, static_cast<std::uint32_t>(order.size()) + 2);
  const auto top = std::max_element(live.begin(), live.end());
  cost.peak = *top;
  for (const std::uint64_t bytes : live) cost.above += bytes > level ? bytes - level : 0;
  const auto time = static_cast<std::uint32_t>(top - live.begin());
  alive_.clear();
  for (const std::uint32_t v : graph_.candidates()) {
    alive_.push_back(storages.first[v] <= time && time <= storages.last[v]);
  }
  return cost;
}

}  // namespace graft
