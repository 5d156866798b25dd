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

/// slice(transpose(x)) becomes transpose(slice(x)).
Result<PassGraph> slices_first(const PassGraph& graph, const PrepareOptions& options);

/// Nodes that compute the same from the same become one.
Result<PassGraph> share_equal(const PassGraph& graph, const PrepareOptions& options);

/// Chains of arithmetic with numbers become one affine, powers get their names, operands are read unexpanded.
Result<PassGraph> constant_arithmetic(const PassGraph& graph, const PrepareOptions& options);

// What exporters spell out becomes the op that it means, in the files of canonicalise/.
Result<PassGraph> canonicalise_activations(const PassGraph& graph, const PrepareOptions& options);
Result<PassGraph> canonicalise_softmax(const PassGraph& graph, const PrepareOptions& options);
Result<PassGraph> canonicalise_norms(const PassGraph& graph, const PrepareOptions& options);
Result<PassGraph> canonicalise_attention(const PassGraph& graph, const PrepareOptions& options);
Result<PassGraph> canonicalise_batch_norm(const PassGraph& graph, const PrepareOptions& options);
Result<PassGraph> canonicalise_group_norm(const PassGraph& graph, const PrepareOptions& options);
Result<PassGraph> canonicalise_contractions(const PassGraph& graph, const PrepareOptions& options);
Result<PassGraph> canonicalise_linear(const PassGraph& graph, const PrepareOptions& options);
Result<PassGraph> canonicalise_rope(const PassGraph& graph, const PrepareOptions& options);
Result<PassGraph> canonicalise_gated(const PassGraph& graph, const PrepareOptions& options);
Result<PassGraph> fake_quantization(const PassGraph& graph, const PrepareOptions& options);

/// Batch norms behind convolutions and products become part of their weights, where those are fixed.
Result<PassGraph> fold_batch_norms(const PassGraph& graph, const PrepareOptions& options);

/// Chooses the order of axes that each value is held in, so that the fewest bytes are transposed (layout.cpp).
Result<PassGraph> choose_layouts(const PassGraph& graph, const PrepareOptions& options);

}  // namespace graft::passes
