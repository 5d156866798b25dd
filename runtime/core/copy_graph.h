// A graph again, with some nodes changed on the way.
#pragma once

#include <functional>
#include <vector>

#include "runtime/core/graph.h"

namespace graft {

/// Changes what a node of the copy is to be made of; it may add nodes and values to the copy before it.
using AdaptNode = std::function<Status(Graph& copy, const Node& node, std::vector<ValueId>& inputs, Attrs& attrs)>;

struct GraphCopy {
  Graph graph;
  std::vector<ValueId> values;  ///< by the source's index
};

/// Adds what stands in the copy for a value that no node makes: Graph::add_value_like(), or something else.
using AdaptValue = std::function<Result<ValueId>(Graph& copy, const Value& value)>;

/// All values and, in their order, all nodes, under the same names; outputs are left to the caller. Errors of `adapt`
/// name the node.
Result<GraphCopy> copy_graph(const Graph& source, const AdaptNode& adapt, const AdaptValue& adapt_value = {});

}  // namespace graft
