#include <cmath>

#include "runtime/core/op_id.gen.h"
#include "runtime/core/vjp.h"
#include "runtime/ops/elementwise.h"
#include "runtime/ops/movement.h"
#include "shaders/dropout/dropout_push.h"
#include "shaders/kernels.gen.h"

namespace graft::ops::dropout {
namespace {

constexpr AttrSpec kAttrs[] = {attr::number("p", 0.5).within(0, 1), attr::flag("training"),
                               attr::integer("stream").within(0, UINT32_MAX)};
constexpr double kWords = 4294967296.0;  // as many as a random word has values

Status infer(InferContext& c) {
  GRAFT_TRY(c.expect_dtype(0, DType::f32));
  c.output(DType::f32, c.shape(0));
  return ok_status();
}

Status emit(Emitter& e) {
  const std::uint64_t count = e.out_shape().elements();
  GRAFT_TRY(count32(count, "output"));
  const double p = e.attrs().number("p");
  const double threshold = std::round(p * kWords);
  if (!e.attrs().flag("training") || threshold == 0) return emit_copy(e, e.in(0), e.out(), count);
  if (threshold == kWords) return emit_fill(e, e.out(), count, 0);
  const push::DropoutPush push = {.count = 0,
                                  .first = 0,
                                  .threshold = static_cast<std::uint32_t>(threshold),
                                  .stream = static_cast<std::uint32_t>(e.attrs().integer("stream")),
                                  .scale = static_cast<float>(1 / (1 - p))};
  emit_flat(e, shaders::KernelId::dropout__f32, {}, {e.step_state(), e.in(0), e.out()}, push, count, 0b001);
  return ok_status();
}

Status vjp(VjpContext& c) {
  const bool identity = !c.attrs().flag("training") || c.attrs().number("p") == 0;
  c.grad(0, identity ? c.dy() : c.b.node(Op::dropout_grad, {c.dy()}, Attrs(c.attrs())));
  return ok_status();
}

}  // namespace

/// dropout(x; p, training, stream) -> x / (1 - p) where kept, 0 elsewhere; x itself outside of training.
extern const OpDef op_dropout;
const OpDef op_dropout = {.name = "dropout",
                          .attrs = kAttrs,
                          .infer = infer,
                          .emit = emit,
                          .gradient = vjp,
                          .inplace_inputs = 0b1,
                          .uses_step_state = true};

/// dropout_grad(dy; the same) -> dx with the same mask, generated anew.
extern const OpDef op_dropout_grad;
const OpDef op_dropout_grad = {.name = "dropout_grad",
                               .attrs = kAttrs,
                               .infer = infer,
                               .emit = emit,
                               .gradient = vjp,
                               .inplace_inputs = 0b1,
                               .uses_step_state = true};

}  // namespace graft::ops::dropout
