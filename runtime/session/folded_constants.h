// The contents of constants that passes folded (passes::fold_constants), from the model's weights.
#pragma once

#include "platform/base/allocator.h"
#include "runtime/model/model.h"
#include "runtime/passes/constant_folding.h"

namespace graft {

/// Computed on the host in double precision and rounded to f32 once, so the same on every device. Needs room for a few
/// tensors of the constant's size in double. corrupt: a weight that the model has no contents of; out_of_memory.
Result<HostBuffer> contents_of(const passes::FoldedConstant& constant, const Model& model);

}  // namespace graft
