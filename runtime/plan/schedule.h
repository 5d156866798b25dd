// Order of execution: which nodes run, and when.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/core/graph.h"

namespace graft {

/// Orders to choose from, each valid: data dependencies are kept, and a node that mutates a value runs after every
/// other reader of it (its own output, where that is a view of the value, shows what it left, and is read after it);
/// several mutators of one value keep the order in which they stand; a state_hash reads after all of them. Only nodes
/// on a path to an output or a mutation are in. The first is the closest to `preferred` (or else the graph's own
/// order); with `reorder`, more follow that tend to need less memory. `bytes` are per value. Nodes may stand in any
/// order. invalid_argument when a value would have to be mutated before a result of its mutation's node is read.
Result<std::vector<std::vector<NodeId>>> candidate_orders(const Graph& graph, const std::vector<std::uint32_t>& roots,
                                                          const std::vector<std::uint64_t>& bytes, bool reorder,
                                                          const std::vector<NodeId>& preferred = {});

}  // namespace graft
