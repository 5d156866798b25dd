// Which forward results to compute again: a search for the choices worth having between memory and work.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/plan/recompute_graph.h"

namespace graft {

/// What one run of a node costs.
struct NodeCost {
  std::uint64_t flops = 0;
  std::uint64_t bytes = 0;  ///< read and written
  std::uint64_t scratch = 0;
  /// FLOPs, and as many as a device could do while it moves the bytes: a concatenation is no gift. Devices manage 2
  /// (CPUs) to 50 (large GPUs) in the time of a byte.
  std::uint64_t work() const { return flops + 4 * bytes; }
};

/// What a choice costs.
struct RecomputeCost {
  std::uint64_t peak = 0;   ///< largest sum of live transient bytes, under RecomputeGraph::order()
  std::uint64_t flops = 0;  ///< more than without; so are the rest
  std::uint64_t bytes = 0;
  std::uint64_t work = 0;   ///< NodeCost::work()
  std::uint64_t above = 0;  ///< live bytes above the level asked for, summed over all times
};

struct RecomputeChoice {
  std::vector<char> dropped;  ///< per RecomputeGraph::candidates()
  RecomputeCost cost;
};

/// Costs of choices, exactly: the graph is rewired and its storages are found as for a plan.
class RecomputeEvaluator {
 public:
  /// `bytes` per value and `costs` per node are of the joint graph.
  RecomputeEvaluator(RecomputeGraph& graph, const std::vector<std::uint64_t>& bytes, const std::vector<NodeCost>& costs,
                     bool in_place);

  RecomputeCost operator()(const std::vector<char>& dropped, std::uint64_t level = 0);
  /// Per candidate: whether its first instance was alive at the peak of the last choice.
  const std::vector<char>& alive_at_peak() const { return alive_; }

  const RecomputeGraph& graph() const { return graph_; }
  std::uint64_t bytes(std::size_t candidate) const { return bytes_[graph_.candidates()[candidate]]; }
  /// Of the node that makes it.
  std::uint64_t work(std::size_t candidate) const;

 private:
  RecomputeGraph& graph_;
  std::vector<std::uint64_t> bytes_;  ///< per value of the extended graph
  std::vector<NodeCost> costs_;       ///< per joint node
  NodeCost joint_;                    ///< of all of them
  bool in_place_;
  std::vector<char> alive_;
};

/// The best trade-offs found, by falling peak and rising work; the first drops nothing. Four ways together find them:
/// cuts of the forward order into segments of which only the seams are kept, the cheapest by dynamic programming for
/// each of many segment sizes; the results that are cheapest to repeat for their bytes; a greedy descent from the peak;
/// and from these a local search over single values and pairs, which on small graphs sees all that matters.
/// Deterministic; at most about `work` node visits.
std::vector<RecomputeChoice> find_recompute_choices(RecomputeEvaluator& evaluate, std::uint64_t work = 400'000);

/// Keeps again what can be kept without exceeding `peak`: the most expensive for their bytes first. `tried` gets the
/// number of choices looked at.
RecomputeChoice relax(RecomputeEvaluator& evaluate, RecomputeChoice choice, std::uint64_t peak,
                      std::size_t* tried = nullptr);

}  // namespace graft
