// Elementwise ops: they keep whatever layout their operands are in.
#include <array>
#include <cmath>
#include <limits>

#include "tools/convert/onnx/import.h"

namespace graft::convert {
namespace {

struct UnaryName {
  std::string_view onnx;
  Op op;
};
constexpr UnaryName kUnary[] = {
    {"Neg", Op::neg},         {"Abs", Op::abs},           {"Exp", Op::exp},
    {"Log", Op::log},         {"Sqrt", Op::sqrt},         {"Reciprocal", Op::reciprocal},
    {"Sin", Op::sin},         {"Cos", Op::cos},           {"Tan", Op::tan},
    {"Asin", Op::asin},       {"Acos", Op::acos},         {"Atan", Op::atan},
    {"Sinh", Op::sinh},       {"Cosh", Op::cosh},         {"Tanh", Op::tanh},
    {"Asinh", Op::asinh},     {"Acosh", Op::acosh},       {"Atanh", Op::atanh},
    {"Sigmoid", Op::sigmoid}, {"Relu", Op::relu},         {"HardSwish", Op::hard_swish},
    {"Mish", Op::mish},       {"Softplus", Op::softplus}, {"Softsign", Op::softsign},
    {"Erf", Op::erf},         {"Floor", Op::floor},       {"Ceil", Op::ceil},
    {"Round", Op::round},     {"Sign", Op::sign},
};

Status float_only(NodeContext& c, std::size_t i = 0) {
  if (is_float(c.type(i))) return {};
  return unsupported("its input is ", elem_name(c.type(i)), ", and only floats are supported");
}

Status unary(NodeContext& c) {
  for (const auto& entry : kUnary) {
    if (entry.onnx != c.node.op) continue;
    const bool integers = entry.op == Op::neg || entry.op == Op::abs || entry.op == Op::sign;
    if (!(integers && device_dtype(c.type(0)).ok() && c.type(0) != ElemType::boolean)) GRAFT_TRY(float_only(c));
    const Perm perm = c.perm(0);
    c.out(0, c.emit(entry.op, {c.in(0, perm)}), perm);
    return {};
  }
  return internal_error("no unary op ", c.node.op);
}

struct NumberAttr {
  std::string_view name;
  double fallback;
};
struct ActivationName {
  std::string_view onnx;
  Op op;
  std::array<NumberAttr, 2> attrs;
};
constexpr ActivationName kActivations[] = {
    {"LeakyRelu", Op::leaky_relu, {{{"alpha", 0.01}, {}}}},
    {"Elu", Op::elu, {{{"alpha", 1.0}, {}}}},
    {"Selu", Op::selu, {{{"alpha", 1.67326319217681884765625}, {"gamma", 1.05070102214813232421875}}}},
    {"Celu", Op::celu, {{{"alpha", 1.0}, {}}}},
    {"HardSigmoid", Op::hard_sigmoid, {{{"alpha", 0.2}, {"beta", 0.5}}}},
    {"ThresholdedRelu", Op::thresholded_relu, {{{"alpha", 1.0}, {}}}},
};

Status activation(NodeContext& c) {
  GRAFT_TRY(float_only(c));
  const Perm perm = c.perm(0);
  for (const auto& entry : kActivations) {
    if (entry.onnx != c.node.op) continue;
    Attrs attrs;
    for (const auto& attr : entry.attrs) {
      if (!attr.name.empty()) attrs.set(attr.name, c.attr_number(attr.name, attr.fallback));
    }
    c.out(0, c.emit(entry.op, {c.in(0, perm)}, attrs), perm);
  }
  return {};
}

Status gelu(NodeContext& c) {
  GRAFT_TRY(float_only(c));
  const std::string approximate = c.attr_text("approximate", "none");
  if (approximate != "none" && approximate != "tanh")
    return corrupt("its attribute approximate is \"", approximate, "\"");
  const Perm perm = c.perm(0);
  c.out(0, c.emit(Op::gelu, {c.in(0, perm)}, {{"approximate", approximate}}), perm);
  return {};
}

Status swish(NodeContext& c) {
  GRAFT_TRY(float_only(c));
  const Perm perm = c.perm(0);
  const ValueId x = c.in(0, perm);
  const double alpha = c.attr_number("alpha", 1.0);
  if (alpha == 1.0) {
    c.out(0, c.emit(Op::silu, {x}), perm);
    return {};
  }
  const ValueId gate = c.emit(Op::sigmoid, {c.emit(Op::affine, {x}, {{"alpha", alpha}, {"beta", 0.0}})});
  c.out(0, c.emit(Op::mul, {x, gate}), perm);
  return {};
}

Status shrink(NodeContext& c) {
  GRAFT_TRY(float_only(c));
  const double bias = c.attr_number("bias", 0.0);
  const double lambda = c.attr_number("lambd", 0.5);
  const Perm perm = c.perm(0);
  const ValueId x = c.in(0, perm);
  // x - bias above lambda, x + bias below -lambda, 0 between.
  const ValueId zero = c.constant(HostTensor::scalar(0));
  const ValueId above = c.emit(Op::greater, {x, c.constant(HostTensor::scalar(static_cast<float>(lambda)))});
  const ValueId below = c.emit(Op::less, {x, c.constant(HostTensor::scalar(static_cast<float>(-lambda)))});
  const ValueId low = c.emit(Op::where, {below, c.emit(Op::affine, {x}, {{"alpha", 1.0}, {"beta", bias}}), zero});
  const ValueId high = c.emit(Op::affine, {x}, {{"alpha", 1.0}, {"beta", -bias}});
  c.out(0, c.emit(Op::where, {above, high, low}), perm);
  return {};
}

Status logical_not(NodeContext& c) {
  const Perm perm = c.perm(0);
  c.out(0, c.emit(Op::logical_not, {c.in(0, perm)}), perm);
  return {};
}

Status is_nan(NodeContext& c) {
  GRAFT_TRY(float_only(c));
  const Perm perm = c.perm(0);
  c.out_typed(0, c.emit(Op::is_nan, {c.in(0, perm)}), ElemType::boolean, perm);
  return {};
}

Status is_inf(NodeContext& c) {
  GRAFT_TRY(float_only(c));
  const bool negative = c.attr("detect_negative", 1) != 0;
  const bool positive = c.attr("detect_positive", 1) != 0;
  const Perm perm = c.perm(0);
  const ValueId x = c.in(0, perm);
  ValueId found = c.emit(Op::is_inf, {x});
  if (!negative || !positive) {
    const Op side = positive ? Op::greater : Op::less;
    found = c.emit(Op::logical_and, {found, c.emit(side, {x, c.constant(HostTensor::scalar(0))})});
    if (!negative && !positive) found = c.emit(Op::logical_and, {found, c.emit(Op::logical_not, {found})});
  }
  c.out_typed(0, found, ElemType::boolean, perm);
  return {};
}

struct BinaryName {
  std::string_view onnx;
  Op op;
  bool compares;  // the result is bool
};
constexpr BinaryName kBinary[] = {
    {"Add", Op::add, false},        {"Sub", Op::sub, false},
    {"Mul", Op::mul, false},        {"Div", Op::div, false},
    {"And", Op::logical_and, true}, {"Or", Op::logical_or, true},
    {"Xor", Op::logical_xor, true}, {"Equal", Op::equal, true},
    {"Less", Op::less, true},       {"LessOrEqual", Op::less_equal, true},
    {"Greater", Op::greater, true}, {"GreaterOrEqual", Op::greater_equal, true},
};

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
Result<Aligned> operands(NodeContext& c) {
  if (c.opset < 7 && c.has_attr("axis") && c.rank(1) < c.rank(0)) {
    GRAFT_TRY_ASSIGN(const std::size_t axis, c.axis(c.attr("axis", 0), c.rank(0)));
    if (axis + c.rank(1) > c.rank(0)) return corrupt("its axis ", axis, " leaves no room for the second operand");
    std::vector<Dim> dims(c.shape(1).begin(), c.shape(1).end());
    dims.resize(c.rank(0) - axis, Dim(1));
    Aligned out{{c.plain(0), c.reshape(c.plain(1), Shape(std::move(dims)))}, {}};
    return out;
  }
  return align(c, {0, 1});
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
  const Perm perm = c.perm(x);
  c.out_typed(0, c.emit(Op::affine, {c.in(x, perm)}, {{"alpha", alpha}, {"beta", beta}}), c.type(0), perm);
  return true;
}

Status binary(NodeContext& c) {
  GRAFT_TRY(same_types(c));
  for (const auto& entry : kBinary) {
    if (entry.onnx != c.node.op) continue;
    const bool arithmetic = !entry.compares;
    if (arithmetic && scalar_affine(c)) return {};
    // Bools compare as integers do.
    const bool cast = c.type(0) == ElemType::boolean && (entry.op == Op::equal);
    GRAFT_TRY_ASSIGN(Aligned in, operands(c));
    if (cast) {
      for (ValueId& v : in.values) v = c.cast(v, DType::i32);
    }
    c.out_typed(0, c.emit(entry.op, in.values), entry.compares ? ElemType::boolean : c.type(0), in.perm);
  }
  return {};
}

Status mod(NodeContext& c) {
  GRAFT_TRY(same_types(c));
  const bool fmod = c.attr("fmod", 0) != 0;
  const Aligned in = align(c, {0, 1});
  c.out(0, c.emit(Op::remainder, in.values, {{"fmod", std::int64_t{fmod}}}), in.perm);
  return {};
}

Status power(NodeContext& c) {
  GRAFT_TRY(float_only(c));
  const HostTensor* exponent = c.host(1);
  if (exponent && !exponent->symbolic() && exponent->count() == 1 && c.rank(1) <= c.rank(0)) {
    const double e = exponent->number(0);
    const Op op = e == 2 ? Op::square : e == 0.5 ? Op::sqrt : e == -1 ? Op::reciprocal : Op::pow;
    if (op != Op::pow) {
      const Perm perm = c.perm(0);
      c.out(0, c.emit(op, {c.in(0, perm)}), perm);
      return {};
    }
  }
  Aligned in = align(c, {0, 1});
  in.values[1] = c.cast(in.values[1], DType::f32);
  c.out(0, c.emit(Op::pow, in.values), in.perm);
  return {};
}

Status prelu(NodeContext& c) {
  GRAFT_TRY(float_only(c));
  if (c.opset < 7 && c.rank(1) == 1 && c.rank(0) > 1 && c.shape(1)[0] != Dim(1)) {
    std::vector<Dim> dims(c.rank(0) - 1, Dim(1));  // a slope per channel, before broadcasting was numpy's
    dims[0] = c.shape(1)[0];
    c.out(0, c.emit(Op::prelu, {c.plain(0), c.reshape(c.plain(1), Shape(dims))}));
    return {};
  }
  if (c.rank(1) > c.rank(0)) return corrupt("its slope has more axes than its input");
  const Aligned in = align(c, {0, 1});
  c.out(0, c.emit(Op::prelu, in.values), in.perm);
  return {};
}

/// Sum, Mean, Max, Min of any number of operands.
Status variadic(NodeContext& c) {
  GRAFT_TRY(same_types(c));
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < c.inputs(); ++i) {
    if (!c.has(i)) return corrupt("its input ", i, " is missing");
    all.push_back(i);
  }
  const Op op = c.node.op == "Max" ? Op::maximum : c.node.op == "Min" ? Op::minimum : Op::add;
  const Aligned in = align(c, all);
  if (all.size() == 1) {
    c.alias(0, 0);
    return {};
  }
  ValueId total = in.values[0];
  for (std::size_t i = 1; i < in.values.size(); ++i) total = c.emit(op, {total, in.values[i]});
  if (c.node.op == "Mean") {
    GRAFT_TRY(float_only(c));
    total = c.emit(Op::affine, {total}, {{"alpha", 1.0 / static_cast<double>(all.size())}, {"beta", 0.0}});
  }
  c.out(0, total, in.perm);
  return {};
}

Status where(NodeContext& c) {
  if (c.type(1) != c.type(2)) return corrupt("its branches are ", elem_name(c.type(1)), " and ", elem_name(c.type(2)));
  const Aligned in = align(c, {0, 1, 2});
  c.out_typed(0, c.emit(Op::where, in.values), c.type(1), in.perm);
  return {};
}

Status clip(NodeContext& c) {
  const Perm perm = c.perm(0);
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
  ValueId x = c.in(0, perm);
  if (!dynamic.empty() && attrs.has("max")) return unsupported("its minimum is computed and its maximum is constant");
  if (!attrs.items().empty()) x = c.emit(Op::clip, {x}, attrs);
  for (const auto& [op, i] : dynamic) {
    if (c.rank(i) != 0) return corrupt("its limit has ", c.rank(i), " axes instead of none");
    x = c.emit(op, {x, c.plain(i)});
  }
  if (attrs.items().empty() && dynamic.empty()) {
    c.alias(0, 0);
    return {};
  }
  c.out(0, x, perm);
  return {};
}

Status convert_type(NodeContext& c, ElemType to) {
  GRAFT_TRY_ASSIGN(const DType dtype, device_dtype(to));
  const ElemType from = c.type(0);
  const Perm perm = c.perm(0);
  if (to == ElemType::bf16 && from != to) {
    return unsupported("rounding to bfloat16 is not supported: values are float32, and the difference would show");
  }
  if (to == ElemType::f16 && from != to) c.precision("values stay float32, unrounded");
  const ValueId x = c.in(0, perm);
  if (c.dtype_of(x) == dtype) {
    // A view, so that the same bytes may carry another type.
    c.out_typed(0, c.emit(Op::reshape, {x}, {{"shape", c.shape_of(x)}}), to, perm);
    return {};
  }
  c.out_typed(0, c.cast(x, dtype), to, perm);
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
  if (training && ratio > 0) c.precision("the mask comes from graft's own random numbers");
  const Perm perm = c.perm(0);
  const ValueId y =
      c.emit(Op::dropout, {c.in(0, perm)},
             {{"p", ratio}, {"training", std::int64_t{training}}, {"stream", static_cast<std::int64_t>(c.index())}});
  c.out(0, y, perm);
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
    {"Neg", 1, 1, unary},
    {"Abs", 1, 1, unary},
    {"Exp", 1, 1, unary},
    {"Log", 1, 1, unary},
    {"Sqrt", 1, 1, unary},
    {"Reciprocal", 1, 1, unary},
    {"Sin", 1, 1, unary},
    {"Cos", 1, 1, unary},
    {"Tan", 1, 1, unary},
    {"Asin", 1, 1, unary},
    {"Acos", 1, 1, unary},
    {"Atan", 1, 1, unary},
    {"Sinh", 1, 1, unary},
    {"Cosh", 1, 1, unary},
    {"Tanh", 1, 1, unary},
    {"Asinh", 1, 1, unary},
    {"Acosh", 1, 1, unary},
    {"Atanh", 1, 1, unary},
    {"Sigmoid", 1, 1, unary},
    {"Relu", 1, 1, unary},
    {"HardSwish", 1, 1, unary},
    {"Mish", 1, 1, unary},
    {"Softplus", 1, 1, unary},
    {"Softsign", 1, 1, unary},
    {"Erf", 1, 1, unary},
    {"Floor", 1, 1, unary},
    {"Ceil", 1, 1, unary},
    {"Round", 1, 1, unary},
    {"Sign", 1, 1, unary},
    {"LeakyRelu", 1, 1, activation},
    {"Elu", 1, 1, activation},
    {"Selu", 1, 1, activation},
    {"Celu", 1, 1, activation},
    {"HardSigmoid", 1, 1, activation},
    {"ThresholdedRelu", 1, 1, activation},
    {"Gelu", 1, 1, gelu},
    {"Swish", 1, 1, swish},
    {"Shrink", 1, 1, shrink},
    {"Not", 1, 1, logical_not},
    {"IsNaN", 1, 1, is_nan},
    {"IsInf", 1, 1, is_inf},
    {"Add", 2, 2, binary},
    {"Sub", 2, 2, binary},
    {"Mul", 2, 2, binary},
    {"Div", 2, 2, binary},
    {"And", 2, 2, binary},
    {"Or", 2, 2, binary},
    {"Xor", 2, 2, binary},
    {"Equal", 2, 2, binary},
    {"Less", 2, 2, binary},
    {"LessOrEqual", 2, 2, binary},
    {"Greater", 2, 2, binary},
    {"GreaterOrEqual", 2, 2, binary},
    {"Mod", 2, 2, mod},
    {"Pow", 2, 2, power},
    {"PRelu", 2, 2, prelu},
    {"Sum", 1, 1024, variadic},
    {"Mean", 1, 1024, variadic},
    {"Max", 1, 1024, variadic},
    {"Min", 1, 1024, variadic},
    {"Where", 3, 3, where},
    {"Clip", 1, 3, clip},
    {"Cast", 1, 1, cast},
    {"CastLike", 2, 2, cast_like},
    {"Dropout", 1, 3, dropout},
    {"Identity", 1, 1, identity},
    {nullptr, 0, 0, nullptr},
};

}  // namespace graft::convert
