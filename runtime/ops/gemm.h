// The blocked GEMM that matmul and the implicit GEMMs of convolutions share: which tile, how k is split, dispatch.
// The kernels' side is shaders/common/gemm.glsl.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "platform/base/checked.h"
#include "runtime/ops/emitter.h"
#include "runtime/ops/matrix_tiles.h"
#include "runtime/ops/parts.h"
#include "shaders/kernels.gen.h"

namespace graft {

/// One kernel file's variants.
struct GemmKernels {
  shaders::KernelId shared;   ///< Vulkan 1.1 core, tiles in shared memory
  shaders::KernelId shuffle;  ///< a few lanes that hand numbers round, for CPU devices
  shaders::KernelId coopmat;  ///< cooperative matrices of f16; may not be built
  shaders::KernelId apart;    ///< invocations that share nothing, for CPU devices
  /// Cooperative matrices of any size; may not be built.
  shaders::KernelId flexible = shaders::KernelId::count_;
  /// The same two for operands of bf16.
  shaders::KernelId coopmat_bf16 = shaders::KernelId::count_;
  shaders::KernelId flexible_bf16 = shaders::KernelId::count_;
  /// kSpecialConstant of kernels that have one: formats of weights, kCells, kWholeImages.
  std::optional<std::uint32_t> special = {};

  /// By Variant::kernel.
  std::array<shaders::KernelId, 5> offered(MatrixOperands operands) const {
    const bool f16 = operands == MatrixOperands::none || operands == MatrixOperands::f16;
    return {shared, shuffle, f16 ? coopmat : coopmat_bf16, apart, f16 ? flexible : flexible_bf16};
  }
};

constexpr std::size_t kSpecialConstant = 4;  // constant_id

/// Along which axis an operand is contiguous, in whole fours wherever a loop over fours reads.
enum class Fours : std::uint8_t {
  none,
  along_k,  ///< `inner` is a multiple of four too
  across,   ///< along the rows of A, the columns of B
};

/// Sizes of C[m, n] = sum over outer * inner of A * B, `batches` times; the output has `outputs` elements in all.
struct GemmProblem {
  std::uint64_t m = 0;
  std::uint64_t n = 0;
  std::uint64_t outer = 1;
  std::uint64_t inner = 0;
  std::uint64_t batches = 1;
  std::uint64_t outputs = 0;
  MatrixOperands operands = MatrixOperands::none;  ///< as what they may be multiplied: emit_gemm() finds out
  bool whole = false;  ///< k is not split: the output is added to, limited, or part of another
  Fours a_fours = Fours::none;
  Fours b_fours = Fours::none;
  bool out_fours = true;  ///< rows of C begin at multiples of four elements where n is one
};

/// The tile that suits a device and a problem (Family::gemm): variant and specialization constants.
struct GemmTile {
  std::uint8_t kernel = 0;  ///< of GemmKernels, in their order
  std::uint32_t m = 0;
  std::uint32_t n = 0;
  std::vector<std::uint32_t> specialization;
  Choice choice;
};
GemmTile choose_gemm_tile(const gpu::Target& target, const GemmProblem& problem,
                          std::span<const shaders::KernelId> kernels = {});

/// Whether emit_gemm() would take a kernel for CPU devices whose lanes own columns. The caller sets `operands` of the
/// problem.
bool tile_owns_columns(const gpu::Target& target, const GemmProblem& problem, const GemmKernels& kernels);

/// Into how many parts k is cut so that a small output with a long k keeps the device busy; 1 for most problems.
/// `parts`: a variant of Family::gemm_parts.
std::uint32_t choose_gemm_splits(const GemmProblem& problem, const GemmTile& tile, const Variant& parts);

/// Sums of fewer products are never cut.
inline constexpr std::uint64_t kSplittable = 512;

/// The fields of GEMM_FIELDS, as checked 32-bit numbers.
struct GemmFields {
  GemmTile tile;
  Choice parts;
  std::uint32_t m = 0, n = 0, k = 0, inner = 0, tiles_m = 0, tiles_n = 0, batches = 0, splits = 0, k_per_split = 0,
                split_stride = 0;
};
Result<GemmFields> make_gemm_fields(const gpu::Target& target, const GemmProblem& problem,
                                    std::span<const shaders::KernelId> kernels = {});

/// The operands of a GEMM kernel in its order of bindings: a, b, (bias), out, (after_out).
struct GemmOperands {
  Binding a;
  Binding b;
  Binding out;
  bool takes_bias = false;  ///< whether the kernel has a binding for one
  bool has_bias = false;
  Binding bias = {};
  std::uint64_t bias_count = 0;
  std::optional<Binding> after_out = {};  ///< of kernels that have a further binding
};

/// A sum of `outputs` numbers in `splits` parts, each of which is computed by itself first.
struct SplitSum {
  std::uint64_t splits = 1;
  std::uint64_t outputs = 0;
  std::uint64_t stride = 0;  ///< elements from one part to the next; 0: side by side

  std::uint64_t part_stride() const { return stride == 0 ? outputs : stride; }
};

/// Scratch for the parts of a sum: for all of them at once, or where the node's workspace has no room for that, for
/// some at a time and the sum of those before, which stands behind them.
class SplitRounds {
 public:
  SplitRounds(Emitter& e, const SplitSum& sum);
  std::uint64_t at_once() const { return at_once_; }
  /// Where the parts of the round that begins at `first` go.
  Binding parts(std::uint64_t first) const;
  std::uint64_t count(std::uint64_t first) const { return std::min(at_once_, sum_.splits - first); }
  /// Adds them to the sum so far, in their order; the last round's (and the bias) into operands.out.
  Status add_up(std::uint64_t first, const GemmOperands& operands);

 private:
  Emitter& e_;
  SplitSum sum_;
  std::uint64_t at_once_;
  Slot slot_;
};

/// Calls compute(first, count, to) to have the parts [first, first + count) written to `to`, and adds them (and the
/// bias) into operands.out, in their order: the same bits, however many are computed at a time.
template <typename Compute>
Status emit_split(Emitter& e, const SplitSum& sum, const GemmOperands& operands, Compute compute) {
  SplitRounds rounds(e, sum);
  for (std::uint64_t first = 0; first < sum.splits; first += rounds.at_once()) {
    GRAFT_TRY(compute(first, rounds.count(first), rounds.parts(first)));
    GRAFT_TRY(rounds.add_up(first, operands));
  }
  return ok_status();
}

/// The same for a sum over `items` that do not fit a binding: run(first, count, to) has those of one part summed.
template <typename Run>
Status emit_partial_sums(Emitter& e, std::uint64_t items, std::uint64_t per_part, std::uint64_t outputs,
                         const GemmOperands& operands, Run run) {
  // Each part may be bound by itself.
  const std::uint64_t round = std::max<std::uint64_t>(e.caps().storage_buffer_alignment / sizeof(float), 1);
  const SplitSum sum = {ceil_div(items, per_part), outputs, align_up(outputs, round)};
  return emit_split(e, sum, operands, [&](std::uint64_t first, std::uint64_t count, const Binding& to) {
    return for_each_part(std::min(items - first * per_part, count * per_part), per_part,
                         [&](std::uint64_t at, std::uint64_t some) {
                           return run(first * per_part + at, some, part_of(to, at / per_part * sum.stride, sum.stride));
                         });
  });
}

/// Dispatches one GEMM: fills the push block's GEMM_FIELDS and adds the second pass where k is split.
/// Nothing where the output is empty.
template <typename Push>
Status emit_gemm(Emitter& e, const GemmKernels& kernels, GemmProblem problem, const GemmOperands& operands, Push push) {
  if (problem.outputs == 0) return ok_status();
  problem.operands = matrix_operands(e, std::array{operands.a, operands.b});
  const std::array offered = kernels.offered(problem.operands);
  GRAFT_TRY_ASSIGN(const GemmFields fields, make_gemm_fields(e.target(), problem, offered));
  e.note(fields.tile.choice);
  if (!problem.whole && problem.outer * problem.inner >= kSplittable) e.note(fields.parts);
  push.m = fields.m;
  push.n = fields.n;
  push.k = fields.k;
  push.inner = fields.inner;
  push.tiles_m = fields.tiles_m;
  push.tiles_n = fields.tiles_n;
  push.batches = fields.batches;
  push.k_per_split = fields.k_per_split;
  push.split_stride = fields.split_stride;
  push.has_bias = operands.has_bias && fields.splits == 1 ? 1 : 0;

  const auto compute = [&](std::uint64_t first, std::uint64_t count, const Binding& to) {
    push.splits = static_cast<std::uint32_t>(first << 16 | (first + count));
    std::vector<Binding> bindings = {operands.a, operands.b};
    if (operands.takes_bias) bindings.push_back(operands.has_bias ? operands.bias : operands.a);
    bindings.push_back(to);
    if (operands.after_out) bindings.push_back(*operands.after_out);
    const auto groups = e.spread(std::uint64_t{fields.tiles_m} * fields.tiles_n * fields.batches * count);
    e.dispatch(offered[fields.tile.kernel], {}, std::move(bindings), push, groups);
    auto& constants = e.dispatches().back().specialization;
    constants = fields.tile.specialization;
    if (kernels.special) {
      constants.resize(std::max(constants.size(), kSpecialConstant + 1));
      constants[kSpecialConstant] = *kernels.special;
    }
    return ok_status();
  };
  if (fields.splits == 1) return compute(0, 1, operands.out);
  return emit_split(e, {fields.splits, problem.outputs}, operands, compute);
}

}  // namespace graft
