#include "runtime/ops/product.h"

#include <algorithm>

#include "platform/base/checked.h"
#include "shaders/matmul/matmul_push.h"

namespace graft {

Fours fours_of(bool along_k, std::uint64_t across, std::uint64_t k) {
  if ((along_k ? k : across) % 4 != 0) return Fours::none;
  return along_k ? Fours::along_k : Fours::across;
}

Status emit_product(Emitter& e, const Product& product, GemmOperands operands) {
  const auto& [m, n, k, trans_a, trans_b, whole] = product;
  GRAFT_TRY(count32(m * k, "first operand"));
  GRAFT_TRY(count32(k * n, "second operand"));
  push::MatmulPush push{};
  push.a_row_stride = static_cast<std::uint32_t>(trans_a ? 1 : k);
  push.a_k_stride = static_cast<std::uint32_t>(trans_a ? m : 1);
  push.b_k_stride = static_cast<std::uint32_t>(trans_b ? 1 : n);
  push.b_col_stride = static_cast<std::uint32_t>(trans_b ? k : 1);
  std::ranges::fill(push.batch_dims, 1u);
  operands.takes_bias = true;
  const GemmProblem problem{.m = m,
                            .n = n,
                            .inner = k,
                            .outputs = m * n,
                            .whole = whole,
                            .a_fours = fours_of(!trans_a, m, k),
                            .b_fours = fours_of(trans_b, n, k)};
  return emit_gemm(e, kMatmulKernels, problem, operands, push);
}

}  // namespace graft
