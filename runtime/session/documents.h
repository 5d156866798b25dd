// Packed sequences: several texts in one row of tokens. None sees another, and each begins at position 0.
#pragma once

#include "runtime/model/model.h"

namespace graft {

/// For each token the index in its row of its text's first token; -1: padding, which sees and is seen by nothing.
inline constexpr std::string_view kDocumentsInput = "documents";

/// The language model with one more input, "documents" i32 [batch, seq]: attention stays within a text, and rotary and
/// learned positions count from its first token. Exact for models in which tokens meet in attention alone, as in all
/// that graft converts. Borrows the weights of `base`, which must outlive it; parameters keep their names.
/// unsupported: no model of text (decoder_ports), no attention, masks or positions that are given already.
Result<Model> with_documents(const Model& base);

}  // namespace graft
