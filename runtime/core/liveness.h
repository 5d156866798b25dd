// Which nodes of a graph matter, and which values are views of which.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/core/graph.h"

namespace graft {

/// For each value, the value whose memory it is: views (OpDef::alias_input) lead to what they view, others to
/// themselves.
std::vector<std::uint32_t> alias_roots(const Graph& graph);

/// Indices of the nodes that an output or a mutation needs, ascending. Nodes may stand in any order.
std::vector<std::uint32_t> live_nodes(const Graph& graph);

}  // namespace graft
