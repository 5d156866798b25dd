// Products of a handful of rows with the rows of a weight, and of any number where the device adds up products of four
// 8-bit integers at a time. Kernels: shaders/matmul/matmul_skinny_weight.comp, quantize_rows.comp.
#pragma once

#include "runtime/ops/weight_gemm.h"

namespace graft {

/// Dispatches C = A W^T (+ bias) for this part of a weight, whose row 0 is row `first` of `all_rows`, if that is the
/// kernel of choice; false: it is not, and nothing was dispatched.
Result<bool> emit_weight_skinny(Emitter& e, const WeightGemm& g, std::uint64_t first, std::uint64_t all_rows);

}  // namespace graft
