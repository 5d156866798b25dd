// gated(gate, up; activation) -> activation(gate) * up, the middle of a gated feed-forward layer: SwiGLU with silu,
// GeGLU with gelu (by erf) or gelu_tanh. Equal shapes. N. Shazeer, "GLU Variants Improve Transformer", 2020.
#include <algorithm>

#include "runtime/core/op_id.gen.h"
#include "runtime/core/vjp.h"
#include "runtime/ops/elementwise.h"
#include "shaders/gated/gated_push.h"
#include "shaders/kernels.gen.h"

namespace graft::ops::gated {
namespace {

constexpr AttrSpec kAttrs[] = {attr::text("activation", "silu")};
constexpr std::string_view kActivations[] = {"silu", "gelu", "gelu_tanh"};  // numbers as in gated.glsl

std::uint32_t activation_of(const Attrs& attrs) {
  const std::string name = attrs.text("activation");
  return static_cast<std::uint32_t>(std::ranges::find(kActivations, name) - std::begin(kActivations));
}

Status check(InferContext& c) {
  for (std::size_t i = 0; i < c.inputs(); ++i) {
    GRAFT_TRY(c.expect_dtype(i, DType::f32));
    GRAFT_TRY(c.expect_shape(i, c.shape(0)));
  }
  if (activation_of(c.attrs()) < std::size(kActivations)) return ok_status();
  return invalid("The attribute \"activation\" is \"", c.attrs().text("activation"),
                 "\"; it must be silu, gelu or gelu_tanh.");
}

Status infer(InferContext& c) {
  GRAFT_TRY(check(c));
  c.output(DType::f32, c.shape(0));
  return ok_status();
}

Status infer_grad(InferContext& c) {
  GRAFT_TRY(check(c));
  c.output(DType::f32, c.shape(0));
  c.output(DType::f32, c.shape(0));
  return ok_status();
}

Status emit_kernel(Emitter& e, shaders::KernelId kernel, const std::vector<Binding>& bindings) {
  const std::uint64_t count = e.out_shape().elements();
  GRAFT_TRY(count32(count, "output"));
  emit_flat(e, kernel, {activation_of(e.attrs())}, bindings, push::GatedPush{}, count);
  return ok_status();
}

Status emit(Emitter& e) { return emit_kernel(e, shaders::KernelId::gated__f32, {e.in(0), e.in(1), e.out()}); }

Status emit_grad(Emitter& e) {
  return emit_kernel(e, shaders::KernelId::gated_grad__f32, {e.in(0), e.in(1), e.in(2), e.out(0), e.out(1)});
}

Status vjp(VjpContext& c) {
  const auto gradients = c.b.nodes(Op::gated_grad, {c.in(0), c.in(1), c.dy()}, Attrs(c.attrs()));
  GRAFT_TRY(c.b.status());
  if (c.needs(0)) c.grad(0, gradients[0]);
  if (c.needs(1)) c.grad(1, gradients[1]);
  return ok_status();
}

}  // namespace

extern const OpDef op_gated;
const OpDef op_gated = {.name = "gated",
                        .attrs = kAttrs,
                        .min_inputs = 2,
                        .max_inputs = 2,
                        .infer = infer,
                        .emit = emit,
                        .gradient = vjp,
                        .inplace_inputs = 0b11};

/// gated_grad(gate, up, dy; activation) -> dgate, dup.
extern const OpDef op_gated_grad;
const OpDef op_gated_grad = {.name = "gated_grad",
                             .attrs = kAttrs,
                             .min_inputs = 3,
                             .max_inputs = 3,
                             .infer = infer_grad,
                             .emit = emit_grad,
                             .gradient = NoGrad{"the second derivative of the fused gate is not implemented"},
                             .inplace_inputs = 0b111};

}  // namespace graft::ops::gated
