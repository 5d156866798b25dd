// Elementwise ops, reductions, comparisons.
#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/export/onnx_writer.h"

namespace graft::convert {
namespace {

struct Named {
  Op op;
  const char* onnx;
};
/// All inputs, no attributes.
constexpr Named kPlain[] = {{Op::neg, "Neg"},
                            {Op::abs, "Abs"},
                            {Op::exp, "Exp"},
                            {Op::log, "Log"},
                            {Op::sqrt, "Sqrt"},
                            {Op::reciprocal, "Reciprocal"},
                            {Op::sin, "Sin"},
                            {Op::cos, "Cos"},
                            {Op::tan, "Tan"},
                            {Op::asin, "Asin"},
                            {Op::acos, "Acos"},
                            {Op::atan, "Atan"},
                            {Op::sinh, "Sinh"},
                            {Op::cosh, "Cosh"},
                            {Op::tanh, "Tanh"},
                            {Op::asinh, "Asinh"},
                            {Op::acosh, "Acosh"},
                            {Op::atanh, "Atanh"},
                            {Op::sigmoid, "Sigmoid"},
                            {Op::relu, "Relu"},
                            {Op::hard_swish, "HardSwish"},
                            {Op::softplus, "Softplus"},
                            {Op::softsign, "Softsign"},
                            {Op::erf, "Erf"},
                            {Op::floor, "Floor"},
                            {Op::ceil, "Ceil"},
                            {Op::round, "Round"},
                            {Op::sign, "Sign"},
                            {Op::logical_not, "Not"},
                            {Op::is_nan, "IsNaN"},
                            {Op::is_inf, "IsInf"},
                            {Op::add, "Add"},
                            {Op::sub, "Sub"},
                            {Op::mul, "Mul"},
                            {Op::div, "Div"},
                            {Op::pow, "Pow"},
                            {Op::maximum, "Max"},
                            {Op::minimum, "Min"},
                            {Op::prelu, "PRelu"},
                            {Op::equal, "Equal"},
                            {Op::less, "Less"},
                            {Op::less_equal, "LessOrEqual"},
                            {Op::greater, "Greater"},
                            {Op::greater_equal, "GreaterOrEqual"},
                            {Op::logical_and, "And"},
                            {Op::logical_or, "Or"},
                            {Op::logical_xor, "Xor"},
                            {Op::where, "Where"},
                            {Op::dropout, "Identity"}};
constexpr Named kReductions[] = {{Op::reduce_sum, "ReduceSum"},   {Op::reduce_mean, "ReduceMean"},
                                 {Op::reduce_max, "ReduceMax"},   {Op::reduce_min, "ReduceMin"},
                                 {Op::reduce_prod, "ReduceProd"}, {Op::reduce_l1, "ReduceL1"},
                                 {Op::reduce_l2, "ReduceL2"},     {Op::reduce_logsumexp, "ReduceLogSumExp"}};

template <std::size_t N>
const char* named(const Named (&table)[N], Op op) {
  const auto found = std::find_if(std::begin(table), std::end(table), [&](const Named& n) { return n.op == op; });
  return found == std::end(table) ? nullptr : found->onnx;
}

std::string affine(OnnxWriter& w, const Node& node, const std::string& x) {
  const DType dtype = w.dtype(node.inputs[0]);
  const double alpha = node.attrs.number("alpha"), beta = node.attrs.number("beta");
  std::string y = x;
  if (alpha != 1) y = w.add("Mul", {y, w.number(alpha, dtype)});
  if (beta != 0) y = w.add("Add", {y, w.number(beta, dtype)});
  return y == x ? w.add("Identity", {x}) : y;
}

std::string clip(OnnxWriter& w, const Node& node, const std::string& x) {
  const DType dtype = w.dtype(node.inputs[0]);
  const double low = node.attrs.number("min");
  const double high = node.attrs.number("max");
  return w.add("Clip", {x, std::isinf(low) ? "" : w.number(low, dtype), std::isinf(high) ? "" : w.number(high, dtype)});
}

/// ONNX's Mod with the divisor's sign is of integers only.
std::string remainder(OnnxWriter& w, const Node& node, const std::string& x) {
  const std::string by = w.name(node.inputs[1]);
  const bool fmod = node.attrs.flag("fmod");
  if (fmod || w.dtype(node.inputs[0]) != DType::f32) {
    return w.add("Mod", {x, by}, {{"fmod", std::int64_t{fmod}}});
  }
  return w.add("Sub", {x, w.add("Mul", {w.add("Floor", {w.add("Div", {x, by})}), by})});
}

/// One that ONNX lacks, or has with attributes; "" where the op is none.
std::string composed(OnnxWriter& w, const Node& node, const std::string& x) {
  const Attrs& a = node.attrs;
  switch (node.op) {
    case Op::expm1: return w.add("Sub", {w.add("Exp", {x}), w.number(1)});
    case Op::log1p: return w.add("Log", {w.add("Add", {x, w.number(1)})});
    case Op::rsqrt: return w.add("Reciprocal", {w.add("Sqrt", {x})});
    case Op::square: return w.add("Mul", {x, x});
    case Op::silu: return w.add("Mul", {x, w.add("Sigmoid", {x})});
    case Op::mish: return w.add("Mul", {x, w.add("Tanh", {w.add("Softplus", {x})})});
    case Op::gelu: return w.gelu(x, a.text("approximate") == "tanh");
    case Op::affine: return affine(w, node, x);
    case Op::clip: return clip(w, node, x);
    case Op::leaky_relu: return w.add("LeakyRelu", {x}, {{"alpha", a.number("alpha")}});
    case Op::elu: return w.add("Elu", {x}, {{"alpha", a.number("alpha")}});
    case Op::celu: return w.add("Celu", {x}, {{"alpha", a.number("alpha")}});
    case Op::selu: return w.add("Selu", {x}, {{"alpha", a.number("alpha")}, {"gamma", a.number("gamma")}});
    case Op::hard_sigmoid: return w.add("HardSigmoid", {x}, {{"alpha", a.number("alpha")}, {"beta", a.number("beta")}});
    case Op::thresholded_relu: return w.add("ThresholdedRelu", {x}, {{"alpha", a.number("alpha")}});
    case Op::not_equal: return w.add("Not", {w.add("Equal", {x, w.name(node.inputs[1])})});
    case Op::remainder: return remainder(w, node, x);
    case Op::softmax: return w.add("Softmax", {x}, {{"axis", a.integer("axis")}});
    case Op::log_softmax: return w.add("LogSoftmax", {x}, {{"axis", a.integer("axis")}});
    default: return {};
  }
}

std::string cast_to(OnnxWriter& w, const std::string& x, DType dtype) {
  return w.cast(x, dtype == DType::f32 ? 1 : dtype == DType::i32 ? 6 : 9);
}

}  // namespace

std::string OnnxWriter::gelu(const std::string& x, bool tanh) {
  std::string inner;
  if (tanh) {
    const std::string cube = add("Mul", {add("Mul", {x, x}), x});
    const std::string sum = add("Add", {x, add("Mul", {cube, number(0.044715)})});
    inner = add("Tanh", {add("Mul", {sum, number(0.7978845608028654)})});
  } else {
    inner = add("Erf", {add("Mul", {x, number(0.7071067811865476)})});
  }
  return add("Mul", {add("Mul", {x, number(0.5)}), add("Add", {inner, number(1)})});
}

Result<bool> write_elementwise(OnnxWriter& w, const Node& node) {
  if (node.inputs.empty()) return false;
  if (node.op == Op::dropout && node.attrs.flag("training"))
    return unsupported("dropout in training has no place there");
  const std::string x = w.name(node.inputs[0]);
  std::string y;
  if (const char* plain = named(kPlain, node.op)) {
    std::vector<std::string> inputs;
    for (const ValueId v : node.inputs) inputs.push_back(w.name(v));
    y = w.add(plain, inputs);
  } else if (const char* reduce = named(kReductions, node.op)) {
    y = w.reduced(reduce, x, node.attrs.integers("axes"), node.attrs.flag("keepdims"));
  } else if (node.op == Op::arg_max || node.op == Op::arg_min) {
    const std::string index = w.add(node.op == Op::arg_max ? "ArgMax" : "ArgMin", {x},
                                    {{"axis", node.attrs.integer("axis")},
                                     {"keepdims", node.attrs.integer("keepdims")},
                                     {"select_last_index", node.attrs.integer("select_last")}});
    y = cast_to(w, index, DType::i32);
  } else if (node.op == Op::cast) {
    y = cast_to(w, x, w.dtype(node.outputs[0]));
  } else {
    y = composed(w, node, x);
  }
  if (y.empty()) return false;
  w.is(node.outputs[0], y);
  return true;
}

}  // namespace graft::convert
