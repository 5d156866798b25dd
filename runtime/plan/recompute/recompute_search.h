// Which forward results to compute again: a search for the choices worth having between memory and work.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/plan/recompute/recompute_cost.h"

namespace graft {

struct RecomputeChoice {
  std::vector<char> dropped;  ///< per RecomputeGraph::candidates()
  RecomputeCost cost;
};

/// Candidates that play the same part, as each layer's activation does in a network of equal layers: of equal nodes
/// with equal nodes around them. Each class in the order of execution.
using RecomputeClasses = std::vector<std::vector<std::size_t>>;
RecomputeClasses find_recompute_classes(const RecomputeGraph& graph);

/// The best trade-offs found, by falling peak and rising work; the first drops nothing. Deterministic; at most about
/// `work` node visits. These ways together find them:
/// cuts of the forward order into segments of which only the seams are kept, the cheapest by dynamic programming for
/// each of many segment sizes; from each of them, class by class, what saves most work for its bytes is kept after all;
/// the classes that take most off the peak for their work are dropped one after the other; and from these a local
/// search over single values and pairs, which on small graphs sees all that matters.
std::vector<RecomputeChoice> find_recompute_choices(RecomputeEvaluator& evaluate, std::uint64_t work = 6'000'000);

/// Keeps again what can be kept without exceeding `peak`: the most expensive for their bytes first, of each class as
/// many as will do, the latest first.
RecomputeChoice relax(RecomputeEvaluator& evaluate, const RecomputeClasses& classes, RecomputeChoice choice,
                      std::uint64_t peak);

}  // namespace graft
