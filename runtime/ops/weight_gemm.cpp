#include "runtime/ops/weight_gemm.h"

#include <algorithm>
#include <numeric>

#include "platform/base/checked.h"
#include "runtime/ops/gemm.h"
#include "runtime/ops/parts.h"
#include "runtime/ops/weight_skinny.h"
#include "shaders/kernels.gen.h"
#include "shaders/matmul/matmul_weight_push.h"

namespace graft {
namespace {

constexpr GemmKernels kRows = {shaders::KernelId::matmul_rows__f32,
                               shaders::KernelId::matmul_rows__f32_shuffle,
                               shaders::KernelId::matmul_rows__f32_coopmat,
                               shaders::KernelId::matmul_rows__f32_apart,
                               shaders::KernelId::matmul_rows__f32_flexible,
                               shaders::KernelId::matmul_rows__f32_coopmat_bf16,
                               shaders::KernelId::matmul_rows__f32_flexible_bf16};
constexpr GemmKernels kColumns = {shaders::KernelId::matmul_columns__f32,
                                  shaders::KernelId::matmul_columns__f32_shuffle,
                                  shaders::KernelId::matmul_columns__f32_coopmat,
                                  shaders::KernelId::matmul_columns__f32_apart,
                                  shaders::KernelId::matmul_columns__f32_flexible,
                                  shaders::KernelId::matmul_columns__f32_coopmat_bf16,
                                  shaders::KernelId::matmul_columns__f32_flexible_bf16};

/// One product whose operands fit their bindings; `first` is where this part of W begins among all its rows.
Status emit_part(Emitter& e, const WeightGemm& g, std::uint64_t first, std::uint64_t all_rows) {
  const std::uint64_t n = g.by_rows ? g.rows : g.columns;
  const std::uint64_t k = g.by_rows ? g.columns : g.rows;
  push::MatmulWeightPush push{};
  push.a_stride = static_cast<std::uint32_t>(g.by_rows ? g.columns : all_rows);
  push.out_stride = static_cast<std::uint32_t>(g.by_rows ? all_rows : g.columns);
  push.first = static_cast<std::uint32_t>(first);
  push.accumulate = g.accumulate ? 1 : 0;
  push.alpha = g.alpha;
  push.limited = g.order ? 1u | (g.ordered_a ? 2u : 0u) | (g.ordered_c ? 4u : 0u) : 0u;
  GemmKernels kernels = g.by_rows ? kRows : kColumns;
  kernels.special = static_cast<std::uint32_t>(g.dtype);
  // Parts of a split sum along a row of W begin at whole runs of 32, so that they are read four at a time.
  const bool runs = g.by_rows && k % 32 == 0;
  GemmProblem problem{.m = g.m, .n = n, .outer = runs ? k / 32 : 1, .inner = runs ? 32 : k, .outputs = g.m * n};
  const auto fours = [](auto... sizes) { return ((sizes % 4 == 0) && ...); };
  problem.a_fours = fours(k, push.a_stride, g.by_rows ? 0 : first) ? Fours::along_k : Fours::none;
  if (!g.by_rows) problem.b_fours = Fours::across;  // also where the last of a row are less than four
  if (g.by_rows && fours(g.columns)) problem.b_fours = Fours::along_k;
  problem.out_fours = fours(push.out_stride, g.by_rows ? first : 0);
  problem.whole = g.accumulate || g.order || g.base || g.alpha != 1 || g.rows != all_rows;
  GemmOperands operands{.a = g.a, .b = g.w, .out = g.out, .takes_bias = true};
  if (g.bias) {
    operands.has_bias = true;
    operands.bias = *g.bias;
    operands.bias_count = n;
  }
  if (g.base) {
    operands.has_bias = true;
    operands.bias = *g.base;
    push.bias_is_base = 1;
  }
  operands.after_out = g.order.value_or(g.w);
  return emit_gemm(e, kernels, problem, operands, push);
}

Status emit_weight_parts(Emitter& e, const WeightGemm& g) {
  GRAFT_TRY_ASSIGN(const std::uint64_t per_part, weight_rows_per_binding(e.caps(), g.dtype, g.columns));
  return for_each_part(g.rows, per_part, [&](std::uint64_t first, std::uint64_t count) {
    WeightGemm part = g;
    part.rows = count;
    part.w = weight_rows(g.w, g.dtype, g.columns, first, count);
    if (!g.by_rows && first > 0) {
      part.accumulate = true;
      part.bias.reset();
      part.base.reset();
    }
    // The first part finds nothing there; the others leave what it wrote.
    if (part.accumulate || first > 0) part.out.access = Access::read_write;
    GRAFT_TRY_ASSIGN(const bool done, emit_weight_skinny(e, part, first, g.rows));
    if (done) return ok_status();
    return emit_part(e, part, first, g.rows);
  });
}

}  // namespace

Result<std::uint64_t> weight_rows_per_binding(const gpu::Caps& caps, DType dtype, std::uint64_t columns,
                                              std::uint64_t wanted) {
  const std::uint64_t row = std::max<std::uint64_t>(storage_bytes(dtype, columns), 1);
  const std::uint64_t alignment = std::max<std::uint64_t>(caps.storage_buffer_alignment, 4);
  const std::uint64_t step = alignment / std::gcd(alignment, row);
  const std::uint64_t most = 4 * binding_words(caps) / row;
  if (most < step) {
    return unsupported(step, " rows of a weight of ", row, " bytes each do not fit one binding of ",
                       4 * binding_words(caps), " bytes.");
  }
  return std::max(std::min(most, wanted) / step, std::uint64_t{1}) * step;
}

Binding weight_rows(const Binding& whole, DType dtype, std::uint64_t columns, std::uint64_t first,
                    std::uint64_t count) {
  Binding part = whole;
  part.slot.offset += storage_bytes(dtype, first * columns);
  part.slot.size = std::min(align_up(storage_bytes(dtype, count * columns), 4),
                            whole.slot.offset + whole.slot.size - part.slot.offset);
  return part;
}

Status emit_weight_gemm(Emitter& e, const WeightGemm& g) {
  GRAFT_TRY(count32(g.rows * g.columns, "weight"));
  if (g.m == 0 || g.rows == 0 || g.columns == 0) return ok_status();
  if (g.order) return emit_weight_parts(e, g);
  const std::uint64_t a_width = g.by_rows ? g.columns : g.rows;
  const std::uint64_t out_width = g.by_rows ? g.rows : g.columns;
  GRAFT_TRY_ASSIGN(const std::uint64_t per_part,
                   items_per_part(e.caps(), g.m, {a_width, out_width}, "rows of a matrix product"));
  return for_each_part(g.m, per_part, [&](std::uint64_t first, std::uint64_t count) {
    WeightGemm part = g;
    part.m = count;
    part.a = items_of(g.a, first, count, g.m, a_width);
    part.out = items_of(g.out, first, count, g.m, out_width);
    if (g.base) part.base = items_of(*g.base, first, count, g.m, out_width);
    return emit_weight_parts(e, part);
  });
}

}  // namespace graft
