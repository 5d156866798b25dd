// Back to the order of axes that the source model had.
#pragma once

#include "runtime/core/graph.h"

namespace graft {

/// The dims as the source model orders them: source axis source_perm[i] is graft's axis i.
Shape source_shape(const Value& value);

/// Appends a transpose to the source's order of axes, given how the value's axes came from it.
Result<ValueId> to_source_order(Graph& graph, ValueId value, const SourcePerm& perm);

}  // namespace graft
