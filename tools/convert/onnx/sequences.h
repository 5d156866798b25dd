// Sequences of tensors whose length is known: what reads one reads its tensors.
#pragma once

#include "tools/convert/onnx/onnx_graph.h"

namespace graft::convert {

/// ConcatFromSequence, SequenceAt and SequenceLength of a sequence that is made node by node (SequenceConstruct,
/// SequenceEmpty, SequenceInsert, SequenceErase, SplitToSequence with given sizes) become Concat, Identity, Split and
/// constants. Others stay, and the importer says that they are not supported.
void replace_sequences(OnnxGraph& graph);

}  // namespace graft::convert
