// Products with a weight that may be quantized, in both directions: for matmul, and for the fused head of language
// models. Kernels: shaders/matmul/matmul_rows.comp, matmul_columns.comp.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/ops/emitter.h"

namespace graft {

/// C = A W^T (by_rows: C [m, rows]) or C = A W (C [m, columns]) for W [rows, columns].
struct WeightGemm {
  Binding a;
  Binding w;
  Binding out;
  DType dtype = DType::f32;  ///< of W
  std::uint64_t m = 0;
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  bool by_rows = true;
  std::optional<Binding> bias = {};  ///< one number for each column of C
  std::optional<Binding> base = {};  ///< instead of a bias: [m, columns of C], which may be C itself
  float alpha = 1;                   ///< factor of the product
  bool accumulate = false;           ///< added to what C holds
  /// Words: how many rows there are (at most m, the others are left alone), and then which.
  std::optional<Binding> order = {};
  bool ordered_a = false;  ///< row i of A is row order[i]
  bool ordered_c = false;  ///< row i of C is row order[i]
};

/// Cuts A and C by rows of A, and W by its rows, where they exceed a binding. Nothing where an operand is empty.
Status emit_weight_gemm(Emitter& e, const WeightGemm& g);

/// How many rows of a weight go into one binding: as many as fit, about `wanted`, and so many that a binding may begin
/// at every multiple. An error where not even the fewest fit.
Result<std::uint64_t> weight_rows_per_binding(const gpu::Caps& caps, DType dtype, std::uint64_t columns,
                                              std::uint64_t wanted = UINT64_MAX);
/// Rows [first, first + count) of a weight.
Binding weight_rows(const Binding& whole, DType dtype, std::uint64_t columns, std::uint64_t first, std::uint64_t count);

}  // namespace graft
