// Between floats and the narrow types of quantized networks.
#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/nodes/quantized_values.h"

namespace graft::convert {
namespace {

/// What quantize and dequantize share: the axis of their scales, and the blocks along it.
Result<Attrs> scale_attrs(NodeContext& c, ElemType type) {
  Attrs attrs = {{"type", elem_name(type)}, {"axis", std::int64_t{0}}, {"block_size", std::int64_t{0}}};
  const std::int64_t block = c.attr("block_size", 0);
  if (block < 0) return corrupt("its block_size is ", block);
  const bool one = c.rank(1) == 0 || (c.rank(1) == 1 && c.shape(1)[0] == Dim(1));
  if (one && block == 0) return attrs;
  GRAFT_TRY_ASSIGN(const std::size_t axis, c.axis(c.attr("axis", 1), c.rank(0)));
  attrs.set("axis", static_cast<std::int64_t>(axis));
  attrs.set("block_size", block);
  return attrs;
}

std::vector<ValueId> with_scales(NodeContext& c, ValueId x) {
  std::vector<ValueId> inputs = {x, c.in(1)};
  if (c.has(2)) inputs.push_back(c.in(2));
  return inputs;
}

Status quantize_linear(NodeContext& c) {
  ElemType type = c.has(2) ? c.type(2) : ElemType::u8;
  if (const auto stated = static_cast<ElemType>(c.attr("output_dtype", 0)); stated != ElemType::undefined) {
    if (c.has(2) && stated != type) return corrupt("its output_dtype is not the type of its zero point");
    type = stated;
  }
  if (!is_narrow(type)) return unsupported("its result would be ", elem_name(type));
  if (!is_float(c.type(0)) && c.type(0) != ElemType::i32) return unsupported("its input is ", elem_name(c.type(0)));
  GRAFT_TRY_ASSIGN(Attrs attrs, scale_attrs(c, type));
  attrs.set("saturate", std::int64_t{c.attr("saturate", 1) != 0});
  c.out_typed(0, c.emit(Op::quantize, with_scales(c, c.cast(c.in(0), DType::f32)), attrs), type);
  return {};
}

Status dequantize_linear(NodeContext& c) {
  ElemType type = c.type(0);
  if (!is_narrow(type) && type != ElemType::i32) return unsupported("its input is ", elem_name(type));
  const bool known = c.host(0) && !c.host(0)->symbolic() && c.host(1) && (!c.has(2) || c.host(2));
  GRAFT_TRY_ASSIGN(const Attrs attrs, scale_attrs(c, type == ElemType::i32 ? ElemType::i16 : type));
  const auto stated = static_cast<ElemType>(c.attr("output_dtype", 0));
  const ElemType out = stated == ElemType::undefined ? c.type(1) : stated;
  if (!is_float(out) || is_narrow(out)) return unsupported("its result would be ", elem_name(out));
  const bool weight = known && (is_integer(type) && type != ElemType::i32 ? c.host(0)->count() > 0 : c.expands());
  if (weight && !is_small_float(type)) {
    GRAFT_TRY(axis_of_scales(c.host(0)->dims, {c.host(1), c.has(2) ? c.host(2) : nullptr, attrs.integer("axis"),
                                               attrs.integer("block_size")})
                  .status());
    c.out_quantized(0, 1, 2, attrs.integer("axis"), attrs.integer("block_size"), out);
    return {};
  }
  c.out_typed(0, c.emit(Op::dequantize, with_scales(c, c.in(0)), attrs), out);
  return {};
}

/// A scale and a zero point that just cover the numbers and zero, and the numbers quantized so.
Status dynamic_quantize_linear(NodeContext& c) {
  if (!is_float(c.type(0)) || is_narrow(c.type(0))) return unsupported("its input is ", elem_name(c.type(0)));
  const ValueId x = c.in(0);
  Ints axes;
  for (std::size_t i = 0; i < c.rank(0); ++i) axes.push_back(static_cast<std::int64_t>(i));
  const Attrs all = {{"axes", axes}, {"keepdims", std::int64_t{0}}};
  const ValueId zero = c.constant(HostTensor::scalar(0));
  const ValueId least = c.emit(Op::minimum, {axes.empty() ? x : c.emit(Op::reduce_min, {x}, all), zero});
  const ValueId most = c.emit(Op::maximum, {axes.empty() ? x : c.emit(Op::reduce_max, {x}, all), zero});
  const ValueId range = c.emit(Op::sub, {most, least});
  const ValueId scale = c.emit(Op::div, {range, c.constant(HostTensor::scalar(255))});
  // Nothing but zeros: any scale will do.
  const ValueId safe = c.emit(Op::where, {c.emit(Op::equal, {scale, zero}), c.constant(HostTensor::scalar(1)), scale});
  const Attrs attrs = {{"type", elem_name(ElemType::u8)}, {"axis", std::int64_t{0}}};
  const ValueId point = c.emit(Op::quantize, {c.emit(Op::neg, {least}), safe}, attrs);
  c.out_typed(0, c.emit(Op::quantize, {x, safe, point}, attrs), ElemType::u8);
  c.out_typed(1, c.reshape(safe, Shape{}), c.type(0));
  c.out_typed(2, c.reshape(point, Shape{}), ElemType::u8);
  return {};
}

// ---- ONNX Runtime's own operators, which its quantizer writes beside QLinearConv: what they mean is the operator on
// the numbers that the integers stand for, quantized again.

Result<Attrs> whole_tensor(NodeContext& c, std::size_t i, std::size_t scale) {
  const ElemType type = c.type(i);
  if (type != ElemType::i8 && type != ElemType::u8) return unsupported("its input ", i, " is ", elem_name(type));
  if (c.rank(scale) > 1 || (c.rank(scale) == 1 && c.shape(scale)[0] != Dim(1))) {
    return unsupported("its scale ", scale, " has the shape ", c.shape(scale).text(), " instead of one number");
  }
  return Attrs{{"type", elem_name(type)}, {"axis", std::int64_t{0}}, {"block_size", std::int64_t{0}}};
}

/// Input i as floats; its scale and zero point follow it.
Result<ValueId> number_of(NodeContext& c, std::size_t i) {
  GRAFT_TRY_ASSIGN(const Attrs attrs, whole_tensor(c, i, i + 1));
  std::vector<ValueId> inputs = {c.in(i), c.in(i + 1)};
  if (c.has(i + 2)) inputs.push_back(c.in(i + 2));
  return c.emit(Op::dequantize, inputs, attrs);
}

/// y by the scale at an input and the zero point behind it, as integers of the type of input 0.
Status put_quantized(NodeContext& c, ValueId y, std::size_t scale) {
  const ElemType type = c.has(scale + 1) ? c.type(scale + 1) : c.type(0);
  const Attrs attrs = {{"type", elem_name(type)}, {"axis", std::int64_t{0}}, {"block_size", std::int64_t{0}}};
  std::vector<ValueId> inputs = {y, c.in(scale)};
  if (c.has(scale + 1)) inputs.push_back(c.in(scale + 1));
  c.out_typed(0, c.emit(Op::quantize, inputs, attrs), type);
  return {};
}

/// Add and Mul.
Status quantized_binary(NodeContext& c) {
  GRAFT_TRY_ASSIGN(const ValueId a, number_of(c, 0));
  GRAFT_TRY_ASSIGN(const ValueId b, number_of(c, 3));
  return put_quantized(c, c.emit(c.target, {a, b}), 6);
}

Status quantized_sigmoid(NodeContext& c) {
  GRAFT_TRY_ASSIGN(const ValueId x, number_of(c, 0));
  return put_quantized(c, c.emit(Op::sigmoid, {x}), 3);
}

Status quantized_leaky_relu(NodeContext& c) {
  GRAFT_TRY_ASSIGN(const ValueId x, number_of(c, 0));
  return put_quantized(c, c.emit(Op::leaky_relu, {x}, {{"alpha", c.attr_number("alpha", 0.01)}}), 3);
}

Status quantized_global_average_pool(NodeContext& c) {
  if (c.rank(0) < 3) return corrupt("its input has ", c.rank(0), " axes");
  const bool last = c.attr("channels_last", 0) != 0;
  const auto rank = static_cast<std::int64_t>(c.rank(0));
  Ints axes;
  for (std::int64_t axis = last ? 1 : 2; axis < (last ? rank - 1 : rank); ++axis) axes.push_back(axis);
  GRAFT_TRY_ASSIGN(const ValueId x, number_of(c, 0));
  return put_quantized(c, c.emit(Op::reduce_mean, {x}, {{"axes", axes}, {"keepdims", std::int64_t{1}}}), 3);
}

}  // namespace

const RuleEntry kQuantizeRules[] = {
    {"QuantizeLinear", 2, 3, quantize_linear},
    {"DequantizeLinear", 2, 3, dequantize_linear},
    {"DynamicQuantizeLinear", 1, 1, dynamic_quantize_linear},
    {"com.microsoft.QLinearAdd", 7, 8, quantized_binary, Op::add},
    {"com.microsoft.QLinearMul", 7, 8, quantized_binary, Op::mul},
    {"com.microsoft.QLinearSigmoid", 4, 5, quantized_sigmoid},
    {"com.microsoft.QLinearLeakyRelu", 4, 5, quantized_leaky_relu},
    {"com.microsoft.QLinearGlobalAveragePool", 5, 5, quantized_global_average_pool},
    {nullptr, 0, 0, nullptr},
};

}  // namespace graft::convert
