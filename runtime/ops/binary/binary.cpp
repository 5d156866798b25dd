#include "runtime/core/op_id.gen.h"
#include "runtime/ops/binary/binary_table.h"

#include "runtime/core/vjp.h"
#include "runtime/ops/elementwise.h"
#include "shaders/kernels.gen.h"

namespace graft::ops::binary {
namespace {

constexpr AttrSpec kFmod[] = {attr::integer("fmod")};
constexpr AttrSpec kGrad[] = {attr::integer("fn").needed(), attr::integer("wrt").needed().within(0, 1),
                              attr::integer("fmod")};

Status expect_same_types(InferContext& c) {
  if (c.dtype(0) == c.dtype(1)) return ok_status();
  return invalid("Its inputs are of types ", dtype_name(c.dtype(0)), " and ", dtype_name(c.dtype(1)),
                 "; they must be the same.");
}

Status infer_broadcast(InferContext& c, DType out) {
  GRAFT_TRY_ASSIGN(Shape shape, broadcast(c.shape(0), c.shape(1)));
  c.output(out, std::move(shape));
  return ok_status();
}

Status expect_number(InferContext& c) {
  GRAFT_TRY(expect_same_types(c));
  if (c.dtype(0) == DType::f32 || c.dtype(0) == DType::i32) return ok_status();
  return invalid("Its inputs are of type ", dtype_name(c.dtype(0)), "; f32 or i32 is needed.");
}

Status infer_arithmetic(InferContext& c) {
  GRAFT_TRY(expect_number(c));
  return infer_broadcast(c, c.dtype(0));
}

Status infer_prelu(InferContext& c) {
  GRAFT_TRY(infer_arithmetic(c));
  if (c.results()[0].shape == c.shape(0)) return ok_status();
  return invalid("The slope of shape ", c.shape(1).text(), " does not broadcast to ", c.shape(0).text(), ".");
}

Status infer_order(InferContext& c) {
  GRAFT_TRY(expect_number(c));
  return infer_broadcast(c, DType::boolean);
}

Status infer_equality(InferContext& c) {
  if (c.dtype(0) != DType::boolean) return infer_order(c);
  GRAFT_TRY(expect_same_types(c));
  return infer_broadcast(c, DType::boolean);
}

Status infer_logical(InferContext& c) {
  GRAFT_TRY(c.expect_dtype(0, DType::boolean));
  GRAFT_TRY(c.expect_dtype(1, DType::boolean));
  return infer_broadcast(c, DType::boolean);
}

Status infer_integers(InferContext& c) {
  GRAFT_TRY(c.expect_dtype(0, DType::i32));
  GRAFT_TRY(c.expect_dtype(1, DType::i32));
  return infer_broadcast(c, DType::i32);
}

Status emit_binary(Emitter& e) {
  const bool floats = e.in_dtype(0) == DType::f32;
  return emit_broadcast(e, floats ? shaders::KernelId::binary__f32 : shaders::KernelId::binary__i32,
                        binary::function(e.node().op, e.attrs()), 2);
}

Status vjp_add(VjpContext& c) {
  c.grad(0, c.dy());
  c.grad(1, c.dy());
  return ok_status();
}

Status vjp_sub(VjpContext& c) {
  c.grad(0, c.dy());
  if (c.needs(1)) c.grad(1, c.b.neg(c.dy()));
  return ok_status();
}

Status vjp_mul(VjpContext& c) {
  if (c.needs(0)) c.grad(0, c.b.mul(c.dy(), c.in(1)));
  if (c.needs(1)) c.grad(1, c.b.mul(c.dy(), c.in(0)));
  return ok_status();
}

ValueId fused(VjpContext& c, std::int64_t wrt) {
  Attrs attrs = c.attrs();
  attrs.set("fn", static_cast<std::int64_t>(c.node().op));
  attrs.set("wrt", wrt);
  return c.b.node(Op::binary_grad, {c.in(0), c.in(1), c.dy()}, std::move(attrs));
}

Status vjp_div(VjpContext& c) {
  if (c.needs(0)) c.grad(0, c.b.div(c.dy(), c.in(1)));
  if (c.needs(1)) c.grad(1, fused(c, 1));
  return ok_status();
}

Status vjp_fused(VjpContext& c) {
  for (std::size_t i = 0; i < 2; ++i) {
    if (c.needs(i)) c.grad(i, fused(c, static_cast<std::int64_t>(i)));
  }
  return ok_status();
}

Status infer_grad(InferContext& c) {
  const auto fn = c.attrs().integer("fn");
  const bool known = fn == static_cast<std::int64_t>(Op::pow) || fn == static_cast<std::int64_t>(Op::maximum) ||
                     fn == static_cast<std::int64_t>(Op::minimum) || fn == static_cast<std::int64_t>(Op::prelu) ||
                     fn == static_cast<std::int64_t>(Op::div) || fn == static_cast<std::int64_t>(Op::remainder);
  if (!known) return invalid("The attribute \"fn\" names no op with a fused gradient.");
  for (std::size_t i = 0; i < 3; ++i) GRAFT_TRY(c.expect_dtype(i, DType::f32));
  GRAFT_TRY_ASSIGN(const Shape shape, broadcast(c.shape(0), c.shape(1)));
  GRAFT_TRY(c.expect_shape(2, shape));
  c.output(DType::f32, shape);
  return ok_status();
}

Status emit_grad(Emitter& e) {
  const auto fn = binary::function(static_cast<Op>(e.attrs().integer("fn")), e.attrs());
  const auto wrt = static_cast<std::uint32_t>(e.attrs().integer("wrt"));
  return emit_broadcast(e, shaders::KernelId::binary_grad__f32, 2 * fn + wrt, 3);
}

Status vjp_grad(VjpContext& c) {
  if (c.needs(2)) c.grad(2, c.b.node(Op::binary_grad, {c.in(0), c.in(1), c.dy()}, Attrs(c.attrs())));
  if (!c.needs(0) && !c.needs(1)) return ok_status();
  const Op op = static_cast<Op>(c.attrs().integer("fn"));
  return unsupported("The second derivative of ", op_def(op).name, " is not implemented.");
}

constexpr OpDef binary_op(std::string_view name, std::span<const AttrSpec> attrs, Status (*infer)(InferContext&),
                          Gradient gradient) {
  return {.name = name,
          .attrs = attrs,
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer,
          .emit = emit_binary,
          .gradient = gradient,
          .inplace_inputs = 0b11};
}

}  // namespace

#define BINARY(name_, ...)       \
  extern const OpDef op_##name_; \
  constexpr OpDef op_##name_ = binary_op(#name_, __VA_ARGS__);

BINARY(add, {}, infer_arithmetic, vjp_add)
BINARY(sub, {}, infer_arithmetic, vjp_sub)
BINARY(mul, {}, infer_arithmetic, vjp_mul)
BINARY(div, {}, infer_arithmetic, vjp_div)
BINARY(pow, {}, infer_arithmetic, vjp_fused)
BINARY(maximum, {}, infer_arithmetic, vjp_fused)
BINARY(minimum, {}, infer_arithmetic, vjp_fused)
BINARY(remainder, kFmod, infer_arithmetic, vjp_fused)
BINARY(prelu, {}, infer_prelu, vjp_fused)
BINARY(equal, {}, infer_equality, NoGrad{"its result is a truth value"})
BINARY(not_equal, {}, infer_equality, NoGrad{"its result is a truth value"})
BINARY(less, {}, infer_order, NoGrad{"its result is a truth value"})
BINARY(less_equal, {}, infer_order, NoGrad{"its result is a truth value"})
BINARY(greater, {}, infer_order, NoGrad{"its result is a truth value"})
BINARY(greater_equal, {}, infer_order, NoGrad{"its result is a truth value"})
BINARY(logical_and, {}, infer_logical, NoGrad{"its result is a truth value"})
BINARY(logical_or, {}, infer_logical, NoGrad{"its result is a truth value"})
BINARY(logical_xor, {}, infer_logical, NoGrad{"its result is a truth value"})
// Shifts by less than 0 or more than 31 bits leave 0, or the sign where they go right.
BINARY(bitwise_and, {}, infer_integers, NoGrad{"its result are integers"})
BINARY(bitwise_or, {}, infer_integers, NoGrad{"its result are integers"})
BINARY(bitwise_xor, {}, infer_integers, NoGrad{"its result are integers"})
BINARY(shift_left, {}, infer_integers, NoGrad{"its result are integers"})
BINARY(shift_right, {}, infer_integers, NoGrad{"its result are integers"})

/// binary_grad(a, b, dy; fn, wrt, the forward's attributes) -> dy * d fn / d (a or b), of dy's shape.
extern const OpDef op_binary_grad;
const OpDef op_binary_grad = {.name = "binary_grad",
                              .attrs = kGrad,
                              .min_inputs = 3,
                              .max_inputs = 3,
                              .infer = infer_grad,
                              .emit = emit_grad,
                              .gradient = vjp_grad,
                              .inplace_inputs = 0b111};

}  // namespace graft::ops::binary
