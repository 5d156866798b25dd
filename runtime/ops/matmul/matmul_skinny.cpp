#include "runtime/ops/matmul/matmul_skinny.h"

#include <algorithm>

#include "platform/base/checked.h"
#include "shaders/matmul/matmul_skinny_push.h"

namespace graft::ops {
namespace {

constexpr std::uint64_t kMaxRows = 4;

struct Shape {
  std::uint32_t threads;
  std::uint32_t span;  // rows of b, or vectors of its columns
};

// By rows, invocations lie along k; by columns along n, where a CPU device wants long runs of each row of b.
Shape shape_of(const gpu::Caps& caps, std::uint64_t n, bool b_by_rows) {
  if (caps.type != gpu::DeviceType::cpu) return {64, b_by_rows ? 4u : 1u};
  const auto lanes = std::clamp<std::uint32_t>(std::bit_floor(caps.subgroup_size), 4, 16);
  if (b_by_rows) return {lanes, 4};
  std::uint32_t span = 1;
  while (span < 8 && n >= std::uint64_t{8} * lanes * span) span *= 2;
  return {lanes, span};
}

}  // namespace

bool suits_skinny(std::uint64_t m, std::uint64_t n, std::uint64_t k, bool b_by_rows) {
  return m >= 1 && m <= kMaxRows && k >= 32 && n >= 8 && (b_by_rows ? k : n) % 4 == 0;
}

Status emit_skinny(Emitter& e, std::uint64_t m, std::uint64_t n, std::uint64_t k, bool b_by_rows,
                   const GemmOperands& operands) {
  const Shape shape = shape_of(e.caps(), n, b_by_rows);
  push::MatmulSkinnyPush push{};
  GRAFT_TRY_ASSIGN(push.n, count32(n, "columns of the product"));
  GRAFT_TRY_ASSIGN(push.k, count32(k, "length of the sums"));
  const std::uint64_t per_group = b_by_rows ? shape.span : std::uint64_t{4} * shape.threads * shape.span;
  push.groups = static_cast<std::uint32_t>(ceil_div(n, per_group));
  // Few columns of a long b: its rows are shared out as well.
  std::uint64_t splits = 1;
  if (!b_by_rows) {
    const std::uint64_t wanted = e.caps().type == gpu::DeviceType::cpu ? 16 : 256;
    splits =
        std::clamp<std::uint64_t>(ceil_div<std::uint64_t>(wanted, push.groups), 1, std::max<std::uint64_t>(k / 128, 1));
  }
  push.k_per_split = static_cast<std::uint32_t>(ceil_div(k, splits));
  push.splits = ceil_div(push.k, push.k_per_split);
  push.has_bias = operands.has_bias && push.splits == 1 ? 1 : 0;
  const Slot parts = push.splits > 1 ? e.scratch(m * n * push.splits * sizeof(float)) : Slot{};
  e.dispatch(b_by_rows ? shaders::KernelId::matmul_skinny__f32_rows : shaders::KernelId::matmul_skinny__f32_columns,
             {shape.threads, static_cast<std::uint32_t>(m), shape.span},
             {operands.a, operands.b, operands.has_bias ? operands.bias : operands.a,
              push.splits > 1 ? Binding{parts, Access::write} : operands.out},
             push, e.spread(std::uint64_t{push.groups} * push.splits));
  return push.splits > 1 ? emit_split_sum(e, parts, push.splits, m * n, operands) : ok_status();
}

}  // namespace graft::ops
