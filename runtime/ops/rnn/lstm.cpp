// LSTM over a whole sequence, one direction; the products of its inputs with W, and biases, are ordinary nodes.
#include <cmath>

#include "runtime/core/op_id.gen.h"
#include "runtime/ops/rnn/recurrence.h"

namespace graft::ops::rnn {
namespace {

constexpr std::int64_t kLstmGates = 4;  // input, output, forget, cell
constexpr AttrSpec kInputForgetAttr = attr::integer("input_forget");
constexpr AttrSpec kCellClipAttr = attr::number("cell_clip").at_least(0);
constexpr AttrSpec kLstmAttrs[] = {kReverseAttr, kActivationsAttr, kClipAttr, kInputForgetAttr, kCellClipAttr};
constexpr AttrSpec kLstmGradAttrs[] = {kReverseAttr,
                                       kActivationsAttr,
                                       kClipAttr,
                                       kInputForgetAttr,
                                       kCellClipAttr,
                                       attr::integer("weight_gradient"),
                                       attr::integer("peephole_gradient")};

// Places of the states, each [rows, hidden].
enum Forward : std::uint64_t { kH, kC, kForwardPlaces };
enum Backward : std::uint64_t { kPassing, kDc, kFirstC, kDGates, kBackwardPlaces = kDGates + kLstmGates };

/// kOption of the kernels.
std::uint32_t option(const Attrs& attrs) {
  return (attrs.flag("input_forget") ? 1u : 0u) | (attrs.number("cell_clip") > 0 ? 2u : 0u);
}

/// A cell that is limited, and whatever goes into activations if `clip` is given.
Result<Cell> read_lstm_cell(const Attrs& attrs) {
  GRAFT_TRY_ASSIGN(Cell cell, read_cell(attrs, kLstmActivations));
  const double limit = attrs.number("cell_clip");
  if (limit > 0 && cell.clip > 0) return unsupported("It has both clip and cell_clip, and one is supported.");
  cell.state_clip = limit;
  return cell;
}

Status infer_lstm(InferContext& c) {
  GRAFT_TRY(read_lstm_cell(c.attrs()));
  GRAFT_TRY_ASSIGN(const Shape y, check_gates(c, kLstmGates));
  const Shape row = {y[1], y[2]};
  for (const std::size_t i : {2, 3}) GRAFT_TRY(check_optional(c, i, row));
  GRAFT_TRY(check_lengths(c, 4, y[1]));
  GRAFT_TRY(check_optional(c, 5, {3 * y[2].value()}));
  for (const Shape& shape : {y, row, row, c.shape(0), y}) c.output(DType::f32, shape);
  return ok_status();
}

Status emit_lstm(Emitter& e) {
  GRAFT_TRY_ASSIGN(const Cell cell, read_lstm_cell(e.attrs()));
  GRAFT_TRY_ASSIGN(Recurrence r, Recurrence::make(e, e.out_shape(), kLstmGates, cell, kForwardPlaces, kLstmGates));
  if (r.empty()) return ok_status();
  GRAFT_TRY(r.load({{kH, optional_in(e, 2)}, {kC, optional_in(e, 3)}}));
  constexpr StepKernel kKernel = {shaders::KernelId::lstm_step__f32, shaders::KernelId::lstm_step__f32_quads};
  const std::vector<StepTensor> tensors = {{e.in(0), true, kLstmGates},
                                           {in_or(e, 4, r.nothing()), false},
                                           {in_or(e, 5, r.nothing()), false},
                                           {e.out(3), true, kLstmGates},
                                           {e.out(0)},
                                           {e.out(4)}};
  const std::uint32_t peepholes = e.has(5) ? kHasPeepholes : 0;
  for (std::uint64_t k = 0; k < r.steps(); ++k) {
    const bool multiplies = k > 0 || e.has(2);
    if (multiplies) GRAFT_TRY(r.multiply(kH, e.in(1), r.hidden(), kLstmGates * r.hidden(), true));
    r.step(kKernel, r.time(k), peepholes | (multiplies ? kHasProduct : 0), option(e.attrs()), e.has(4), tensors);
  }
  GRAFT_TRY(r.store(kH, e.out(1)));
  return r.store(kC, e.out(2));
}

Status vjp_lstm(VjpContext& c) {
  if (c.cotangent(3).valid() || c.cotangent(4).valid()) {
    return unsupported("The gates and cells that lstm saves beside its results cannot be differentiated through.");
  }
  const bool weight = c.needs(1);
  const bool peepholes = c.in(5).valid() && c.needs(5);
  Attrs attrs = c.attrs();
  attrs.set("weight_gradient", std::int64_t{weight});
  attrs.set("peephole_gradient", std::int64_t{peepholes});
  const auto grads = c.b.nodes(Op::lstm_grad,
                               {c.in(1), c.out(3), c.out(4), weight ? c.out(0) : kNoValue, c.in(2), c.in(3), c.in(4),
                                c.in(5), c.cotangent(0), c.cotangent(1), c.cotangent(2)},
                               std::move(attrs));
  GRAFT_TRY(c.b.status());
  c.grad(0, grads[0]);
  if (weight) c.grad(1, sum_of_products(c, grads[0], grads[3]));
  if (c.in(2).valid()) c.grad(2, grads[1]);
  if (c.in(3).valid()) c.grad(3, grads[2]);
  if (!peepholes) return c.b.status();
  // The input's and the forget gate's see the cell before the step, the output's the one behind it.
  const std::int64_t hidden = c.out_shape()[2].value();
  const ValueId before = grads.back();
  const auto part = [&](std::int64_t gate, ValueId cells) {
    return c.b.reduce_sum(c.b.mul(last_axis_part(c, grads[0], gate * hidden, hidden), cells), {0, 1}, false);
  };
  const std::vector<ValueId> parts = {part(0, before), part(1, c.out(4)), part(2, before)};
  c.grad(5, c.b.node(Op::concat, parts, {{"axis", std::int64_t{0}}}));
  return c.b.status();
}

// --- lstm_grad(r, saved, cells, y?, h0?, c0?, lengths?, peepholes?, dy?, dy_h?, dy_c?)

Status infer_lstm_grad(InferContext& c) {
  GRAFT_TRY(read_lstm_cell(c.attrs()));
  for (const std::size_t i : {0, 1, 2}) GRAFT_TRY(c.expect_dtype(i, DType::f32));
  GRAFT_TRY(c.expect_rank(2, 3));
  const Shape y = c.shape(2);
  const Shape row = {y[1], y[2]};
  GRAFT_TRY_ASSIGN(const std::int64_t hidden, c.constant_dim(2, 2));
  GRAFT_TRY(c.expect_shape(0, {kLstmGates * hidden, hidden}));
  GRAFT_TRY(c.expect_shape(1, {y[0], y[1], kLstmGates * hidden}));
  for (const std::size_t i : {3, 8}) GRAFT_TRY(check_optional(c, i, y));
  for (const std::size_t i : {4, 5, 9, 10}) GRAFT_TRY(check_optional(c, i, row));
  GRAFT_TRY(check_lengths(c, 6, y[1]));
  GRAFT_TRY(check_optional(c, 7, {3 * hidden}));
  for (const Shape& shape : {c.shape(1), row, row}) c.output(DType::f32, shape);
  if (c.attrs().flag("weight_gradient")) {
    if (!c.has(3)) return invalid("The gradient of R needs the results, input 3.");
    c.output(DType::f32, y);
  }
  if (c.attrs().flag("peephole_gradient")) c.output(DType::f32, y);
  return ok_status();
}

Status emit_lstm_grad(Emitter& e) {
  GRAFT_TRY_ASSIGN(const Cell cell, read_lstm_cell(e.attrs()));
  const Shape& y = e.in_shape(2);
  GRAFT_TRY_ASSIGN(Recurrence r, Recurrence::make(e, y, kLstmGates, cell, kBackwardPlaces, 1));
  if (r.empty()) return ok_status();
  GRAFT_TRY(r.load({{kPassing, optional_in(e, 9)}, {kDc, optional_in(e, 10)}, {kFirstC, optional_in(e, 5)}}));
  constexpr StepKernel kKernel = {shaders::KernelId::lstm_grad_step__f32, shaders::KernelId::lstm_grad_step__f32_quads};
  std::vector<StepTensor> tensors = {{in_or(e, 8, e.in(2))},
                                     {e.in(1), true, kLstmGates},
                                     {e.in(2)},
                                     {e.in(2)},
                                     {in_or(e, 6, r.nothing()), false},
                                     {in_or(e, 7, r.nothing()), false},
                                     {e.out(0), true, kLstmGates}};
  const std::uint32_t flags = (e.has(8) ? kHasDy : 0) | (e.has(7) ? kHasPeepholes : 0);
  for (std::uint64_t k = r.steps(); k-- > 0;) {
    const bool is_last = k + 1 == r.steps();
    if (!is_last) GRAFT_TRY(r.multiply(kDGates, e.in(0), kLstmGates * r.hidden(), r.hidden(), false));
    tensors[3].time = r.time(k == 0 ? 0 : k - 1);
    r.step(kKernel, r.time(k), flags | (is_last ? 0 : kHasProduct) | (k == 0 ? kIsFirst : 0), option(e.attrs()),
           e.has(6), tensors);
  }
  if (r.steps() > 0) {
    GRAFT_TRY(r.multiply(kDGates, e.in(0), kLstmGates * r.hidden(), r.hidden(), false));
    r.step(kKernel, r.time(0), flags | kHasProduct | kFinish, option(e.attrs()), e.has(6), tensors);
  }
  GRAFT_TRY(r.store(kPassing, e.out(1)));
  GRAFT_TRY(r.store(kDc, e.out(2)));
  std::size_t next = 3;
  if (e.attrs().flag("weight_gradient")) {
    GRAFT_TRY(r.emit_before(e.in(3), optional_in(e, 4), optional_in(e, 6), e.out(next++)));
  }
  // Cells beyond a sequence's end hold what was before its first step, so lengths do not matter.
  if (!e.attrs().flag("peephole_gradient")) return ok_status();
  return r.emit_before(e.in(2), optional_in(e, 5), std::nullopt, e.out(next));
}

std::uint64_t lstm_flops(const Graph& g, const Node& n) {
  return recurrence_flops(g.value(n.outputs[0]).shape, kLstmGates, 30);
}
std::uint64_t lstm_grad_flops(const Graph& g, const Node& n) {
  return recurrence_flops(g.value(n.inputs[2]).shape, kLstmGates, 40);
}

}  // namespace

/// lstm(gates, r, h0?, c0?, lengths?, peepholes?; reverse, activations, clip, input_forget, cell_clip)
///   -> y, y_h, y_c, saved gates, cells.
/// clip limits what goes into the gates' activations (as ONNX Runtime), cell_clip the cell behind each step (TFLite's);
/// one of the two at most. gates [steps, rows, 4 * hidden] are X W^T + bias, in ONNX's order: input, output, forget,
/// cell. r [4 * hidden, hidden]. y [steps, rows, hidden] is zero beyond a row's length; y_h, y_c [rows, hidden] are the
/// state behind the last step.
extern const OpDef op_lstm;
const OpDef op_lstm = {.name = "lstm",
                       .attrs = kLstmAttrs,
                       .min_inputs = 2,
                       .max_inputs = 6,
                       .optional_inputs = 0b111100,
                       .infer = infer_lstm,
                       .emit = emit_lstm,
                       .gradient = vjp_lstm,
                       .flops = lstm_flops};

/// lstm_grad(...) -> dgates, dh0, dc0, and with weight_gradient the h before each step, with peephole_gradient the c.
extern const OpDef op_lstm_grad;
const OpDef op_lstm_grad = {.name = "lstm_grad",
                            .attrs = kLstmGradAttrs,
                            .min_inputs = 11,
                            .max_inputs = 11,
                            .optional_inputs = 0b11111111000,
                            .infer = infer_lstm_grad,
                            .emit = emit_lstm_grad,
                            .gradient = NoGrad{"it is itself a gradient"},
                            .flops = lstm_grad_flops};

}  // namespace graft::ops::rnn
