#include "runtime/core/op_id.gen.h"
#include "runtime/core/vjp.h"
#include "runtime/ops/elementwise.h"
#include "runtime/ops/movement.h"
#include "shaders/ctc/ctc_loss_push.h"
#include "shaders/kernels.gen.h"

namespace graft::ops::ctc {
namespace {

constexpr AttrSpec kAttrs[] = {attr::integer("blank"), attr::integer("zero_infinity")};

Status check(InferContext& c) {
  GRAFT_TRY(c.expect_dtype(0, DType::f32));
  GRAFT_TRY(c.expect_dtype(1, DType::i32));
  GRAFT_TRY(c.expect_rank(0, 3));
  GRAFT_TRY(c.expect_rank(1, 2));
  const Dim& classes = c.shape(0)[2];
  if (c.shape(0)[0] != c.shape(1)[0]) {
    return invalid("The log probabilities ", c.shape(0).text(), " and the labels ", c.shape(1).text(),
                   " are of different numbers of samples.");
  }
  const std::int64_t blank = c.attrs().integer("blank");
  if (blank < 0 || (classes.is_constant() && blank >= classes.value())) {
    return invalid("The attribute \"blank\" is ", blank, ", but there are ", classes.text(), " classes.");
  }
  return ok_status();
}

Shape samples_of(InferContext& c) { return Shape(std::vector<Dim>{c.shape(0)[0]}); }

Status infer(InferContext& c) {
  GRAFT_TRY(check(c));
  c.output(DType::f32, samples_of(c));
  return ok_status();
}

Status infer_grad(InferContext& c) {
  GRAFT_TRY(check(c));
  GRAFT_TRY(c.expect_dtype(2, DType::f32));
  GRAFT_TRY(c.expect_shape(2, samples_of(c)));
  c.output(DType::f32, c.shape(0));
  return ok_status();
}

/// Errors where a tensor exceeds one binding.
Result<push::CtcLossPush> push_of(Emitter& e, std::uint64_t rows_of_alpha) {
  const Shape& x = e.in_shape(0);
  const auto length = static_cast<std::uint64_t>(e.in_shape(1)[1].value());
  const auto samples = static_cast<std::uint64_t>(x[0].value());
  const std::uint64_t most = max_bound_elements(e.caps()), states = 2 * length + 1;
  const std::uint64_t alpha = states > most || samples > most ? most + 1 : samples * states;
  if (x.elements() > most || alpha > most / std::max<std::uint64_t>(rows_of_alpha, 4)) {
    return unsupported("CTC over log probabilities of shape ", x.text(), " and ", length,
                       " labels needs tensors of more than ", most,
                       " elements, the limit of one binding on this device.");
  }
  return push::CtcLossPush{.samples = static_cast<std::uint32_t>(samples),
                           .steps = static_cast<std::uint32_t>(x[1].value()),
                           .classes = static_cast<std::uint32_t>(x[2].value()),
                           .most_labels = static_cast<std::uint32_t>(length),
                           .blank = static_cast<std::uint32_t>(e.attrs().integer("blank")),
                           .zero_infinity = e.attrs().flag("zero_infinity"),
                           .rows = static_cast<std::uint32_t>(rows_of_alpha)};
}

Slot rows_of_states(Emitter& e, const push::CtcLossPush& push, std::uint64_t rows) {
  return e.scratch(4 * rows * push.samples * (2 * std::uint64_t{push.most_labels} + 1));
}

Status emit(Emitter& e) {
  if (e.out_shape().elements() == 0) return ok_status();
  GRAFT_TRY_ASSIGN(const push::CtcLossPush push, push_of(e, 2));
  // Each group writes its rows before it reads them: nothing of before is read.
  const Binding alpha = {rows_of_states(e, push, push.rows), Access::write};
  e.dispatch(shaders::KernelId::ctc_loss__f32, {}, {e.in(0), e.in(1), alpha, e.out()}, push, e.spread(push.samples));
  return ok_status();
}

Status emit_grad(Emitter& e) {
  if (e.out_shape().elements() == 0) return ok_status();
  GRAFT_TRY_ASSIGN(const push::CtcLossPush push,
                   push_of(e, static_cast<std::uint64_t>(std::max<std::int64_t>(e.in_shape(0)[1].value(), 1))));
  const Binding alpha = {rows_of_states(e, push, push.rows), Access::write};
  const Binding rows = {rows_of_states(e, push, 4), Access::write};
  e.dispatch(shaders::KernelId::ctc_loss_grad__f32, {}, {e.in(0), e.in(1), alpha, e.in(2), e.out(), rows}, push,
             e.spread(push.samples));
  return ok_status();
}

Status vjp(VjpContext& c) {
  c.grad(0, c.b.node(Op::ctc_loss_grad, {c.in(0), c.in(1), c.dy()}, Attrs(c.attrs())));
  return ok_status();
}

std::uint64_t flops(const Graph& graph, const Node& node) {
  const Shape& x = graph.value(node.inputs[0]).shape;
  const Shape& labels = graph.value(node.inputs[1]).shape;
  if (!x.is_constant() || !labels.is_constant()) return 0;
  return 10 * x.elements(0, 2) * (2 * labels.elements(1, 2) + 1);
}

}  // namespace

/// ctc_loss(log_probs [samples, time, classes], labels i32 [samples, length]; blank, zero_infinity) -> loss [samples],
/// each over the number of its labels, as torch.nn.functional.ctc_loss with reduction "mean" takes the mean of. Labels
/// end at the first below 0.
extern const OpDef op_ctc_loss, op_ctc_loss_grad;
const OpDef op_ctc_loss = {.name = "ctc_loss",
                           .attrs = kAttrs,
                           .min_inputs = 2,
                           .max_inputs = 2,
                           .infer = infer,
                           .emit = emit,
                           .gradient = vjp,
                           .flops = flops};

/// ctc_loss_grad(log_probs, labels, dloss [samples]; the same) -> dlog_probs: the paths are computed anew, never
/// stored.
const OpDef op_ctc_loss_grad = {.name = "ctc_loss_grad",
                                .attrs = kAttrs,
                                .min_inputs = 3,
                                .max_inputs = 3,
                                .infer = infer_grad,
                                .emit = emit_grad,
                                .gradient = NoGrad{"the second derivative of the loss is not implemented"},
                                .flops = flops};

}  // namespace graft::ops::ctc
