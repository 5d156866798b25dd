// Importance matrices of a graft model under the names that GGUF files have for its matrices.
#pragma once

#include <vector>

#include "runtime/model/model.h"
#include "tools/convert/gguf/imatrix.h"

namespace graft::convert {

/// Entries with graft's names get those of GGUF files. not_found: the model was not converted from a language model's
/// files; unsupported: it is an encoder; invalid_argument: a name that is no matrix of it, or of other columns.
Result<std::vector<ImatrixEntry>> named_for_gguf(const Model& model, std::vector<ImatrixEntry> entries);

}  // namespace graft::convert
