#include <algorithm>

#include "runtime/core/op_id.gen.h"
#include "runtime/core/vjp.h"
#include "runtime/ops/elementwise.h"
#include "runtime/ops/rows.h"
#include "shaders/cross_entropy/cross_entropy_push.h"
#include "shaders/kernels.gen.h"

namespace graft::ops::cross_entropy {
namespace {

constexpr AttrSpec kAttrs[] = {attr::integer("ignore_index", -100), attr::number("label_smoothing").within(0, 1)};

// Checks logits, labels and attributes; the shape of the labels is that of the losses.
Status check(InferContext& c) {
  GRAFT_TRY(c.expect_dtype(0, DType::f32));
  GRAFT_TRY(c.expect_dtype(1, DType::i32));
  const Shape& logits = c.shape(0);
  if (logits.rank() == 0) return invalid("The logits are a scalar; an axis of classes is needed.");
  if (logits.back() == Dim(0)) return invalid("The logits of shape ", logits.text(), " have no classes.");
  return c.expect_shape(1, Shape(std::vector<Dim>(logits.begin(), logits.end() - 1)));
}

Status infer(InferContext& c) {
  GRAFT_TRY(check(c));
  c.output(DType::f32, c.shape(1));
  return ok_status();
}

Status infer_grad(InferContext& c) {
  GRAFT_TRY(check(c));
  GRAFT_TRY(c.expect_dtype(2, DType::f32));
  GRAFT_TRY(c.expect_shape(2, c.shape(1)));
  c.output(DType::f32, c.shape(0));
  return ok_status();
}

Status emit_kernel(Emitter& e, shaders::KernelId kernel, std::vector<Binding> bindings) {
  const Shape& logits = e.in_shape(0);
  const std::uint64_t rows = e.in_shape(1).elements();
  if (rows == 0) return ok_status();
  if (logits.elements() > max_bound_elements(e.caps())) {
    return unsupported("Logits of shape ", logits.text(), " exceed ", max_bound_elements(e.caps()),
                       " elements, the limit of one binding on this device.");
  }
  const auto columns = static_cast<std::uint64_t>(logits.back().value());
  const RowSchedule schedule = row_schedule(e, rows, columns, 1);
  // Labels have 32 bits: an ignored index beyond that ignores nothing, and a number of 32 bits stands for it.
  const std::int64_t ignore = std::clamp<std::int64_t>(e.attrs().integer("ignore_index"), INT32_MIN, INT32_MAX);
  const push::CrossEntropyPush push = {.rows = static_cast<std::uint32_t>(rows),
                                       .columns = static_cast<std::uint32_t>(columns),
                                       .inner = 1,
                                       .ignore_index = static_cast<std::int32_t>(ignore),
                                       .smoothing = static_cast<float>(e.attrs().number("label_smoothing"))};
  e.dispatch(kernel, {schedule.slices, schedule.rows_first, schedule.vector}, std::move(bindings), push,
             e.spread(schedule.workgroups));
  return ok_status();
}

Status emit(Emitter& e) { return emit_kernel(e, shaders::KernelId::cross_entropy__f32, {e.in(0), e.in(1), e.out()}); }

Status emit_grad(Emitter& e) {
  return emit_kernel(e, shaders::KernelId::cross_entropy_grad__f32, {e.in(0), e.in(1), e.in(2), e.out()});
}

Status vjp(VjpContext& c) {
  c.grad(0, c.b.node(Op::cross_entropy_grad, {c.in(0), c.in(1), c.dy()}, Attrs(c.attrs())));
  return ok_status();
}

std::uint64_t flops(const Graph& graph, const Node& node) {
  return 4 * graph.value(node.inputs[0]).shape.elements();  // as softmax
}

}  // namespace

/// cross_entropy(logits [.., C], labels i32 [..]; ignore_index, label_smoothing) -> loss per row [..].
/// As torch.nn.functional.cross_entropy with reduction "none".
extern const OpDef op_cross_entropy;
const OpDef op_cross_entropy = {.name = "cross_entropy",
                                .attrs = kAttrs,
                                .min_inputs = 2,
                                .max_inputs = 2,
                                .infer = infer,
                                .emit = emit,
                                .gradient = vjp,
                                .flops = flops};

/// cross_entropy_grad(logits, labels, dloss [..]; the same) -> dlogits: the softmax is computed anew, never stored.
extern const OpDef op_cross_entropy_grad;
const OpDef op_cross_entropy_grad = {.name = "cross_entropy_grad",
                                     .attrs = kAttrs,
                                     .min_inputs = 3,
                                     .max_inputs = 3,
                                     .infer = infer_grad,
                                     .emit = emit_grad,
                                     .gradient = NoGrad{"the second derivative of the fused loss is not implemented"},
                                     .flops = flops,
                                     .inplace_inputs = 0b1};

}  // namespace graft::ops::cross_entropy
