// Root-mean-square normalisation over the axes from `axis` on (Zhang and Sennrich 2019): rows of contiguous numbers.
#include <cmath>

#include "platform/base/checked.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/core/vjp.h"
#include "runtime/ops/elementwise.h"
#include "runtime/ops/movement.h"
#include "runtime/ops/rows.h"
#include "shaders/kernels.gen.h"
#include "shaders/rms_norm/rms_norm_grad_scale_push.h"
#include "shaders/rms_norm/rms_norm_push.h"

namespace graft::ops::rms_norm {
namespace {

constexpr AttrSpec kAxis = attr::integer("axis", -1);
constexpr AttrSpec kAddUnit = attr::flag("add_unit");
constexpr AttrSpec kAttrs[] = {kAxis, attr::number("epsilon", 1e-5).at_least(0), kAddUnit};
constexpr AttrSpec kGradAttrs[] = {kAxis, kAddUnit, attr::flag("scale_gradient", true)};

Result<std::size_t> first_axis(const Attrs& attrs, const Shape& x) {
  return normalize_axis(attrs.integer("axis"), x.rank());
}

struct Parts {
  Shape leading;
  Shape trailing;
};

Result<Parts> split(InferContext& c) {
  GRAFT_TRY(c.expect_dtype(0, DType::f32));
  const auto& dims = c.shape(0).dims();
  GRAFT_TRY_ASSIGN(const std::size_t axis, first_axis(c.attrs(), c.shape(0)));
  const auto middle = dims.begin() + static_cast<std::ptrdiff_t>(axis);
  Parts parts{Shape(std::vector<Dim>(dims.begin(), middle)), Shape(std::vector<Dim>(middle, dims.end()))};
  if (c.has(1)) {
    GRAFT_TRY(c.expect_dtype(1, DType::f32));
    GRAFT_TRY(c.expect_shape(1, parts.trailing));
  }
  return parts;
}

Status infer(InferContext& c) {
  GRAFT_TRY_ASSIGN(const Parts parts, split(c));
  c.output(DType::f32, c.shape(0));
  c.output(DType::f32, parts.leading);
  return ok_status();
}

Result<push::RmsNormPush> make_push(const Emitter& e) {
  const Shape& x = e.in_shape(0);
  GRAFT_TRY_ASSIGN(const std::size_t axis, first_axis(e.attrs(), x));
  push::RmsNormPush p{};
  GRAFT_TRY(count32(x.elements(), "normalised tensor"));
  GRAFT_TRY_ASSIGN(p.rows, count32(x.elements(0, axis), "list of rows"));
  GRAFT_TRY_ASSIGN(p.columns, count32(x.elements(axis, x.rank()), "row"));
  p.inner = 1;
  p.has_scale = e.has(1);
  p.unit = e.attrs().flag("add_unit") ? 1 : 0;
  return p;
}

Status emit(Emitter& e) {
  GRAFT_TRY_ASSIGN(push::RmsNormPush p, make_push(e));
  if (p.rows == 0) return ok_status();
  if (p.columns == 0) return emit_fill(e, e.out(1), p.rows, spec(NAN));  // the mean of nothing
  p.epsilon = static_cast<float>(e.attrs().number("epsilon"));
  const RowSchedule s = row_schedule(e, p.rows, p.columns, 1);
  e.dispatch(shaders::KernelId::rms_norm__f32, {s.slices, s.rows_first, s.vector},
             {e.in(0), e.has(1) ? e.in(1) : e.in(0), e.out(), e.out(1)}, p, e.spread(s.workgroups));
  return ok_status();
}

Status vjp(VjpContext& c) {
  if (c.cotangent(1).valid()) {
    return unsupported("The statistics that rms_norm gives beside its result cannot be differentiated through.");
  }
  const bool scale = c.in(1).valid() && c.needs(1);
  const auto grads = c.b.nodes(Op::rms_norm_grad, {c.in(0), c.in(1), c.out(1), c.dy()},
                               {{"axis", c.attrs().integer("axis")},
                                {"add_unit", c.attrs().integer("add_unit")},
                                {"scale_gradient", std::int64_t{scale}}});
  for (std::size_t i = 0; i < grads.size(); ++i) c.grad(i, grads[i]);
  return ok_status();
}

bool has_scale_gradient(bool has_scale, const Attrs& attrs) { return has_scale && attrs.flag("scale_gradient"); }

Status infer_grad(InferContext& c) {
  GRAFT_TRY_ASSIGN(const Parts parts, split(c));
  for (const std::size_t i : {2, 3}) GRAFT_TRY(c.expect_dtype(i, DType::f32));
  GRAFT_TRY(c.expect_shape(2, parts.leading));
  GRAFT_TRY(c.expect_shape(3, c.shape(0)));
  c.output(DType::f32, c.shape(0));
  if (has_scale_gradient(c.has(1), c.attrs())) c.output(DType::f32, parts.trailing);
  return ok_status();
}

/// dscale: sums of chunks of rows into scratch memory, then of those; straight into dscale where one chunk is all.
void emit_scale_gradient(Emitter& e, std::uint32_t rows, std::uint32_t columns) {
  constexpr std::uint32_t kChunkRows = 64;
  push::RmsNormGradScalePush p{
      .rows = rows, .columns = columns, .chunk_rows = kChunkRows, .chunks = 0, .column_tiles = 0};
  p.chunks = ceil_div(rows, kChunkRows);
  p.column_tiles = ceil_div<std::uint32_t>(columns, 32);
  const auto groups = [&] { return e.spread(std::uint64_t{p.chunks} * p.column_tiles); };
  if (p.chunks == 1) {
    e.dispatch(shaders::KernelId::rms_norm_grad_scale__f32, {true}, {e.in(0), e.in(2), e.in(3), e.out(1)}, p, groups());
    return;
  }
  const Slot partial = e.scratch(std::uint64_t{p.chunks} * columns * sizeof(float));
  e.dispatch(shaders::KernelId::rms_norm_grad_scale__f32, {true}, {e.in(0), e.in(2), e.in(3), {partial, Access::write}},
             p, groups());
  p.rows = p.chunk_rows = p.chunks;
  p.chunks = 1;
  const Binding sums = {partial, Access::read};
  e.dispatch(shaders::KernelId::rms_norm_grad_scale__f32, {false}, {sums, sums, sums, e.out(1)}, p, groups());
}

Status emit_grad(Emitter& e) {
  GRAFT_TRY_ASSIGN(const push::RmsNormPush p, make_push(e));
  const bool scale = has_scale_gradient(e.has(1), e.attrs());
  if (p.rows == 0 || p.columns == 0) return scale ? emit_fill(e, e.out(1), p.columns, 0) : ok_status();
  const RowSchedule s = row_schedule(e, p.rows, p.columns, 1);
  e.dispatch(shaders::KernelId::rms_norm_grad__f32, {s.slices, s.rows_first, s.vector},
             {e.in(0), e.has(1) ? e.in(1) : e.in(0), e.in(2), e.in(3), e.out()}, p, e.spread(s.workgroups));
  if (scale) emit_scale_gradient(e, p.rows, p.columns);
  return ok_status();
}

std::uint64_t flops_of(const Graph& g, const Node& n, std::uint64_t per_element) {
  return per_element * g.value(n.inputs[0]).shape.elements();
}
std::uint64_t flops(const Graph& g, const Node& n) { return flops_of(g, n, 4); }
std::uint64_t grad_flops(const Graph& g, const Node& n) { return flops_of(g, n, 11); }

}  // namespace

/// rms_norm(x, scale?; axis = -1: the first normalised one, epsilon = 1e-5, add_unit) -> y, rstd (of the leading axes).
/// y = x / sqrt(mean(x^2) + epsilon) * scale; add_unit 1 multiplies by scale + 1 instead.
extern const OpDef op_rms_norm;
const OpDef op_rms_norm = {.name = "rms_norm",
                           .attrs = kAttrs,
                           .max_inputs = 2,
                           .optional_inputs = 0b10,
                           .infer = infer,
                           .emit = emit,
                           .gradient = vjp,
                           .flops = flops};

/// rms_norm_grad(x, scale?, rstd, dy; axis, add_unit, scale_gradient = 1) -> dx, and dscale where there is a scale and
/// scale_gradient is 1.
extern const OpDef op_rms_norm_grad;
const OpDef op_rms_norm_grad = {.name = "rms_norm_grad",
                                .attrs = kGradAttrs,
                                .min_inputs = 4,
                                .max_inputs = 4,
                                .optional_inputs = 0b10,
                                .infer = infer_grad,
                                .emit = emit_grad,
                                .gradient = NoGrad{"it is itself a gradient"},
                                .flops = grad_flops};

}  // namespace graft::ops::rms_norm
