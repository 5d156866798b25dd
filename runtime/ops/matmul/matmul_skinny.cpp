#include "runtime/ops/matmul/matmul_skinny.h"

#include <algorithm>

#include "platform/base/checked.h"
#include "shaders/kernels.gen.h"
#include "shaders/matmul/matmul_skinny_push.h"

namespace graft::ops::matmul {
namespace {

constexpr std::uint64_t kMaxRows = 4;

shaders::KernelId kernel_of(bool b_by_rows) {
  return b_by_rows ? shaders::KernelId::matmul_skinny__f32_rows : shaders::KernelId::matmul_skinny__f32_columns;
}

struct Shape {
  std::uint32_t threads;
  std::uint32_t span;  // rows of b, or vectors of its columns
};

// By rows, invocations lie along k; by columns along n, where a CPU device wants long runs of each row of b.
Shape shape_of(Emitter& e, std::uint64_t m, std::uint64_t n, std::uint64_t k, bool b_by_rows) {
  const Family family = b_by_rows ? Family::skinny_rows : Family::skinny_cols;
  const Variant& variant = e.note(choose(family, e.target(), {m, n, k}));
  Shape shape{variant.tile[0] == 0 ? cpu_lanes(e.caps()) : variant.tile[0], variant.tile[1]};
  if (shape.span != 0) return shape;
  shape.span = 1;
  while (shape.span < 8 && n >= std::uint64_t{8} * shape.threads * shape.span) shape.span *= 2;
  return shape;
}

}  // namespace

bool suits_skinny(Emitter& e, std::uint64_t m, std::uint64_t n, std::uint64_t k, bool b_by_rows) {
  if (m < 1 || m > kMaxRows || k < 32 || n < 8 || (b_by_rows ? k : n) % 4 != 0) return false;
  const std::array kernels = {kernel_of(b_by_rows)};
  return e.note(choose(Family::product, e.target(), {m, n, k}, kernels)).kernel == 0;
}

Status emit_skinny(Emitter& e, std::uint64_t m, std::uint64_t n, std::uint64_t k, bool b_by_rows,
                   const GemmOperands& operands) {
  const Shape shape = shape_of(e, m, n, k, b_by_rows);
  push::MatmulSkinnyPush push{};
  GRAFT_TRY_ASSIGN(push.n, count32(n, "columns of the product"));
  GRAFT_TRY_ASSIGN(push.k, count32(k, "length of the sums"));
  const std::uint64_t per_group = b_by_rows ? shape.span : std::uint64_t{4} * shape.threads * shape.span;
  push.groups = static_cast<std::uint32_t>(ceil_div(n, per_group));
  // Few columns of a long b: its rows are shared out as well.
  std::uint64_t splits = 1;
  if (!b_by_rows) {
    const std::uint64_t wanted = e.note(choose(Family::gemm_parts, e.target(), {m, n, k}, {}, "skinny")).tile[0];
    splits =
        std::clamp<std::uint64_t>(ceil_div<std::uint64_t>(wanted, push.groups), 1, std::max<std::uint64_t>(k / 128, 1));
  }
  push.k_per_split = static_cast<std::uint32_t>(ceil_div(k, splits));
  splits = ceil_div(push.k, push.k_per_split);
  push.has_bias = operands.has_bias && splits == 1 ? 1 : 0;
  const auto compute = [&](std::uint64_t first, std::uint64_t count, const Binding& to) {
    push.first_split = static_cast<std::uint32_t>(first);
    push.splits = static_cast<std::uint32_t>(first + count);
    e.dispatch(kernel_of(b_by_rows), {shape.threads, static_cast<std::uint32_t>(m), shape.span},
               {operands.a, operands.b, operands.has_bias ? operands.bias : operands.a, to}, push,
               e.spread(push.groups * count));
    return ok_status();
  };
  return splits == 1 ? compute(0, 1, operands.out) : emit_split(e, {splits, m * n}, operands, compute);
}

}  // namespace graft::ops::matmul
