// Products of a handful of rows with a matrix: decoding, small batches.
#pragma once

#include "runtime/ops/gemm.h"

namespace graft::ops::matmul {

/// Whether one product [m, k] x [k, n] (b [n, k] where b_by_rows), a's rows contiguous, is done by matmul_skinny
/// (Family::product).
bool suits_skinny(Emitter& e, std::uint64_t m, std::uint64_t n, std::uint64_t k, bool b_by_rows);

/// Dispatches it. Requires suits_skinny() and operands that each fit a binding.
Status emit_skinny(Emitter& e, std::uint64_t m, std::uint64_t n, std::uint64_t k, bool b_by_rows,
                   const GemmOperands& operands);

}  // namespace graft::ops::matmul
