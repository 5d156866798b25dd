// Layer normalisation over the axes from `axis` on: rows of contiguous numbers.
#include "platform/base/checked.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/core/vjp.h"
#include "runtime/ops/norm/columns.h"
#include "runtime/ops/rows.h"
#include "shaders/kernels.gen.h"
#include "shaders/norm/layer_norm_push.h"

namespace graft::ops::norm {
namespace {

constexpr AttrSpec kAttrs[] = {attr::integer("axis").needed(), kEpsilon};
constexpr AttrSpec kGradAttrs[] = {attr::integer("axis").needed()};

struct Parts {
  Shape leading;
  Shape trailing;
};

Result<Parts> split(InferContext& c) {
  GRAFT_TRY(c.expect_dtype(0, DType::f32));
  const auto& dims = c.shape(0).dims();
  GRAFT_TRY_ASSIGN(const std::size_t axis, normalize_axis(c.attrs().integer("axis"), dims.size()));
  const auto middle = dims.begin() + static_cast<std::ptrdiff_t>(axis);
  return Parts{Shape(std::vector<Dim>(dims.begin(), middle)), Shape(std::vector<Dim>(middle, dims.end()))};
}

Status infer(InferContext& c) {
  GRAFT_TRY_ASSIGN(const Parts parts, split(c));
  for (const std::size_t i : {1, 2}) {
    if (!c.has(i)) continue;
    GRAFT_TRY(c.expect_dtype(i, DType::f32));
    GRAFT_TRY(c.expect_shape(i, parts.trailing));
  }
  c.output(DType::f32, c.shape(0));
  c.output(DType::f32, parts.leading);
  c.output(DType::f32, parts.leading);
  return ok_status();
}

Result<push::LayerNormPush> make_push(const Emitter& e) {
  const Shape& x = e.in_shape(0);
  GRAFT_TRY_ASSIGN(const std::size_t axis, normalize_axis(e.attrs().integer("axis"), x.rank()));
  push::LayerNormPush p{};
  GRAFT_TRY(count32(x.elements(), "normalised tensor"));
  GRAFT_TRY_ASSIGN(p.rows, count32(x.elements(0, axis), "list of rows"));
  GRAFT_TRY_ASSIGN(p.columns, count32(x.elements(axis, x.rank()), "row"));
  p.inner = 1;
  p.has_scale = e.has(1);
  return p;
}

void dispatch_rows(Emitter& e, shaders::KernelId kernel, std::vector<Binding> bindings, const push::LayerNormPush& p) {
  const RowSchedule s = row_schedule(e, p.rows, p.columns, 1);
  e.dispatch(kernel, {s.slices, s.rows_first, s.vector}, std::move(bindings), p, e.spread(s.workgroups));
}

Status emit(Emitter& e) {
  GRAFT_TRY_ASSIGN(push::LayerNormPush p, make_push(e));
  if (p.rows == 0) return ok_status();
  if (p.columns == 0) {
    GRAFT_TRY(emit_nan(e, e.out(1), p.rows));
    return emit_nan(e, e.out(2), p.rows);
  }
  p.has_bias = e.has(2);
  p.epsilon = static_cast<float>(e.attrs().number("epsilon"));
  dispatch_rows(e, shaders::KernelId::layer_norm__f32,
                {e.in(0), e.has(1) ? e.in(1) : e.in(0), e.has(2) ? e.in(2) : e.in(0), e.out(), e.out(1), e.out(2)}, p);
  return ok_status();
}

Status vjp(VjpContext& c) {
  if (c.cotangent(1).valid() || c.cotangent(2).valid()) {
    return unsupported("The statistics that layer_norm gives beside its result cannot be differentiated through.");
  }
  const auto grads = c.b.nodes(Op::layer_norm_grad, {c.in(0), c.in(1), c.out(1), c.out(2), c.dy()},
                               {{"axis", c.attrs().integer("axis")}});
  for (std::size_t i = 0; i < grads.size(); ++i) {
    if (c.in(i).valid()) c.grad(i, grads[i]);
  }
  return ok_status();
}

Status infer_grad(InferContext& c) {
  GRAFT_TRY_ASSIGN(const Parts parts, split(c));
  for (const std::size_t i : {1, 2, 3, 4}) {
    if (c.has(i)) GRAFT_TRY(c.expect_dtype(i, DType::f32));
  }
  if (c.has(1)) GRAFT_TRY(c.expect_shape(1, parts.trailing));
  GRAFT_TRY(c.expect_shape(2, parts.leading));
  GRAFT_TRY(c.expect_shape(3, parts.leading));
  GRAFT_TRY(c.expect_shape(4, c.shape(0)));
  c.output(DType::f32, c.shape(0));
  c.output(DType::f32, parts.trailing);
  c.output(DType::f32, parts.trailing);
  return ok_status();
}

Status emit_grad(Emitter& e) {
  GRAFT_TRY_ASSIGN(const push::LayerNormPush p, make_push(e));
  if (p.rows == 0 || p.columns == 0) {
    GRAFT_TRY(emit_zero_floats(e, e.out(1), p.columns));
    return emit_zero_floats(e, e.out(2), p.columns);
  }
  dispatch_rows(e, shaders::KernelId::layer_norm_grad__f32,
                {e.in(0), e.has(1) ? e.in(1) : e.in(0), e.in(2), e.in(3), e.in(4), e.out()}, p);
  const NormView view{.rows = p.rows, .cols = p.columns, .stat_rows = 1, .group_cols = p.columns};
  GRAFT_TRY_ASSIGN(const push::NormPush columns, norm_push(view, 0, false));
  const Slot sums = emit_norm_grad_sums(e, columns, e.in(0), e.in(4), e.in(2), e.in(3));
  emit_norm_grad_params(e, columns, sums, e.in(0), e.out(1), e.out(2));
  return ok_status();
}

std::uint64_t flops(const Graph& g, const Node& n) { return norm_flops(g, n, 8); }
std::uint64_t layer_norm_grad_flops(const Graph& g, const Node& n) { return norm_flops(g, n, 14); }

}  // namespace

extern const OpDef op_layer_norm, op_layer_norm_grad;
const OpDef op_layer_norm = {.name = "layer_norm",
                             .attrs = kAttrs,
                             .max_inputs = 3,
                             .optional_inputs = 0b110,
                             .infer = infer,
                             .emit = emit,
                             .gradient = vjp,
                             .flops = flops};
const OpDef op_layer_norm_grad = {.name = "layer_norm_grad",
                                  .attrs = kGradAttrs,
                                  .min_inputs = 5,
                                  .max_inputs = 5,
                                  .optional_inputs = 0b10,
                                  .infer = infer_grad,
                                  .emit = emit_grad,
                                  .gradient = NoGrad{"it is itself a gradient"},
                                  .flops = layer_norm_grad_flops};

}  // namespace graft::ops::norm
