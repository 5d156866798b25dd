// GRU over a whole sequence, one direction; the products of its inputs with W, and biases, are ordinary nodes.
#include "runtime/core/op_id.gen.h"
#include "runtime/ops/rnn/recurrence.h"

namespace graft::ops::rnn {
namespace {

constexpr std::int64_t kGruGates = 3;  // update, reset, hidden
constexpr AttrSpec kGruAttrs[] = {kReverseAttr, kActivationsAttr, kClipAttr, attr::integer("linear_before_reset")};

// Places of the states, each [rows, hidden].
enum GruForward : std::uint64_t { kGruH, kResetH, kUpdate, kGruForwardPlaces };
enum GruBackward : std::uint64_t {
  kGruPassing,
  kFactors,                      // of all three gates, or of update and reset
  kHiddenFactor = kFactors + 2,  // and of the hidden gate
  kGruBackwardPlaces = kFactors + kGruGates
};

bool resets_product(const Attrs& attrs) { return attrs.flag("linear_before_reset"); }

Status infer_gru(InferContext& c) {
  GRAFT_TRY(read_cell(c.attrs(), kGruActivations));
  GRAFT_TRY_ASSIGN(const Shape y, check_gates(c, kGruGates));
  GRAFT_TRY(check_optional(c, 2, {y[1], y[2]}));
  GRAFT_TRY(check_lengths(c, 3, y[1]));
  GRAFT_TRY(check_optional(c, 4, {y[2]}));
  if (c.has(4) && !resets_product(c.attrs())) {
    return invalid("It has a bias of the hidden gate's product without linear_before_reset; it belongs to the gates.");
  }
  for (const Shape& shape : {y, Shape{y[1], y[2]}, c.shape(0), y}) c.output(DType::f32, shape);
  return ok_status();
}

/// R whole, or its parts for update and reset, and for the hidden gate.
struct GruWeights {
  Binding first;
  Binding hidden;
};
Result<GruWeights> gru_weights(Recurrence& r, const Binding& whole, bool resets) {
  if (resets) return GruWeights{whole, whole};
  const std::uint64_t square = r.hidden() * r.hidden();
  GRAFT_TRY_ASSIGN(const Binding first, r.part_of_r(whole, 0, 2 * square));
  GRAFT_TRY_ASSIGN(const Binding hidden, r.part_of_r(whole, 2 * square, square));
  return GruWeights{first, hidden};
}

Status emit_gru(Emitter& e) {
  GRAFT_TRY_ASSIGN(const Cell cell, read_cell(e.attrs(), kGruActivations));
  GRAFT_TRY_ASSIGN(Recurrence r, Recurrence::make(e, e.out_shape(), kGruGates, cell, kGruForwardPlaces, kGruGates));
  if (r.empty()) return ok_status();
  const bool resets = resets_product(e.attrs());
  GRAFT_TRY_ASSIGN(const GruWeights weights, gru_weights(r, e.in(1), resets));
  GRAFT_TRY(r.load({{kGruH, optional_in(e, 2)}}));
  constexpr StepKernel kKernel = {shaders::KernelId::gru_step__f32, shaders::KernelId::gru_step__f32_quads};
  const std::vector<StepTensor> tensors = {{e.in(0), true, kGruGates},
                                           {in_or(e, 3, r.nothing()), false},
                                           {in_or(e, 4, r.nothing()), false},
                                           {e.out(2), true, kGruGates},
                                           {e.out(0)},
                                           {e.out(3)}};
  const std::uint32_t flags = e.has(4) ? kHasBias : 0;
  const std::uint64_t first_gates = resets ? kGruGates : 2;
  for (std::uint64_t k = 0; k < r.steps(); ++k) {
    const std::uint32_t product = k > 0 || e.has(2) ? kHasProduct : 0;  // else the state is zero
    if (product != 0) GRAFT_TRY(r.multiply(kGruH, weights.first, r.hidden(), first_gates * r.hidden(), true));
    r.step(kKernel, r.time(k), flags | product, resets, e.has(3), tensors);
    if (resets) continue;
    if (product != 0) GRAFT_TRY(r.multiply(kResetH, weights.hidden, r.hidden(), r.hidden(), true));
    r.step(kKernel, r.time(k), flags | product | kSecondPhase, resets, e.has(3), tensors);
  }
  return r.store(kGruH, e.out(1));
}

Status vjp_gru(VjpContext& c) {
  if (c.cotangent(2).valid() || c.cotangent(3).valid()) {
    return unsupported("What gru saves beside its results cannot be differentiated through.");
  }
  const bool resets = resets_product(c.attrs());
  const auto grads =
      c.b.nodes(Op::gru_grad, {c.in(1), c.out(2), c.out(3), c.out(0), c.in(2), c.in(3), c.cotangent(0), c.cotangent(1)},
                c.attrs());
  GRAFT_TRY(c.b.status());
  c.grad(0, grads[0]);
  if (c.in(2).valid()) c.grad(2, grads[1]);
  const std::int64_t hidden = c.out_shape()[2].value();
  if (c.in(4).valid() && c.needs(4)) {
    c.grad(4, c.b.reduce_sum(last_axis_part(c, grads[3], 2 * hidden, hidden), {0, 1}, false));
  }
  if (!c.needs(1)) return c.b.status();
  if (resets) {
    c.grad(1, sum_of_products(c, grads[3], grads[2]));
    return c.b.status();
  }
  const std::vector<ValueId> parts = {sum_of_products(c, last_axis_part(c, grads[0], 0, 2 * hidden), grads[2]),
                                      sum_of_products(c, last_axis_part(c, grads[0], 2 * hidden, hidden), c.out(3))};
  c.grad(1, c.b.node(Op::concat, parts, {{"axis", std::int64_t{0}}}));
  return c.b.status();
}

// --- gru_grad(r, saved, inner, y, h0?, lengths?, dy?, dy_h?)

Status infer_gru_grad(InferContext& c) {
  GRAFT_TRY(read_cell(c.attrs(), kGruActivations));
  for (const std::size_t i : {0, 1, 2, 3}) GRAFT_TRY(c.expect_dtype(i, DType::f32));
  GRAFT_TRY(c.expect_rank(3, 3));
  const Shape y = c.shape(3);
  const Shape row = {y[1], y[2]};
  GRAFT_TRY_ASSIGN(const std::int64_t hidden, c.constant_dim(3, 2));
  GRAFT_TRY(c.expect_shape(0, {kGruGates * hidden, hidden}));
  GRAFT_TRY(c.expect_shape(1, {y[0], y[1], kGruGates * hidden}));
  GRAFT_TRY(c.expect_shape(2, y));
  GRAFT_TRY(check_optional(c, 4, row));
  GRAFT_TRY(check_lengths(c, 5, y[1]));
  GRAFT_TRY(check_optional(c, 6, y));
  GRAFT_TRY(check_optional(c, 7, row));
  for (const Shape& shape : {c.shape(1), row, y}) c.output(DType::f32, shape);
  if (resets_product(c.attrs())) c.output(DType::f32, c.shape(1));
  return ok_status();
}

Status emit_gru_grad(Emitter& e) {
  GRAFT_TRY_ASSIGN(const Cell cell, read_cell(e.attrs(), kGruActivations));
  GRAFT_TRY_ASSIGN(Recurrence r, Recurrence::make(e, e.in_shape(3), kGruGates, cell, kGruBackwardPlaces, 1));
  if (r.empty()) return ok_status();
  const bool resets = resets_product(e.attrs());
  GRAFT_TRY_ASSIGN(const GruWeights weights, gru_weights(r, e.in(0), resets));
  GRAFT_TRY(r.emit_before(e.in(3), optional_in(e, 4), optional_in(e, 5), e.out(2)));
  GRAFT_TRY(r.load({{kGruPassing, optional_in(e, 7)}}));
  constexpr StepKernel kKernel = {shaders::KernelId::gru_grad_step__f32, shaders::KernelId::gru_grad_step__f32_quads};
  Binding before = e.out(2);
  before.access = Access::read;
  const std::vector<StepTensor> tensors = {{in_or(e, 6, e.in(3))},
                                           {e.in(1), true, kGruGates},
                                           {e.in(2)},
                                           {before},
                                           {in_or(e, 5, r.nothing()), false},
                                           {e.out(0), true, kGruGates},
                                           {e.out(resets ? 3 : 0), true, kGruGates}};
  const std::uint32_t flags = e.has(6) ? kHasDy : 0;
  const std::uint64_t first_gates = resets ? kGruGates : 2;
  const auto multiply = [&] {
    return r.multiply(kFactors, weights.first, first_gates * r.hidden(), r.hidden(), false);
  };
  for (std::uint64_t k = r.steps(); k-- > 0;) {
    const bool is_last = k + 1 == r.steps();
    if (!is_last) GRAFT_TRY(multiply());
    r.step(kKernel, r.time(k), flags | (is_last ? 0 : kHasProduct), resets, e.has(5), tensors);
    if (resets) continue;
    GRAFT_TRY(r.multiply(kHiddenFactor, weights.hidden, r.hidden(), r.hidden(), false));
    r.step(kKernel, r.time(k), flags | kHasProduct | kSecondPhase, resets, e.has(5), tensors);
  }
  if (r.steps() > 0) {
    GRAFT_TRY(multiply());
    r.step(kKernel, r.time(0), flags | kHasProduct | kFinish, resets, e.has(5), tensors);
  }
  return r.store(kGruPassing, e.out(1));
}

std::uint64_t gru_flops(const Graph& g, const Node& n) {
  return recurrence_flops(g.value(n.outputs[0]).shape, kGruGates, 25);
}
std::uint64_t gru_grad_flops(const Graph& g, const Node& n) {
  return recurrence_flops(g.value(n.inputs[3]).shape, kGruGates, 30);
}

}  // namespace

/// gru(gates, r, h0?, lengths?, bias?; reverse, activations, clip, linear_before_reset) -> y, y_h, saved gates, inner.
/// gates [steps, rows, 3 * hidden] are X W^T + bias, in ONNX's order: update, reset, hidden. bias [hidden]: of the
/// hidden gate's product with the state, where the reset gate comes behind that. inner [steps, rows, hidden]: that
/// product, or the state times the reset gate.
extern const OpDef op_gru;
const OpDef op_gru = {.name = "gru",
                      .attrs = kGruAttrs,
                      .min_inputs = 2,
                      .max_inputs = 5,
                      .optional_inputs = 0b11100,
                      .infer = infer_gru,
                      .emit = emit_gru,
                      .gradient = vjp_gru,
                      .flops = gru_flops};

/// gru_grad(...) -> dgates, dh0, the h before each step, and with linear_before_reset the gradients of the products.
extern const OpDef op_gru_grad;
const OpDef op_gru_grad = {.name = "gru_grad",
                           .attrs = kGruAttrs,
                           .min_inputs = 8,
                           .max_inputs = 8,
                           .optional_inputs = 0b11110000,
                           .infer = infer_gru_grad,
                           .emit = emit_gru_grad,
                           .gradient = NoGrad{"it is itself a gradient"},
                           .flops = gru_grad_flops};

}  // namespace graft::ops::rnn
