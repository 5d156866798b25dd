// The schema's enums and graft's: mapped by name, so that their numbers need not agree.
#pragma once

#include <optional>

#include "runtime/core/graph.h"
#include "schema/model_generated.h"

namespace graft::model_format {

std::optional<fb::DType> to_file(DType dtype);
std::optional<DType> from_file(fb::DType dtype);
std::optional<fb::ValueKind> to_file(ValueKind kind);
std::optional<ValueKind> from_file(fb::ValueKind kind);
/// nullopt for ops that have no place in files (gradients).
std::optional<fb::Op> to_file(Op op);
/// An error for a number that the schema does not have, or an op that this build lacks.
Result<Op> from_file(fb::Op op);

}  // namespace graft::model_format
