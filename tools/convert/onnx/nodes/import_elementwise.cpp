// Elementwise ops.
#include <array>
#include <cmath>
#include <limits>

#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/import/import.h"

namespace graft::convert {
namespace {

Status float_only(NodeContext& c, std::size_t i = 0) {
  if (is_float(c.type(i))) return {};
  return unsupported("its input is ", elem_name(c.type(i)), ", and only floats are supported");
}

Status unary(NodeContext& c) {
  const bool integers = c.target == Op::neg || c.target == Op::abs || c.target == Op::sign;
  if (c.node.op == "Relu" && is_integer(c.type(0))) {
    c.out(0, c.emit(Op::maximum, {c.in(0), c.full(Shape{}, 0, DType::i32)}));
    return {};
  }
  if (!(integers && is_integer(c.type(0)))) GRAFT_TRY(float_only(c));
  c.out(0, c.kept_in(c.emit(c.target, {c.in(0)}), c.type(0)));
  return {};
}

/// Attributes of an activation that have graft's names as well, and what they are by default.
struct ActivationAttr {
  Op op;
  std::string_view name;
  double fallback;
};
constexpr ActivationAttr kActivationAttrs[] = {
    {Op::leaky_relu, "alpha", 0.01},
    {Op::elu, "alpha", 1.0},
    {Op::selu, "alpha", 1.67326319217681884765625},
    {Op::selu, "gamma", 1.05070102214813232421875},
    {Op::celu, "alpha", 1.0},
    {Op::hard_sigmoid, "alpha", 0.2},
    {Op::hard_sigmoid, "beta", 0.5},
    {Op::thresholded_relu, "alpha", 1.0},
};

Status activation(NodeContext& c) {
  GRAFT_TRY(float_only(c));
  Attrs attrs;
  for (const ActivationAttr& attr : kActivationAttrs) {
    if (attr.op == c.target) attrs.set(attr.name, c.attr_number(attr.name, attr.fallback));
  }
  c.out(0, c.emit(c.target, {c.in(0)}, attrs));
  return {};
}

Status gelu(NodeContext& c) {
  GRAFT_TRY(float_only(c));
  const std::string approximate = c.attr_text("approximate", "none");
  if (approximate != "none" && approximate != "tanh")
    return corrupt("its attribute approximate is \"", approximate, "\"");
  c.out(0, c.emit(Op::gelu, {c.in(0)}, {{"approximate", approximate}}));
  return {};
}

Status swish(NodeContext& c) {
  GRAFT_TRY(float_only(c));
  const ValueId x = c.in(0);
  const double alpha = c.attr_number("alpha", 1.0);
  if (alpha == 1.0) {
    c.out(0, c.emit(Op::silu, {x}));
    return {};
  }
  const ValueId gate = c.emit(Op::sigmoid, {c.emit(Op::affine, {x}, {{"alpha", alpha}, {"beta", 0.0}})});
  c.out(0, c.emit(Op::mul, {x, gate}));
  return {};
}

Status shrink(NodeContext& c) {
  GRAFT_TRY(float_only(c));
  const double bias = c.attr_number("bias", 0.0);
  const double lambda = c.attr_number("lambd", 0.5);
  const ValueId x = c.in(0);
  // x - bias above lambda, x + bias below -lambda, 0 between.
  const ValueId zero = c.constant(HostTensor::scalar(0));
  const ValueId above = c.emit(Op::greater, {x, c.constant(HostTensor::scalar(static_cast<float>(lambda)))});
  const ValueId below = c.emit(Op::less, {x, c.constant(HostTensor::scalar(static_cast<float>(-lambda)))});
  const ValueId low = c.emit(Op::where, {below, c.emit(Op::affine, {x}, {{"alpha", 1.0}, {"beta", bias}}), zero});
  const ValueId high = c.emit(Op::affine, {x}, {{"alpha", 1.0}, {"beta", -bias}});
  c.out(0, c.emit(Op::where, {above, high, low}));
  return {};
}

Status logical_not(NodeContext& c) {
  c.out(0, c.emit(Op::logical_not, {c.in(0)}));
  return {};
}

Status is_nan(NodeContext& c) {
  GRAFT_TRY(float_only(c));
  c.out_typed(0, c.emit(Op::is_nan, {c.in(0)}), ElemType::boolean);
  return {};
}

Status is_inf(NodeContext& c) {
  GRAFT_TRY(float_only(c));
  const bool negative = c.attr("detect_negative", 1) != 0;
  const bool positive = c.attr("detect_positive", 1) != 0;
  const ValueId x = c.in(0);
  ValueId found = c.emit(Op::is_inf, {x});
  if (!negative || !positive) {
    const Op side = positive ? Op::greater : Op::less;
    found = c.emit(Op::logical_and, {found, c.emit(side, {x, c.constant(HostTensor::scalar(0))})});
    if (!negative && !positive) found = c.emit(Op::logical_and, {found, c.emit(Op::logical_not, {found})});
  }
  c.out_typed(0, found, ElemType::boolean);
  return {};
}

/// Operands of different types would silently be mixed: f16 and f32 are both f32 here.
Status same_types(const NodeContext& c) {
  for (std::size_t i = 1; i < c.inputs(); ++i) {
    if (!c.has(i)) return corrupt("its input ", i, " is missing");
    if (c.type(i) != c.type(0)) {
      return corrupt("its operands are ", elem_name(c.type(0)), " and ", elem_name(c.type(i)));
    }
  }
  return {};
}

/// Opset 6: `axis` says where the second operand's axes stand among the first's.
Result<std::vector<ValueId>> operands(NodeContext& c) {
  if (c.opset < 7 && c.has_attr("axis") && c.rank(1) < c.rank(0)) {
    GRAFT_TRY_ASSIGN(const std::size_t axis, c.axis(c.attr("axis", 0), c.rank(0)));
    if (axis + c.rank(1) > c.rank(0)) return corrupt("its axis ", axis, " leaves no room for the second operand");
    std::vector<Dim> dims(c.shape(1).begin(), c.shape(1).end());
    dims.resize(c.rank(0) - axis, Dim(1));
    return std::vector<ValueId>{c.in(0), c.reshape(c.in(1), Shape(std::move(dims)))};
  }
  return std::vector<ValueId>{c.in(0), c.in(1)};
}

/// x op constant scalar as one affine node: fewer passes, and a cheaper gradient.
bool scalar_affine(NodeContext& c) {
  const auto scalar = [&](std::size_t i) {
    return c.host(i) && !c.record(i).trainable && c.host(i)->count() == 1 && c.rank(i) <= c.rank(1 - i);
  };
  if (!is_float(c.type(0)) || (c.host(0) && c.host(1))) return false;
  double alpha = 1, beta = 0;
  std::size_t x = 0;
  if (scalar(1)) {
    const double value = c.host(1)->floats[0];
    if (c.node.op == "Add") beta = value;
    if (c.node.op == "Sub") beta = -value;
    if (c.node.op == "Mul") alpha = value;
    if (c.node.op == "Div") alpha = 1 / value;
  } else if (scalar(0) && c.node.op != "Div") {
    x = 1;
    const double value = c.host(0)->floats[0];
    if (c.node.op == "Mul") alpha = value;
    if (c.node.op != "Mul") beta = value;
    if (c.node.op == "Sub") alpha = -1;
  } else {
    return false;
  }
  if (!std::isfinite(alpha) || !std::isfinite(beta) || alpha == 0) return false;
  c.out_typed(0, c.emit(Op::affine, {c.in(x)}, {{"alpha", alpha}, {"beta", beta}}), c.type(0));
  return true;
}

Status arithmetic(NodeContext& c) {
  GRAFT_TRY(same_types(c));
  if (scalar_affine(c)) return {};
  GRAFT_TRY_ASSIGN(const std::vector<ValueId> in, operands(c));
  c.out(0, c.kept_in(c.emit(c.target, in), c.type(0)));
  return {};
}

Status bitwise(NodeContext& c) {
  GRAFT_TRY(same_types(c));
  if (!is_integer(c.type(0))) return corrupt("its input is ", elem_name(c.type(0)));
  c.out(0, c.emit(c.target, {c.in(0), c.in(1)}));
  return {};
}

/// -1 - x. Of uint32 and uint64 the result has bits that int32 does not.
Status bitwise_not(NodeContext& c) {
  if (!is_integer(c.type(0))) return corrupt("its input is ", elem_name(c.type(0)));
  if (c.type(0) == ElemType::u32 || c.type(0) == ElemType::u64) {
    return unsupported("its input is ", elem_name(c.type(0)),
                       ", which is computed in int32, and the result does not fit");
  }
  c.out(0, c.kept_in(c.emit(Op::sub, {c.full(Shape{}, -1, DType::i32), c.in(0)}), c.type(0)));
  return {};
}

Status bit_shift(NodeContext& c) {
  GRAFT_TRY(same_types(c));
  const std::string direction = c.attr_text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") return corrupt("its direction is \"", direction, "\"");
  if (!is_integer(c.type(0))) return corrupt("its input is ", elem_name(c.type(0)));
  const Op op = direction == "LEFT" ? Op::shift_left : Op::shift_right;
  c.out(0, c.kept_in(c.emit(op, {c.in(0), c.in(1)}), c.type(0)));
  return {};
}

Status comparison(NodeContext& c) {
  GRAFT_TRY(same_types(c));
  GRAFT_TRY_ASSIGN(std::vector<ValueId> in, operands(c));
  if (c.type(0) == ElemType::boolean && c.target == Op::equal) {  // bools compare as integers do
    for (ValueId& v : in) v = c.cast(v, DType::i32);
  }
  c.out_typed(0, c.emit(c.target, in), ElemType::boolean);
  return {};
}

Status mod(NodeContext& c) {
  GRAFT_TRY(same_types(c));
  const bool fmod = c.attr("fmod", 0) != 0;
  if (!fmod && is_float(c.type(0))) {
    return corrupt("its inputs are ", elem_name(c.type(0)),
                   " and its fmod is 0, which ONNX allows of integers only; "
                   "set fmod to 1 in the file if the remainder has the dividend's sign");
  }
  c.out(0, c.emit(Op::remainder, {c.in(0), c.in(1)}, {{"fmod", std::int64_t{fmod}}}));
  return {};
}

/// The result has the type of the base. Integers to integers stay integers, other powers are floats that are cut off.
Status power_of_integers(NodeContext& c) {
  ValueId base = c.in(0);
  ValueId exponent = c.in(1);
  if (is_integer(c.type(1))) {
    c.out(0, c.kept_in(c.emit(Op::pow, {base, exponent}), c.type(0)));
    return {};
  }
  base = c.emit(Op::pow, {c.cast(base, DType::f32), exponent});
  c.out(0, c.kept_in(c.cast(base, DType::i32), c.type(0)));
  return {};
}

Status power(NodeContext& c) {
  if (is_integer(c.type(0))) return power_of_integers(c);
  GRAFT_TRY(float_only(c));
  const HostTensor* exponent = c.host(1);
  if (exponent && !exponent->symbolic() && exponent->count() == 1 && c.rank(1) <= c.rank(0)) {
    const double e = exponent->number(0);
    const Op op = e == 2 ? Op::square : e == 0.5 ? Op::sqrt : e == -1 ? Op::reciprocal : Op::pow;
    if (op != Op::pow) {
      c.out(0, c.emit(op, {c.in(0)}));
      return {};
    }
  }
  c.out(0, c.emit(Op::pow, {c.in(0), c.cast(c.in(1), DType::f32)}));
  return {};
}

Status prelu(NodeContext& c) {
  GRAFT_TRY(float_only(c));
  if (c.opset < 7 && c.rank(1) == 1 && c.rank(0) > 1 && c.shape(1)[0] != Dim(1)) {
    std::vector<Dim> dims(c.rank(0) - 1, Dim(1));  // a slope per channel, before broadcasting was numpy's
    dims[0] = c.shape(1)[0];
    c.out(0, c.emit(Op::prelu, {c.in(0), c.reshape(c.in(1), Shape(dims))}));
    return {};
  }
  if (c.rank(1) > c.rank(0)) return corrupt("its slope has more axes than its input");
  c.out(0, c.emit(Op::prelu, {c.in(0), c.in(1)}));
  return {};
}

/// Sum, Mean, Max, Min of any number of operands.
Status variadic(NodeContext& c) {
  GRAFT_TRY(same_types(c));
  if (c.inputs() == 1) {
    c.alias(0, 0);
    return {};
  }
  ValueId total = c.in(0);
  for (std::size_t i = 1; i < c.inputs(); ++i) total = c.emit(c.target, {total, c.in(i)});
  if (c.node.op == "Sum") total = c.kept_in(total, c.type(0));
  if (c.node.op == "Mean") {
    GRAFT_TRY(float_only(c));
    total = c.emit(Op::affine, {total}, {{"alpha", 1.0 / static_cast<double>(c.inputs())}, {"beta", 0.0}});
  }
  c.out(0, total);
  return {};
}

Status where(NodeContext& c) {
  if (c.type(1) != c.type(2)) return corrupt("its branches are ", elem_name(c.type(1)), " and ", elem_name(c.type(2)));
  c.out_typed(0, c.emit(Op::where, {c.cast(c.in(0), DType::boolean), c.in(1), c.in(2)}), c.type(1));
  return {};
}

Status clip(NodeContext& c) {
  Attrs attrs;
  std::vector<std::pair<Op, std::size_t>> dynamic;
  if (c.opset < 11) {
    for (const char* name : {"min", "max"}) {
      if (c.has_attr(name)) attrs.set(name, c.attr_number(name, 0));
    }
  } else {
    for (const auto& [i, name, op] :
         {std::tuple(std::size_t{1}, "min", Op::maximum), {std::size_t{2}, "max", Op::minimum}}) {
      if (!c.has(i)) continue;
      if (c.host(i) && !c.host(i)->symbolic() && c.host(i)->count() == 1) {
        attrs.set(name, c.host(i)->number(0));
      } else {
        dynamic.emplace_back(op, i);
      }
    }
  }
  // Limits in the order of the definition: min(max(x, low), high).
  ValueId x = c.in(0);
  if (!dynamic.empty() && attrs.has("max")) {  // the maximum goes last
    x = c.emit(Op::maximum, {x, c.in(1)});
    dynamic.clear();
  }
  if (!attrs.items().empty()) x = c.emit(Op::clip, {x}, attrs);
  for (const auto& [op, i] : dynamic) {
    if (c.rank(i) != 0) return corrupt("its limit has ", c.rank(i), " axes instead of none");
    x = c.emit(op, {x, c.in(i)});
  }
  if (attrs.items().empty() && dynamic.empty()) {
    c.alias(0, 0);
    return {};
  }
  c.out(0, x);
  return {};
}

/// Values live in 32-bit words: what a narrower type cannot say is rounded or cut off. float16 alone is left as it is.
Status convert_type(NodeContext& c, ElemType to) {
  GRAFT_TRY_ASSIGN(const DType dtype, device_dtype(to));
  const ElemType from = c.type(0);
  if (to == ElemType::f16 && from != to) c.precision("values stay float32, unrounded");
  ValueId x = c.in(0);
  const bool narrower = to != ElemType::f16 && to != ElemType::f64 && !holds_all(to, from);
  if (c.dtype_of(x) != dtype) x = c.cast(x, dtype);
  const bool saturates = c.attr("saturate", 1) != 0;
  if (narrower && !narrow_format(to).empty()) {
    x = c.narrowed(
        x, to,
        {{"saturate", std::int64_t{elem_bits(to) <= 8 && saturates}}, {"rounding", c.attr_text("round_mode", "up")}});
  } else if (x == c.in(0)) {
    // A view, so that the same bytes may carry another type.
    x = c.emit(Op::reshape, {x}, {{"shape", c.shape_of(x)}});
  }
  c.out_typed(0, x, to);
  return {};
}

Status cast(NodeContext& c) {
  if (!c.has_attr("to")) return corrupt("its attribute \"to\" is missing");
  return convert_type(c, static_cast<ElemType>(c.attr("to", 0)));
}

Status cast_like(NodeContext& c) { return convert_type(c, c.type(1)); }

Status dropout(NodeContext& c) {
  double ratio = c.attr_number("ratio", 0.5);
  bool training = false;
  if (c.opset >= 12) {
    if (c.has(1)) {
      GRAFT_TRY_ASSIGN(ratio, c.number(1, "ratio"));
    }
    if (c.has(2)) {
      GRAFT_TRY_ASSIGN(const double mode, c.number(2, "training mode"));
      training = mode != 0;
    }
  }
  if (!(ratio >= 0 && ratio < 1)) return corrupt("its ratio ", ratio, " is not in [0, 1)");
  if (training && ratio > 0 && c.wants(1)) return unsupported("its random mask is an output in training mode");
  if (training && ratio > 0) {
    c.precision("the mask comes from graft's own random numbers");
    c.note("the file holds dropout in training mode; here it works in training, and is off in inference");
  }
  const ValueId y =
      c.emit(Op::dropout, {c.in(0)},
             {{"p", ratio}, {"training", std::int64_t{0}}, {"stream", static_cast<std::int64_t>(c.index())}});
  c.out(0, y);
  if (c.wants(1)) c.out_typed(1, c.full(c.shape(0), 1.0, DType::boolean), ElemType::boolean);
  return {};
}

Status identity(NodeContext& c) {
  if (c.record(0).trainable) {
    // PyTorch's exporter merges tensors that happen to be equal, unless the model is in train mode: all fresh norms.
    c.note(
        "weights that the file holds once under several names are trained as one (batch normalisation's aside); where "
        "they merely began equal, "
        "export the model in train mode to keep them apart");
  }
  c.alias(0, 0);
  return {};
}

}  // namespace

const RuleEntry kElementwiseRules[] = {
    {"Neg", 1, 1, unary, Op::neg},
    {"Abs", 1, 1, unary, Op::abs},
    {"Exp", 1, 1, unary, Op::exp},
    {"Log", 1, 1, unary, Op::log},
    {"Sqrt", 1, 1, unary, Op::sqrt},
    {"Reciprocal", 1, 1, unary, Op::reciprocal},
    {"Sin", 1, 1, unary, Op::sin},
    {"Cos", 1, 1, unary, Op::cos},
    {"Tan", 1, 1, unary, Op::tan},
    {"Asin", 1, 1, unary, Op::asin},
    {"Acos", 1, 1, unary, Op::acos},
    {"Atan", 1, 1, unary, Op::atan},
    {"Sinh", 1, 1, unary, Op::sinh},
    {"Cosh", 1, 1, unary, Op::cosh},
    {"Tanh", 1, 1, unary, Op::tanh},
    {"Asinh", 1, 1, unary, Op::asinh},
    {"Acosh", 1, 1, unary, Op::acosh},
    {"Atanh", 1, 1, unary, Op::atanh},
    {"Sigmoid", 1, 1, unary, Op::sigmoid},
    {"Relu", 1, 1, unary, Op::relu},
    {"HardSwish", 1, 1, unary, Op::hard_swish},
    {"Mish", 1, 1, unary, Op::mish},
    {"Softplus", 1, 1, unary, Op::softplus},
    {"Softsign", 1, 1, unary, Op::softsign},
    {"Erf", 1, 1, unary, Op::erf},
    {"Floor", 1, 1, unary, Op::floor},
    {"Ceil", 1, 1, unary, Op::ceil},
    {"Round", 1, 1, unary, Op::round},
    {"Sign", 1, 1, unary, Op::sign},
    {"LeakyRelu", 1, 1, activation, Op::leaky_relu},
    {"Elu", 1, 1, activation, Op::elu},
    {"Selu", 1, 1, activation, Op::selu},
    {"Celu", 1, 1, activation, Op::celu},
    {"HardSigmoid", 1, 1, activation, Op::hard_sigmoid},
    {"ThresholdedRelu", 1, 1, activation, Op::thresholded_relu},
    {"Gelu", 1, 1, gelu},
    {"Swish", 1, 1, swish},
    {"Shrink", 1, 1, shrink},
    {"Not", 1, 1, logical_not},
    {"IsNaN", 1, 1, is_nan},
    {"IsInf", 1, 1, is_inf},
    {"Add", 2, 2, arithmetic, Op::add},
    {"Sub", 2, 2, arithmetic, Op::sub},
    {"Mul", 2, 2, arithmetic, Op::mul},
    {"Div", 2, 2, arithmetic, Op::div},
    {"And", 2, 2, comparison, Op::logical_and},
    {"Or", 2, 2, comparison, Op::logical_or},
    {"Xor", 2, 2, comparison, Op::logical_xor},
    {"Equal", 2, 2, comparison, Op::equal},
    {"Less", 2, 2, comparison, Op::less},
    {"LessOrEqual", 2, 2, comparison, Op::less_equal},
    {"Greater", 2, 2, comparison, Op::greater},
    {"GreaterOrEqual", 2, 2, comparison, Op::greater_equal},
    {"BitwiseAnd", 2, 2, bitwise, Op::bitwise_and},
    {"BitwiseOr", 2, 2, bitwise, Op::bitwise_or},
    {"BitwiseXor", 2, 2, bitwise, Op::bitwise_xor},
    {"BitwiseNot", 1, 1, bitwise_not},
    {"BitShift", 2, 2, bit_shift},
    {"Mod", 2, 2, mod},
    {"Pow", 2, 2, power},
    {"PRelu", 2, 2, prelu},
    {"Sum", 1, 1024, variadic, Op::add},
    {"Mean", 1, 1024, variadic, Op::add},
    {"Max", 1, 1024, variadic, Op::maximum},
    {"Min", 1, 1024, variadic, Op::minimum},
    {"Where", 3, 3, where},
    {"Clip", 1, 3, clip},
    {"Cast", 1, 1, cast},
    {"CastLike", 2, 2, cast_like},
    {"Dropout", 1, 3, dropout},
    {"Identity", 1, 1, identity},
    {nullptr, 0, 0, nullptr},
};

}  // namespace graft::convert
