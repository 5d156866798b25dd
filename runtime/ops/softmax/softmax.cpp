#include "runtime/core/op_id.gen.h"
#include "shaders/kernels.gen.h"
#include "shaders/softmax/softmax_push.h"

#include "runtime/core/vjp.h"
#include "runtime/ops/elementwise.h"
#include "runtime/ops/rows.h"

namespace graft::ops::softmax {
namespace {

constexpr AttrSpec kSoftmax[] = {attr::integer("axis", -1)};
constexpr AttrSpec kGrad[] = {attr::integer("axis", -1), attr::integer("log")};

Status infer(InferContext& c) {
  GRAFT_TRY(c.expect_dtype(0, DType::f32));
  GRAFT_TRY(normalize_axis(c.attrs().integer("axis"), c.shape(0).rank()));
  c.output(DType::f32, c.shape(0));
  return ok_status();
}

Status infer_grad(InferContext& c) {
  GRAFT_TRY(infer(c));
  GRAFT_TRY(c.expect_dtype(1, DType::f32));
  return c.expect_shape(1, c.shape(0));
}

Status emit_rows(Emitter& e, shaders::KernelId kernel, bool log, std::vector<Binding> bindings) {
  const Shape& shape = e.out_shape();
  const std::uint64_t count = shape.elements();
  if (count == 0) return ok_status();
  if (count > max_bound_elements(e.caps())) {
    return unsupported("A softmax over the shape ", shape.text(), " exceeds ", max_bound_elements(e.caps()),
                       " elements, the limit of one binding on this device.");
  }
  GRAFT_TRY_ASSIGN(const std::size_t axis, normalize_axis(e.attrs().integer("axis"), shape.rank()));
  const std::uint64_t inner = shape.elements(axis + 1, shape.rank());
  const std::uint64_t columns = shape.elements(axis, axis + 1);
  const std::uint64_t rows = count / columns;
  const RowSchedule schedule = row_schedule(e, rows, columns, inner);
  const push::SoftmaxPush push = {.rows = static_cast<std::uint32_t>(rows),
                                  .columns = static_cast<std::uint32_t>(columns),
                                  .inner = static_cast<std::uint32_t>(inner)};
  e.dispatch(kernel, {schedule.slices, schedule.rows_first, schedule.vector, log}, std::move(bindings), push,
             e.spread(schedule.workgroups));
  return ok_status();
}

Status emit(Emitter& e) {
  return emit_rows(e, shaders::KernelId::softmax__f32, e.node().op == Op::log_softmax, {e.in(0), e.out()});
}

Status emit_grad(Emitter& e) {
  return emit_rows(e, shaders::KernelId::softmax_grad__f32, e.attrs().flag("log"), {e.in(0), e.in(1), e.out()});
}

Status vjp(VjpContext& c) {
  const std::int64_t log = c.node().op == Op::log_softmax ? 1 : 0;
  c.grad(0, c.b.node(Op::softmax_grad, {c.out(), c.dy()}, {{"axis", c.attrs().integer("axis")}, {"log", log}}));
  return ok_status();
}

// With g the cotangent of dx. softmax: by dy it is the same map of g; by y, g (dy - sum y dy) - dy sum y g.
// log_softmax: by dy g - sum exp(y) g; by y, -g exp(y) sum dy.
Status vjp_grad(VjpContext& c) {
  const Attrs attrs = c.attrs();
  const std::int64_t axis = attrs.integer("axis");
  Builder& b = c.b;
  const ValueId y = c.in(0);
  const ValueId dy = c.in(1);
  const ValueId g = c.dy();
  if (!attrs.flag("log")) {
    if (c.needs(1)) c.grad(1, b.node(Op::softmax_grad, {y, g}, Attrs(attrs)));
    if (!c.needs(0)) return ok_status();
    const ValueId first = b.mul(g, b.sub(dy, b.reduce_sum(b.mul(y, dy), {axis}, true)));
    c.grad(0, b.sub(first, b.mul(dy, b.reduce_sum(b.mul(y, g), {axis}, true))));
    return ok_status();
  }
  const ValueId weighted = b.mul(g, b.node(Op::exp, {y}));
  if (c.needs(1)) c.grad(1, b.sub(g, b.reduce_sum(weighted, {axis}, true)));
  if (c.needs(0)) c.grad(0, b.neg(b.mul(weighted, b.reduce_sum(dy, {axis}, true))));
  return ok_status();
}

// A subtraction, an exponential, an addition and a division per element, by the usual convention.
std::uint64_t flops(const Graph& graph, const Node& node) { return 4 * graph.value(node.outputs[0]).shape.elements(); }

}  // namespace

#define SOFTMAX(name_)                         \
  extern const OpDef op_##name_;               \
  const OpDef op_##name_ = {.name = #name_,    \
                            .attrs = kSoftmax, \
                            .infer = infer,    \
                            .emit = emit,      \
                            .gradient = vjp,   \
                            .flops = flops,    \
                            .inplace_inputs = 0b1};

SOFTMAX(softmax)
SOFTMAX(log_softmax)

/// softmax_grad(y, dy; axis, log) -> dx.
extern const OpDef op_softmax_grad;
const OpDef op_softmax_grad = {.name = "softmax_grad",
                               .attrs = kGrad,
                               .min_inputs = 2,
                               .max_inputs = 2,
                               .infer = infer_grad,
                               .emit = emit_grad,
                               .gradient = vjp_grad,
                               .flops = flops,
                               .inplace_inputs = 0b11};

}  // namespace graft::ops::softmax
