// Packed sequences: several texts in one row of tokens. None sees another, and each begins at position 0.
#pragma once

#include <string_view>

#include "runtime/core/graph.h"

namespace graft::passes {

/// For each token the index, in its row, of its sequence's first one; -1: padding, which sees and is seen by nothing.
inline constexpr std::string_view kSequenceStartsInput = "sequence_starts";

/// The language model's graph with one more input, "sequence_starts" i32 [batch, seq]: attention stays within a
/// sequence, and rotary and learned positions count from its first token. Exact for models in which tokens meet in
/// attention alone, as all do that graft converts. Values keep their names.
/// unsupported: no model of text (decoder_ports), no attention, masks or positions that are given already.
Result<Graph> packed_sequences(const Graph& graph);

}  // namespace graft::passes
