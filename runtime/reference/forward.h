// The interpreter of graphs that models hold: without the references of ops that training alone has.
#pragma once

#include "runtime/reference/interpreter.h"

namespace graft {

/// ref_function() of ops that graphs of models may hold, and null of others: whoever asks for these alone links no
/// others.
RefFn forward_ref_function(Op op);

/// interpret() of such a graph.
Status interpret_forward(const Graph& graph, RefTensors& tensors);

}  // namespace graft
