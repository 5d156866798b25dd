// The blocked GEMM that matmul and the implicit GEMMs of convolutions share: which tile, how k is split, dispatch.
// The kernels' side is shaders/common/gemm.glsl.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/ops/emitter.h"
#include "runtime/ops/matrix_tiles.h"

namespace graft {

/// One kernel file's variants.
struct GemmKernels {
  shaders::KernelId shared;   ///< Vulkan 1.1 core, tiles in shared memory
  shaders::KernelId shuffle;  ///< one narrow subgroup per workgroup, for CPU devices
  shaders::KernelId coopmat;  ///< cooperative matrices of f16; may not be built
  shaders::KernelId apart;    ///< invocations that share nothing, for CPU devices
  /// Cooperative matrices of any size; may not be built.
  shaders::KernelId flexible = shaders::KernelId::count_;
  std::optional<std::uint32_t> format = {};  ///< kFormatConstant of kernels that read weights of several formats
};

constexpr std::size_t kFormatConstant = 4;  // constant_id

/// Where an operand's elements stand side by side, in whole fours from any of them that a loop over fours meets.
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
  bool halves = false;  ///< operands may be multiplied as f16: emit_gemm() finds out
  bool whole = false;   ///< k is not split: the output is added to, limited, or part of another
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
GemmTile choose_gemm_tile(const gpu::Caps& caps, const GemmProblem& problem,
                          std::span<const shaders::KernelId> kernels = {});

/// Into how many parts k is cut so that a small output with a long k keeps the device busy; 1 for most problems.
/// `wanted`: workgroups (Family::gemm_parts).
std::uint32_t choose_gemm_splits(const GemmProblem& problem, const GemmTile& tile, std::uint32_t wanted);

/// Sums of fewer products are never cut.
inline constexpr std::uint64_t kSplittable = 512;

/// The fields of GEMM_FIELDS, as checked 32-bit numbers.
struct GemmFields {
  GemmTile tile;
  Choice parts;
  std::uint32_t m = 0, n = 0, k = 0, inner = 0, tiles_m = 0, tiles_n = 0, batches = 0, splits = 0, k_per_split = 0,
                split_stride = 0;
};
Result<GemmFields> make_gemm_fields(const gpu::Caps& caps, const GemmProblem& problem,
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

/// Adds the parts of a sum (and the bias) into operands.out, in their order. Parts of `outputs` elements stand `stride`
/// elements apart; 0: side by side.
Status emit_split_sum(Emitter& e, const Slot& parts, std::uint64_t splits, std::uint64_t outputs,
                      const GemmOperands& operands, std::uint64_t stride = 0);

/// Scratch for `parts` results of `outputs` elements that are bound one by one, then added by sum().
class PartialSums {
 public:
  PartialSums(Emitter& e, std::uint64_t parts, std::uint64_t outputs);
  Binding part(std::uint64_t i) const;
  /// Their sum (and the bias) into operands.out.
  Status sum(const GemmOperands& operands);

 private:
  Emitter& e_;
  std::uint64_t parts_;
  std::uint64_t outputs_;
  std::uint64_t stride_;  ///< elements, so that each part may be bound
  Slot slot_;
};

/// Dispatches one GEMM: fills the push block's GEMM_FIELDS and adds the second pass where k is split.
/// Nothing where the output is empty.
template <typename Push>
Status emit_gemm(Emitter& e, const GemmKernels& kernels, GemmProblem problem, const GemmOperands& operands, Push push) {
  if (problem.outputs == 0) return ok_status();
  const std::array offered = {kernels.shared, kernels.shuffle, kernels.coopmat, kernels.apart, kernels.flexible};
  problem.halves = may_be_f16(e, std::array{operands.a, operands.b});
  GRAFT_TRY_ASSIGN(const GemmFields fields, make_gemm_fields(e.caps(), problem, offered));
  e.note(fields.tile.choice);
  if (!problem.whole && problem.outer * problem.inner >= kSplittable) e.note(fields.parts);
  push.m = fields.m;
  push.n = fields.n;
  push.k = fields.k;
  push.inner = fields.inner;
  push.tiles_m = fields.tiles_m;
  push.tiles_n = fields.tiles_n;
  push.batches = fields.batches;
  push.splits = fields.splits;
  push.k_per_split = fields.k_per_split;
  push.split_stride = fields.split_stride;
  push.has_bias = operands.has_bias && fields.splits == 1 ? 1 : 0;

  const Slot parts = fields.splits > 1 ? e.scratch(problem.outputs * fields.splits * sizeof(float)) : Slot{};
  std::vector<Binding> bindings = {operands.a, operands.b};
  if (operands.takes_bias) bindings.push_back(operands.has_bias ? operands.bias : operands.a);
  bindings.push_back(fields.splits > 1 ? Binding{parts, Access::write} : operands.out);
  if (operands.after_out) bindings.push_back(*operands.after_out);
  const auto groups = e.spread(std::uint64_t{fields.tiles_m} * fields.tiles_n * fields.batches * fields.splits);
  e.dispatch(offered[fields.tile.kernel], {}, std::move(bindings), push, groups);
  auto& constants = e.dispatches().back().specialization;
  constants = fields.tile.specialization;
  if (kernels.format) {
    constants.resize(std::max(constants.size(), kFormatConstant + 1));
    constants[kFormatConstant] = *kernels.format;
  }
  return fields.splits > 1 ? emit_split_sum(e, parts, fields.splits, problem.outputs, operands) : ok_status();
}

}  // namespace graft
