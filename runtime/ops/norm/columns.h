// Statistics and sums over columns of a matrix, shared by batch, group and layer normalisation.
#pragma once

#include "runtime/ops/emitter.h"
#include "shaders/norm/norm_push.h"

namespace graft::ops::norm {

inline constexpr std::uint64_t kNormWorkgroup = 128;  ///< local_size_x of the kernels

/// How x is seen: [batches, rows, cols], statistics for every stat_rows rows and group_cols columns.
struct NormView {
  std::uint64_t batches = 1;
  std::uint64_t rows = 0;
  std::uint64_t cols = 0;
  std::uint64_t stat_rows = 0;   ///< rows that share statistics: `rows`, or 1 in layer normalisation
  std::uint64_t group_cols = 1;  ///< columns that share statistics

  std::uint64_t elements() const { return batches * rows * cols; }
};

/// The push block of all kernels for this view; an error where counts exceed 32 bits. Requires elements() > 0.
Result<push::NormPush> norm_push(const NormView& view, double epsilon, bool stat_is_variance);

std::uint64_t column_workgroups(const push::NormPush& p);
std::uint64_t partial_bytes(const push::NormPush& p);

/// Mean, and variance or rstd, of every group of a batch.
Status emit_norm_stats(Emitter& e, const push::NormPush& p, const Binding& x, const Binding& mean, const Binding& stat);

/// y = (x - mean) * rstd * scale + bias; scale and bias as the push block says.
void emit_norm_apply(Emitter& e, const push::NormPush& p, const Binding& x, const Binding& mean, const Binding& stat,
                     const Binding& scale, const Binding& bias, const Binding& y);

/// Partial sums of dy and dy * xhat for each column, into scratch memory that is returned.
Slot emit_norm_grad_sums(Emitter& e, const push::NormPush& p, const Binding& x, const Binding& dy, const Binding& mean,
                         const Binding& stat);

/// Gradients of scale and bias from the partial sums. In scratch memory that is returned, where the push block has
/// moments: means over each group of dy * scale and of dy * scale * xhat. Without a scale its binding may be any
/// memory.
Slot emit_norm_grad_params(Emitter& e, const push::NormPush& p, Slot sums, const Binding& scale, const Binding& dscale,
                           const Binding& dbias);

/// dx = rstd * (dy * scale - m1 - xhat * m2); `means` is what emit_norm_grad_params() gave.
void emit_norm_grad_apply(Emitter& e, const push::NormPush& p, const Binding& x, const Binding& dy, const Binding& mean,
                          const Binding& stat, const Binding& scale, const Binding& means, const Binding& dx);

/// Sets all of a float tensor, which has `count` elements, to NaN or zero: statistics and gradients of nothing.
Status emit_nan(Emitter& e, const Binding& to, std::uint64_t count);
Status emit_zero_floats(Emitter& e, const Binding& to, std::uint64_t count);

inline constexpr AttrSpec kEpsilon = attr::number("epsilon", 1e-5).at_least(0);

/// Adds and multiplies per element of the first input, times `per_element`.
std::uint64_t norm_flops(const Graph& graph, const Node& node, std::uint64_t per_element);

}  // namespace graft::ops::norm
