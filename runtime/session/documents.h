// Several documents in one row of tokens: none sees another, and each begins at position 0.
#pragma once

#include "runtime/model/model.h"

namespace graft {

/// For each token the index, in its row, of its document's first one; -1: padding, which sees and is seen by nothing.
inline constexpr std::string_view kDocumentsInput = "documents";

/// The language model with one more input, "documents" i32 [batch, seq]: attention stays within a document, and rotary
/// and learned positions count from its first token. Exact for models in which tokens meet in attention alone, as all
/// do that graft converts. Borrows the weights of `base`, which must outlive it; parameters keep their names.
/// unsupported: no model of text (decoder_ports), no attention, masks or positions that are given already.
Result<Model> with_documents(const Model& base);

}  // namespace graft
