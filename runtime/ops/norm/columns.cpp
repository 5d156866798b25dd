#include "runtime/ops/norm/columns.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "platform/base/checked.h"
#include "runtime/ops/movement.h"
#include "shaders/kernels.gen.h"

namespace graft::ops::norm {
namespace {

constexpr std::uint64_t kMaxLanes = 32;     // of a workgroup side by side; a run of 128 bytes, or four times as much
constexpr std::uint64_t kRowsPerLane = 16;  // at least, where there are so many
constexpr std::uint64_t kMaxParts = 256;    // partial sums of a column, over all batches
constexpr std::uint64_t kMaxChunks = 64;    // partial sums of a column of one batch

bool four_columns(std::uint64_t cols, std::uint64_t group_cols) {
  return cols % 4 == 0 && (group_cols == 1 || group_cols % 4 == 0);
}

void dispatch_columns(Emitter& e, shaders::KernelId kernel, std::vector<Binding> bindings, const push::NormPush& p,
                      std::uint64_t workgroups) {
  e.dispatch(kernel, {four_columns(p.cols, p.group_cols)}, std::move(bindings), p, e.spread(workgroups));
}

// The same columns in chunks of fewer rows, for kernels that only map elements. What a lane reads once serves 16 rows,
// or fewer where that would leave less than a thousand workgroups.
push::NormPush mapping(push::NormPush p) {
  const std::uint64_t lane_rows = kNormWorkgroup >> p.lane_shift;
  const std::uint64_t passes = std::uint64_t{p.batches} * p.col_tiles * ceil_div(std::uint64_t{p.rows}, lane_rows);
  const std::uint64_t rows = lane_rows * std::clamp<std::uint64_t>(passes / 1024, 1, kRowsPerLane);
  p.chunk_rows = static_cast<std::uint32_t>(rows);
  p.chunks = static_cast<std::uint32_t>(ceil_div(std::uint64_t{p.rows}, rows));
  return p;
}

}  // namespace

Result<push::NormPush> norm_push(const NormView& view, double epsilon, bool stat_is_variance) {
  push::NormPush p{};
  GRAFT_TRY(count32(view.elements(), "normalised tensor"));  // bounds every count below
  const std::uint64_t runs = four_columns(view.cols, view.group_cols) ? view.cols / 4 : view.cols;
  const std::uint64_t lanes = std::min(std::bit_ceil(runs), kMaxLanes);
  const std::uint64_t lane_rows = kNormWorkgroup / lanes;
  const std::uint64_t most_chunks = std::clamp<std::uint64_t>(kMaxParts / view.batches, 1, kMaxChunks);
  const std::uint64_t spread_rows = ceil_div(ceil_div(view.rows, most_chunks), lane_rows) * lane_rows;
  const std::uint64_t chunk_rows = std::max(lane_rows * kRowsPerLane, spread_rows);
  p.batches = static_cast<std::uint32_t>(view.batches);
  p.rows = static_cast<std::uint32_t>(view.rows);
  p.cols = static_cast<std::uint32_t>(view.cols);
  p.chunk_rows = static_cast<std::uint32_t>(chunk_rows);
  p.chunks = static_cast<std::uint32_t>(ceil_div(view.rows, chunk_rows));
  p.col_tiles = static_cast<std::uint32_t>(ceil_div(runs, lanes));
  p.lane_shift = static_cast<std::uint32_t>(std::countr_zero(lanes));
  p.stat_rows = static_cast<std::uint32_t>(view.stat_rows);
  p.group_cols = static_cast<std::uint32_t>(view.group_cols);
  p.groups = static_cast<std::uint32_t>(view.cols / view.group_cols);
  p.stat_is_variance = stat_is_variance;
  p.epsilon = static_cast<float>(epsilon);
  return p;
}

std::uint64_t column_workgroups(const push::NormPush& p) { return std::uint64_t{p.batches} * p.chunks * p.col_tiles; }

std::uint64_t partial_bytes(const push::NormPush& p) { return std::uint64_t{p.batches} * p.chunks * p.cols * 8; }

Status emit_norm_stats(Emitter& e, const push::NormPush& p, const Binding& x, const Binding& mean,
                       const Binding& stat) {
  const Slot partial = e.scratch(partial_bytes(p));
  dispatch_columns(e, shaders::KernelId::norm_stats__f32, {x, {partial, Access::write}}, p, column_workgroups(p));
  dispatch_columns(e, shaders::KernelId::norm_stats_finish__f32, {{partial, Access::read}, mean, stat}, p,
                   std::uint64_t{p.batches} * (p.group_cols == 1 ? p.col_tiles : p.groups));
  return ok_status();
}

void emit_norm_apply(Emitter& e, const push::NormPush& p, const Binding& x, const Binding& mean, const Binding& stat,
                     const Binding& scale, const Binding& bias, const Binding& y) {
  const push::NormPush map = mapping(p);
  dispatch_columns(e, shaders::KernelId::norm_apply__f32, {x, mean, stat, scale, bias, y}, map, column_workgroups(map));
}

Slot emit_norm_grad_sums(Emitter& e, const push::NormPush& p, const Binding& x, const Binding& dy, const Binding& mean,
                         const Binding& stat) {
  const Slot sums = e.scratch(partial_bytes(p));
  dispatch_columns(e, shaders::KernelId::norm_grad_sums__f32, {x, dy, mean, stat, {sums, Access::write}}, p,
                   column_workgroups(p));
  return sums;
}

Slot emit_norm_grad_params(Emitter& e, const push::NormPush& p, Slot sums, const Binding& scale, const Binding& dscale,
                           const Binding& dbias) {
  const std::uint64_t groups = std::uint64_t{p.batches} * p.groups;
  const Slot means = e.scratch(8 * groups);
  const bool at_once = p.has_moments != 0 && p.batches == 1 && p.group_cols == 1;
  e.dispatch(shaders::KernelId::norm_grad_params__f32, {four_columns(p.cols, p.group_cols), at_once},
             {{sums, Access::read}, scale, dscale, dbias, {means, Access::write}}, p, e.spread(p.col_tiles));
  if (p.has_moments != 0 && !at_once) {
    e.dispatch(shaders::KernelId::norm_grad_moments__f32, {}, {{sums, Access::read}, scale, {means, Access::write}}, p,
               e.spread(groups));
  }
  return means;
}

void emit_norm_grad_apply(Emitter& e, const push::NormPush& p, const Binding& x, const Binding& dy, const Binding& mean,
                          const Binding& stat, const Binding& scale, const Binding& means, const Binding& dx) {
  const push::NormPush map = mapping(p);
  dispatch_columns(e, shaders::KernelId::norm_grad_apply__f32, {x, dy, mean, stat, scale, means, dx}, map,
                   column_workgroups(map));
}

Status emit_nan(Emitter& e, const Binding& to, std::uint64_t count) { return emit_fill(e, to, count, 0x7fc00000u); }
Status emit_zero_floats(Emitter& e, const Binding& to, std::uint64_t count) { return emit_fill(e, to, count, 0); }

std::uint64_t norm_flops(const Graph& graph, const Node& node, std::uint64_t per_element) {
  const Shape& shape = graph.value(node.inputs[0]).shape;
  return shape.is_constant() ? per_element * shape.elements() : 0;
}

}  // namespace graft::ops::norm
