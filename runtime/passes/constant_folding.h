// Constants that are computed once: what depends on weights alone, in graphs whose weights stay as they are.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/core/graph.h"

namespace graft::passes {

/// By value: whether it is a weight (a constant, parameter or state) that no node of the graph changes, or depends on
/// such alone. Adapters count as changing: a running session may swap them.
std::vector<bool> depends_on_weights_alone(const Graph& graph);

/// A constant of a folded graph: `graph` computes it as its one output, from weights of the model.
struct FoldedConstant {
  std::string name;
  Graph graph;
};

struct FoldedGraph {
  Graph graph;
  std::vector<FoldedConstant> constants;  ///< by name, values of kind constant in `graph`
};

/// Parts a bound graph into what runs and what is computed once, when weights are loaded. A result is folded where it
/// is f32, made of f32 weights, takes no more memory than the weights that nothing else reads then, and `may`, where
/// there is one, says yes.
using MayFold = std::function<bool(const FoldedConstant&)>;
Result<FoldedGraph> fold_constants(const Graph& graph, const MayFold& may = {});

}  // namespace graft::passes
