// Every pass that prepare() runs; pipeline.cpp lists them in their order.
#pragma once

#include "runtime/passes/pipeline.h"
#include "runtime/passes/rewriter.h"

namespace graft::passes {

/// A pass keeps all outputs and pinned values; where it finds nothing to do it gives an equal graph.
using Pass = Result<PassGraph> (*)(const PassGraph&, const PrepareOptions&);

/// Chains of reshapes and of transposes become one, or none where nothing moves; a transpose that moves only axes of
/// size 1 becomes a reshape.
Result<PassGraph> merge_moves(const PassGraph& graph, const PrepareOptions& options);

/// Chooses the order of axes that each value is held in, so that the fewest bytes are transposed (layout.cpp).
Result<PassGraph> choose_layouts(const PassGraph& graph, const PrepareOptions& options);

}  // namespace graft::passes
