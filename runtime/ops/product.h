// Products of two whole matrices by the kernels of matmul, for ops that are one: convolutions of 1x1, heads.
#pragma once

#include "runtime/ops/gemm.h"
#include "shaders/kernels.gen.h"

namespace graft {

inline constexpr GemmKernels kMatmulKernels = {shaders::KernelId::matmul__f32,
                                               shaders::KernelId::matmul__f32_shuffle,
                                               shaders::KernelId::matmul__f32_coopmat,
                                               shaders::KernelId::matmul__f32_apart,
                                               shaders::KernelId::matmul__f32_flexible,
                                               shaders::KernelId::matmul__f32_coopmat_bf16,
                                               shaders::KernelId::matmul__f32_flexible_bf16};

/// How an operand of `across` rows (or columns) by k can be loaded.
Fours fours_of(bool along_k, std::uint64_t across, std::uint64_t k);

/// [m, n] = a [m, k] or, transposed, [k, m], times b [k, n] or [n, k].
struct Product {
  std::uint64_t m = 0;
  std::uint64_t n = 0;
  std::uint64_t k = 0;
  bool trans_a = false;
  bool trans_b = false;
  bool whole = false;  ///< k is not split (GemmProblem::whole)
};

/// Operands that bindings hold. They take a bias (GemmOperands::takes_bias) whether they have one or not.
Status emit_product(Emitter& e, const Product& product, GemmOperands operands);

}  // namespace graft
