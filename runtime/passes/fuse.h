// Fusion: elementwise ops as one node, and products, convolutions and norms with what stands beside them.
//
// The last pass before the plan, over the joint graph: gradients, optimizer and storage are there by now. What lies
// within a fused node has no memory; what others want of it becomes one of its outputs, under its own name. The same
// bits, as far as a driver compiles the same arithmetic to the same instructions.
#pragma once

#include <vector>

#include "platform/gpu/gpu.h"
#include "runtime/core/graph.h"

namespace graft::passes {

struct Fused {
  Graph graph;                  ///< without nodes that neither an output nor a mutation needs
  std::vector<ValueId> values;  ///< by the index of a value in the graph that was given; kNoValue: it is gone
};

/// Shapes must be constant. Fused nodes are chosen for the kernels of this device: those that failed its self-test are
/// not, nor any that would need more storage buffers than it has. All inputs, constants, parameters and states stay, in
/// their order.
Result<Fused> fuse(const Graph& graph, const gpu::Target& target);

}  // namespace graft::passes
