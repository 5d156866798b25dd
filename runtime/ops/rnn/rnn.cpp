// The simple recurrent layer over a whole sequence, one direction: h = f(gates + R h).
#include "runtime/core/op_id.gen.h"
#include "runtime/ops/rnn/recurrence.h"

namespace graft::ops::rnn {
namespace {

constexpr AttrSpec kRnnAttrs[] = {kReverseAttr, kActivationsAttr, kClipAttr};
constexpr AttrSpec kRnnGradAttrs[] = {kReverseAttr, kActivationsAttr, kClipAttr, attr::integer("weight_gradient")};

// Places of the states, each [rows, hidden].
enum RnnForward : std::uint64_t { kRnnH, kRnnForwardPlaces };
enum RnnBackward : std::uint64_t { kRnnPassing, kRnnDGates, kRnnBackwardPlaces };

Status infer_rnn(InferContext& c) {
  GRAFT_TRY(read_cell(c.attrs(), kRnnActivations));
  GRAFT_TRY_ASSIGN(const Shape y, check_gates(c, 1));
  GRAFT_TRY(check_optional(c, 2, {y[1], y[2]}));
  GRAFT_TRY(check_lengths(c, 3, y[1]));
  for (const Shape& shape : {y, Shape{y[1], y[2]}, y}) c.output(DType::f32, shape);
  return ok_status();
}

Status emit_rnn(Emitter& e) {
  GRAFT_TRY_ASSIGN(const Cell cell, read_cell(e.attrs(), kRnnActivations));
  GRAFT_TRY_ASSIGN(Recurrence r, Recurrence::make(e, e.out_shape(), 1, cell, kRnnForwardPlaces, 1));
  if (r.empty()) return ok_status();
  GRAFT_TRY(r.load({{kRnnH, optional_in(e, 2)}}));
  constexpr StepKernel kKernel = {shaders::KernelId::rnn_step__f32, shaders::KernelId::rnn_step__f32_quads};
  const std::vector<StepTensor> tensors = {{e.in(0)}, {in_or(e, 3, r.nothing()), false}, {e.out(2)}, {e.out(0)}};
  for (std::uint64_t k = 0; k < r.steps(); ++k) {
    const bool multiplies = k > 0 || e.has(2);
    if (multiplies) GRAFT_TRY(r.multiply(kRnnH, e.in(1), r.hidden(), r.hidden(), true));
    r.step(kKernel, r.time(k), multiplies ? kHasProduct : 0, 0, e.has(3), tensors);
  }
  return r.store(kRnnH, e.out(1));
}

Status vjp_rnn(VjpContext& c) {
  if (c.cotangent(2).valid()) {
    return unsupported("What rnn saves beside its results cannot be differentiated through.");
  }
  Attrs attrs = c.attrs();
  attrs.set("weight_gradient", std::int64_t{c.needs(1)});
  const auto grads =
      c.b.nodes(Op::rnn_grad,
                {c.in(1), c.out(2), c.needs(1) ? c.out(0) : kNoValue, c.in(2), c.in(3), c.cotangent(0), c.cotangent(1)},
                std::move(attrs));
  GRAFT_TRY(c.b.status());
  c.grad(0, grads[0]);
  if (c.needs(1)) c.grad(1, sum_of_products(c, grads[0], grads[2]));
  if (c.in(2).valid()) c.grad(2, grads[1]);
  return c.b.status();
}

// --- rnn_grad(r, saved, y?, h0?, lengths?, dy?, dy_h?)

Status infer_rnn_grad(InferContext& c) {
  GRAFT_TRY(read_cell(c.attrs(), kRnnActivations));
  for (const std::size_t i : {0, 1}) GRAFT_TRY(c.expect_dtype(i, DType::f32));
  GRAFT_TRY(c.expect_rank(1, 3));
  const Shape y = c.shape(1);
  const Shape row = {y[1], y[2]};
  GRAFT_TRY(c.expect_shape(0, {y[2], y[2]}));
  for (const std::size_t i : {2, 5}) GRAFT_TRY(check_optional(c, i, y));
  for (const std::size_t i : {3, 6}) GRAFT_TRY(check_optional(c, i, row));
  GRAFT_TRY(check_lengths(c, 4, y[1]));
  for (const Shape& shape : {y, row}) c.output(DType::f32, shape);
  if (!c.attrs().flag("weight_gradient")) return ok_status();
  if (!c.has(2)) return invalid("The gradient of R needs the results, input 2.");
  c.output(DType::f32, y);
  return ok_status();
}

Status emit_rnn_grad(Emitter& e) {
  GRAFT_TRY_ASSIGN(const Cell cell, read_cell(e.attrs(), kRnnActivations));
  GRAFT_TRY_ASSIGN(Recurrence r, Recurrence::make(e, e.in_shape(1), 1, cell, kRnnBackwardPlaces, 1));
  if (r.empty()) return ok_status();
  GRAFT_TRY(r.load({{kRnnPassing, optional_in(e, 6)}}));
  constexpr StepKernel kKernel = {shaders::KernelId::rnn_grad_step__f32, shaders::KernelId::rnn_grad_step__f32_quads};
  const std::vector<StepTensor> tensors = {
      {in_or(e, 5, e.in(1))}, {e.in(1)}, {in_or(e, 4, r.nothing()), false}, {e.out(0)}};
  const std::uint32_t flags = e.has(5) ? kHasDy : 0;
  for (std::uint64_t k = r.steps(); k-- > 0;) {
    const bool is_last = k + 1 == r.steps();
    if (!is_last) GRAFT_TRY(r.multiply(kRnnDGates, e.in(0), r.hidden(), r.hidden(), false));
    r.step(kKernel, r.time(k), flags | (is_last ? 0 : kHasProduct), 0, e.has(4), tensors);
  }
  if (r.steps() > 0) {
    GRAFT_TRY(r.multiply(kRnnDGates, e.in(0), r.hidden(), r.hidden(), false));
    r.step(kKernel, r.time(0), kHasProduct | kFinish, 0, e.has(4), tensors);
  }
  GRAFT_TRY(r.store(kRnnPassing, e.out(1)));
  if (!e.attrs().flag("weight_gradient")) return ok_status();
  return r.emit_before(e.in(2), optional_in(e, 3), optional_in(e, 4), e.out(2));
}

std::uint64_t rnn_flops(const Graph& g, const Node& n) { return recurrence_flops(g.value(n.outputs[0]).shape, 1, 10); }

}  // namespace

/// rnn(gates, r, h0?, lengths?; reverse, activations, clip) -> y, y_h, saved. gates [steps, rows, hidden] are
/// X W^T + bias.
extern const OpDef op_rnn;
const OpDef op_rnn = {.name = "rnn",
                      .attrs = kRnnAttrs,
                      .min_inputs = 2,
                      .max_inputs = 4,
                      .optional_inputs = 0b1100,
                      .infer = infer_rnn,
                      .emit = emit_rnn,
                      .gradient = vjp_rnn,
                      .flops = rnn_flops};

/// rnn_grad(...) -> dgates, dh0, and with weight_gradient the h before each step.
extern const OpDef op_rnn_grad;
const OpDef op_rnn_grad = {.name = "rnn_grad",
                           .attrs = kRnnGradAttrs,
                           .min_inputs = 7,
                           .max_inputs = 7,
                           .optional_inputs = 0b1111100,
                           .infer = infer_rnn_grad,
                           .emit = emit_rnn_grad,
                           .gradient = NoGrad{"it is itself a gradient"},
                           .flops = rnn_flops};

}  // namespace graft::ops::rnn
