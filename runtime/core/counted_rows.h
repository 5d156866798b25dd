// Values that are as long as the data decide. The graph has room for the most rows that there can be; what is behind
// the last one is of no meaning, and must not get into a loss.
#pragma once

#include "runtime/core/graph.h"

namespace graft {

/// An error where the value depends on what op `compact` chose: it may hold rows that are not there.
Status check_no_counted_rows(const Graph& graph, ValueId value);

}  // namespace graft
