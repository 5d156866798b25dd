// Sizes in the place of named dimensions.
#pragma once

#include "runtime/core/graph.h"

namespace graft {

/// The same graph with every symbol replaced and shapes inferred anew. An error names symbols left unbound.
Result<Graph> bind(const Graph& graph, const Bindings& bindings);

}  // namespace graft
