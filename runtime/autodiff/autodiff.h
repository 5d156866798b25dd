// Reverse-mode differentiation, ahead of time and graph to graph.
#pragma once

#include <vector>

#include "runtime/core/graph.h"

namespace graft {

/// Something to differentiate, and the cotangent it starts with.
struct Target {
  ValueId value;
  /// Has value's shape; kNoValue means one, and then value must have a single element.
  ValueId cotangent;
};

/// Adds backward nodes to `graph` and returns d(sum over targets of <target, cotangent>) / d(wrt[i]), in order.
///
/// wrt may be parameters, inputs or any value on the way. Backward nodes carry forward_of; contributions of several
/// uses are added in the order of the forward nodes, so the sum is deterministic; broadcasting is undone here.
/// A wrt whose gradient is zero by structure (its path leads only through zero gradients) gets a `full` of zeros.
///
/// Errors say why a gradient cannot exist: not floating-point; not on a path to any target; an op on the only path
/// is not differentiable (with its reason).
Result<std::vector<ValueId>> add_gradients(Graph& graph, const std::vector<Target>& targets,
                                           const std::vector<ValueId>& wrt);

/// Of each value whether ops that have gradients lead from it to a target: what add_gradients() takes as wrt.
std::vector<bool> differentiable(const Graph& graph, const std::vector<Target>& targets);

}  // namespace graft
