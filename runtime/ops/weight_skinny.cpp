#include "runtime/ops/weight_skinny.h"

#include <algorithm>

#include "platform/base/checked.h"
#include "shaders/kernels.gen.h"
#include "shaders/matmul/matmul_skinny_weight_push.h"
#include "shaders/matmul/quantize_rows_push.h"

namespace graft {
namespace {

using shaders::KernelId;

constexpr std::uint64_t kRun = 32;         // elements that are unpacked at once
constexpr std::uint64_t kMostRows = 4;     // of A in registers
constexpr std::uint64_t kMostDotRows = 8;  // the same, as integers
constexpr std::uint64_t kRunWords = 9;     // of A in 8 bits
constexpr std::uint32_t kQuantizers = 64;  // invocations of quantize_rows
// In the order of Family::weight_rows' variants; f32 has no integers.
constexpr std::array kQuantized = {KernelId::matmul_skinny_weight__f32, KernelId::matmul_skinny_weight__f32_shuffle,
                                   KernelId::matmul_skinny_weight__f32_dot8};
constexpr std::array kPlain = {KernelId::matmul_skinny_weight__f32_plain,
                               KernelId::matmul_skinny_weight__f32_plain_shuffle};
constexpr std::uint8_t kDot8 = 2;
constexpr std::uint64_t kLineBytes = 64;
constexpr std::uint64_t kMostTouched = 256u << 10;  // bytes of a workgroup's rows, that stay in a core's cache

/// Adreno 610 to 640, whose numbers device ids tell: their compiler spills where lanes along a row take two runs of
/// floats at a time. Of a 660 and newer it does not.
bool has_few_registers(const gpu::Caps& caps) {
  constexpr std::uint32_t kQualcomm = 0x5143;
  return caps.vendor_id == kQualcomm && caps.device_id >> 16 >= 0x0600 && caps.device_id >> 16 < 0x0605;
}

/// A's rows rounded to 8 bits.
Result<Slot> quantize_rows(Emitter& e, const WeightGemm& g) {
  push::QuantizeRowsPush push{};
  GRAFT_TRY_ASSIGN(push.runs, count32(g.m * g.columns / kRun, "runs of the first operand"));
  const Slot codes = e.scratch(std::uint64_t{push.runs} * kRunWords * sizeof(std::uint32_t));
  e.dispatch(KernelId::quantize_rows__f32, {}, {g.a, {codes, Access::write}}, push,
             e.spread(ceil_div(push.runs, kQuantizers)));
  return codes;
}

}  // namespace

Result<bool> emit_weight_skinny(Emitter& e, const WeightGemm& g, std::uint64_t first, std::uint64_t all_rows) {
  const bool plain = g.by_rows && !g.order && !g.base && !g.accumulate && g.alpha == 1;
  if (!plain || g.columns % kRun != 0) return false;
  const std::span<const KernelId> kernels = is_quantized(g.dtype) ? std::span<const KernelId>(kQuantized) : kPlain;
  ChoiceShape shape{g.m, g.rows, g.columns};
  shape.rounded = e.target().policy.matmul_precision == gpu::MatmulPrecision::medium &&
                  (g.dtype == DType::q8_0 || g.dtype == DType::q4_0);
  Choice choice = choose(Family::weight_rows, e.target(), shape, kernels, dtype_name(g.dtype));
  if (choice.variant->kernel >= kernels.size()) return false;
  const Variant& variant = e.note(choice);
  const bool dot8 = variant.kernel == kDot8;
  const std::uint32_t threads = variant.tile[0] == 0 ? cpu_lanes(e.caps()) : variant.tile[0];
  const std::uint32_t along = variant.tile[1];
  const std::uint32_t span = variant.tile[2];

  push::MatmulSkinnyWeightPush push{};
  GRAFT_TRY_ASSIGN(push.rows, count32(g.m, "rows of the product"));
  GRAFT_TRY_ASSIGN(push.n, count32(g.rows, "columns of the product"));
  GRAFT_TRY_ASSIGN(push.k, count32(g.columns, "length of the sums"));
  const std::uint32_t rows = std::min<std::uint32_t>(push.rows, dot8 ? kMostDotRows : kMostRows);
  push.groups_n = ceil_div(push.n, threads / along * span);
  GRAFT_TRY_ASSIGN(push.groups, count32(std::uint64_t{push.groups_n} * ceil_div(push.rows, rows), "tiles"));
  GRAFT_TRY_ASSIGN(push.out_stride, count32(all_rows, "columns of the product"));
  push.first = static_cast<std::uint32_t>(first);
  push.has_bias = g.bias ? 1 : 0;
  const std::uint64_t row_bytes = storage_bytes(g.dtype, g.columns);
  const std::uint64_t group_bytes = row_bytes * std::uint64_t{threads / along} * span;
  GRAFT_TRY_ASSIGN(push.row_bytes, count32(row_bytes, "row of the weight"));
  push.last_word = static_cast<std::uint32_t>(storage_bytes(g.dtype, g.columns * g.rows) / 4 - 1);
  // Rows of f32 are long enough for a CPU to read ahead by itself.
  if (along == 1 && is_quantized(g.dtype) && group_bytes <= kMostTouched)
    push.lines = static_cast<std::uint32_t>(group_bytes / kLineBytes);
  Binding a = g.a;
  if (dot8) {
    GRAFT_TRY_ASSIGN(const Slot codes, quantize_rows(e, g));
    a = {codes, Access::read};
  }
  const bool single = along > 1 && !dot8 && has_few_registers(e.caps());
  const std::uint32_t pairs = !single && g.columns % (2 * kRun) == 0 ? 1 : 0;
  const bool fours = pairs != 0 && (g.dtype == DType::q8_0 || g.dtype == DType::q4_0) && push.last_word % 4 == 3;
  e.dispatch(kernels[variant.kernel],
             {threads, rows, along, span, static_cast<std::uint32_t>(g.dtype), pairs, fours ? 1u : 0u},
             {a, g.w, g.bias.value_or(g.a), g.out}, push, e.spread(push.groups));
  return true;
}

}  // namespace graft
