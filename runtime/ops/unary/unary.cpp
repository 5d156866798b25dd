#include <algorithm>
#include <cmath>

#include "runtime/core/op_id.gen.h"
#include "runtime/core/vjp.h"
#include "runtime/ops/choice.h"
#include "runtime/ops/elementwise.h"
#include "runtime/ops/fused_program.h"
#include "runtime/ops/unary/unary_table.h"
#include "shaders/kernels.gen.h"
#include "shaders/unary/unary_push.h"

namespace graft::ops::unary {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// ONNX's defaults.
constexpr AttrSpec kLeakyRelu[] = {attr::number("alpha", 0.01)};
constexpr AttrSpec kAlpha[] = {attr::number("alpha", 1)};
// Klambauer et al., Self-Normalizing Neural Networks (2017): alpha and the outer factor.
constexpr AttrSpec kSelu[] = {attr::number("alpha", 1.67326319217681884765625),
                              attr::number("gamma", 1.05070102214813232421875)};
constexpr AttrSpec kHardSigmoid[] = {attr::number("alpha", 0.2), attr::number("beta", 0.5)};
constexpr AttrSpec kAffine[] = {attr::number("alpha", 1), attr::number("beta")};
constexpr AttrSpec kApproximate[] = {attr::text("approximate", "none")};
constexpr AttrSpec kMinMax[] = {attr::number("min", -kInfinity), attr::number("max", kInfinity)};
// With those of the forward op, whose defaults hold.
constexpr AttrSpec kGrad[] = {attr::integer("fn").needed(), attr::number("alpha"), attr::number("beta"),
                              attr::number("gamma"),        attr::number("min"),   attr::number("max"),
                              attr::text("approximate")};

Status infer_float(InferContext& c) {
  GRAFT_TRY(c.expect_dtype(0, DType::f32));
  c.output(DType::f32, c.shape(0));
  return ok_status();
}

Status infer_celu(InferContext& c) {
  if (c.attrs().number("alpha") == 0) return invalid("The attribute \"alpha\" of celu is 0, and celu divides by it.");
  return infer_float(c);
}

Status infer_gelu(InferContext& c) {
  const std::string approximate = c.attrs().text("approximate");
  if (approximate != "none" && approximate != "tanh") {
    return invalid("The attribute \"approximate\" is \"", approximate, "\"; \"none\" and \"tanh\" are known.");
  }
  return infer_float(c);
}

// Functions that integers have too; their parameters must then be integers.
Status infer_signed(InferContext& c) {
  if (c.dtype(0) == DType::i32) {
    for (const auto& item : c.attrs().items()) {
      const double number = c.attrs().number(item.first);
      if (number == std::trunc(number) && std::abs(number) <= 2147483648.0) continue;
      return invalid("The attribute \"", item.first, "\" is ", number,
                     "; for a tensor of type i32 it must be an integer.");
    }
  } else {
    GRAFT_TRY(c.expect_dtype(0, DType::f32));
  }
  c.output(c.dtype(0), c.shape(0));
  return ok_status();
}

Status infer_not(InferContext& c) {
  GRAFT_TRY(c.expect_dtype(0, DType::boolean));
  c.output(DType::boolean, c.shape(0));
  return ok_status();
}

Status infer_test(InferContext& c) {
  GRAFT_TRY(c.expect_dtype(0, DType::f32));
  c.output(DType::boolean, c.shape(0));
  return ok_status();
}

push::UnaryPush make_push(Op op, const Attrs& attrs) {
  const unary::Params params = unary::params(op, attrs);
  const auto to_int = [](double x) {
    return std::isnan(x) ? 0 : static_cast<std::int32_t>(std::clamp(x, -2147483648.0, 2147483647.0));
  };
  return {.count = 0,
          .alpha = static_cast<float>(params.alpha),
          .beta = static_cast<float>(params.beta),
          .int_alpha = to_int(params.alpha),
          .int_beta = to_int(params.beta)};
}

Status emit_unary(Emitter& e) {
  const Op op = e.node().op;
  const std::uint64_t count = e.out_shape().elements();
  GRAFT_TRY(count32(count, "output"));
  const bool words = e.in_dtype(0) != DType::f32;
  const std::uint32_t fn = unary::function(op, e.attrs()).fn;
  const bool few = !words && is_frequent(fn) && !is_avoided(e.target(), shaders::KernelId::unary__f32_few);
  const shaders::KernelId kernel = words ? shaders::KernelId::unary__i32
                                   : few ? shaders::KernelId::unary__f32_few
                                         : shaders::KernelId::unary__f32;
  emit_flat(e, kernel, {fn}, {e.in(0), e.out()}, make_push(op, e.attrs()), count);
  return ok_status();
}

// The fused gradient; x or y is passed on only where the slope needs it, so that the other is not kept alive.
ValueId fused(VjpContext& c, ValueId x, ValueId y) {
  Attrs attrs = c.attrs();
  attrs.set("fn", static_cast<std::int64_t>(c.node().op));
  return c.b.node(Op::unary_grad, {x, y, c.dy()}, std::move(attrs));
}

Status vjp_unary(VjpContext& c) {
  using enum unary::Slope;
  const Op op = c.node().op;
  switch (unary::function(op, c.attrs()).slope) {
    case none: break;  // piecewise constant: no contribution
    case constant:
      c.grad(0, op == Op::neg ? c.b.neg(c.dy()) : c.b.scale(c.dy(), unary::params(op, c.attrs()).alpha));
      break;
    case of_x: c.grad(0, fused(c, c.in(0), kNoValue)); break;
    case of_y: c.grad(0, fused(c, kNoValue, c.out())); break;
  }
  return ok_status();
}

// The derivative of the slope with respect to the value that it is written in (v); kNoValue for zero.
Result<ValueId> slope_of_slope(Builder& b, Op op, ValueId v) {
  const auto minus_squared_reciprocal = [&](ValueId x) {
    return b.neg(b.node(Op::square, {b.node(Op::reciprocal, {x})}));
  };
  switch (op) {
    case Op::abs:
    case Op::relu:
    case Op::leaky_relu:
    case Op::hard_sigmoid:
    case Op::thresholded_relu:
    case Op::clip: return kNoValue;
    case Op::exp:
    case Op::expm1: return b.full(Shape(b.shape(v)), 1);
    case Op::square: return b.full(Shape(b.shape(v)), 2);
    case Op::log: return minus_squared_reciprocal(v);
    case Op::log1p: return minus_squared_reciprocal(b.affine(v, 1, 1));
    case Op::sqrt: return b.scale(minus_squared_reciprocal(v), 0.5);
    case Op::rsqrt: return b.scale(b.node(Op::square, {v}), -1.5);
    case Op::reciprocal:
    case Op::tanh: return b.scale(v, -2);
    case Op::tan: return b.scale(v, 2);
    case Op::sin:
    case Op::cos: return b.neg(b.node(op, {v}));
    case Op::sinh:
    case Op::cosh: return b.node(op, {v});
    case Op::sigmoid: return b.affine(v, -2, 1);
    case Op::softplus: {
      const ValueId s = b.node(Op::sigmoid, {v});
      return b.mul(s, b.affine(s, -1, 1));
    }
    default: return unsupported("The second derivative of ", op_def(op).name, " is not implemented.");
  }
}

Status infer_grad(InferContext& c) {
  const std::int64_t fn = c.attrs().integer("fn");
  if (fn < 0 || fn >= static_cast<std::int64_t>(Op::unary_grad)) return invalid("The attribute \"fn\" is no unary op.");
  GRAFT_TRY(c.expect_dtype(2, DType::f32));
  for (std::size_t i = 0; i < 2; ++i) {
    if (!c.has(i)) continue;
    GRAFT_TRY(c.expect_dtype(i, DType::f32));
    GRAFT_TRY(c.expect_shape(i, c.shape(2)));
  }
  const auto slope = unary::function(static_cast<Op>(fn), c.attrs()).slope;
  if (slope == unary::Slope::of_x && !c.has(0)) return invalid("Its input 0, the forward input, is missing.");
  if (slope == unary::Slope::of_y && !c.has(1)) return invalid("Its input 1, the forward output, is missing.");
  c.output(DType::f32, c.shape(2));
  return ok_status();
}

Status emit_grad(Emitter& e) {
  using enum unary::Slope;
  const Op op = static_cast<Op>(e.attrs().integer("fn"));
  const auto function = unary::function(op, e.attrs());
  const std::uint64_t count = e.out_shape().elements();
  GRAFT_TRY(count32(count, "output"));
  const std::size_t saved = function.slope == of_x ? 0 : (function.slope == of_y ? 1 : 2);
  emit_flat(e, shaders::KernelId::unary_grad__f32, {function.fn}, {e.in(saved), e.in(2), e.out()},
            make_push(op, e.attrs()), count);
  return ok_status();
}

Status vjp_grad(VjpContext& c) {
  const Op op = static_cast<Op>(c.attrs().integer("fn"));
  const std::size_t saved = unary::function(op, c.attrs()).slope == unary::Slope::of_y ? 1 : 0;
  if (c.needs(2)) c.grad(2, c.b.node(Op::unary_grad, {c.in(0), c.in(1), c.dy()}, Attrs(c.attrs())));
  if (!c.needs(saved)) return ok_status();
  GRAFT_TRY_ASSIGN(const ValueId second, slope_of_slope(c.b, op, c.in(saved)));
  if (second.valid()) c.grad(saved, c.b.mul(second, c.b.mul(c.in(2), c.dy())));
  return ok_status();
}

constexpr OpDef unary_op(std::string_view name, std::span<const AttrSpec> attrs, Status (*infer)(InferContext&),
                         Gradient gradient) {
  return {
      .name = name, .attrs = attrs, .infer = infer, .emit = emit_unary, .gradient = gradient, .inplace_inputs = 0b1};
}

}  // namespace

#define UNARY(name_, ...)        \
  extern const OpDef op_##name_; \
  constexpr OpDef op_##name_ = unary_op(#name_, __VA_ARGS__);
#define UNARY_FLOAT(name_) UNARY(name_, {}, infer_float, vjp_unary)

UNARY_FLOAT(exp)
UNARY_FLOAT(expm1)
UNARY_FLOAT(log)
UNARY_FLOAT(log1p)
UNARY_FLOAT(sqrt)
UNARY_FLOAT(rsqrt)
UNARY_FLOAT(reciprocal)
UNARY_FLOAT(square)
UNARY_FLOAT(sin)
UNARY_FLOAT(cos)
UNARY_FLOAT(tan)
UNARY_FLOAT(asin)
UNARY_FLOAT(acos)
UNARY_FLOAT(atan)
UNARY_FLOAT(sinh)
UNARY_FLOAT(cosh)
UNARY_FLOAT(tanh)
UNARY_FLOAT(asinh)
UNARY_FLOAT(acosh)
UNARY_FLOAT(atanh)
UNARY_FLOAT(sigmoid)
UNARY_FLOAT(relu)
UNARY_FLOAT(silu)
UNARY_FLOAT(hard_swish)
UNARY_FLOAT(mish)
UNARY_FLOAT(softplus)
UNARY_FLOAT(softsign)
UNARY_FLOAT(erf)
UNARY_FLOAT(floor)
UNARY_FLOAT(ceil)
UNARY_FLOAT(round)
UNARY(leaky_relu, kLeakyRelu, infer_float, vjp_unary)
UNARY(elu, kAlpha, infer_float, vjp_unary)
UNARY(celu, kAlpha, infer_celu, vjp_unary)
UNARY(selu, kSelu, infer_float, vjp_unary)
UNARY(gelu, kApproximate, infer_gelu, vjp_unary)
UNARY(hard_sigmoid, kHardSigmoid, infer_float, vjp_unary)
UNARY(thresholded_relu, kAlpha, infer_float, vjp_unary)
UNARY(neg, {}, infer_signed, vjp_unary)
UNARY(abs, {}, infer_signed, vjp_unary)
UNARY(sign, {}, infer_signed, vjp_unary)
UNARY(affine, kAffine, infer_signed, vjp_unary)
UNARY(clip, kMinMax, infer_signed, vjp_unary)
UNARY(logical_not, {}, infer_not, NoGrad{"its result is a truth value"})
UNARY(is_nan, {}, infer_test, NoGrad{"its result is a truth value"})
UNARY(is_inf, {}, infer_test, NoGrad{"its result is a truth value"})

/// unary_grad(x?, y?, dy; fn, the forward's attributes) -> dx.
extern const OpDef op_unary_grad;
const OpDef op_unary_grad = {.name = "unary_grad",
                             .attrs = kGrad,
                             .min_inputs = 3,
                             .max_inputs = 3,
                             .optional_inputs = 0b011,
                             .infer = infer_grad,
                             .emit = emit_grad,
                             .gradient = vjp_grad,
                             .inplace_inputs = 0b111};

}  // namespace graft::ops::unary
