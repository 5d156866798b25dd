// Elementwise operators, reductions, products.
#include <algorithm>

#include "tools/convert/tflite/tflite_context.h"

namespace graft::convert {
namespace {

// Operators that ONNX has too: by one name each.
#define GRAFT_SAME(name)             \
  Status same_##name(OpContext& c) { \
    c.out(0, c.add(#name, c.all())); \
    return {};                       \
  }
GRAFT_SAME(Sigmoid)
GRAFT_SAME(Tanh)
GRAFT_SAME(Relu)
GRAFT_SAME(HardSwish)
GRAFT_SAME(Elu)
GRAFT_SAME(Exp)
GRAFT_SAME(Log)
GRAFT_SAME(Sqrt)
GRAFT_SAME(Sin)
GRAFT_SAME(Cos)
GRAFT_SAME(Abs)
GRAFT_SAME(Neg)
GRAFT_SAME(Floor)
GRAFT_SAME(Ceil)
GRAFT_SAME(Round)
GRAFT_SAME(Sign)
GRAFT_SAME(Not)
GRAFT_SAME(Max)
GRAFT_SAME(Min)
GRAFT_SAME(Pow)
GRAFT_SAME(Less)
GRAFT_SAME(LessOrEqual)
GRAFT_SAME(Greater)
GRAFT_SAME(GreaterOrEqual)
GRAFT_SAME(Equal)
GRAFT_SAME(And)
GRAFT_SAME(Or)
GRAFT_SAME(PRelu)
GRAFT_SAME(Sum)
GRAFT_SAME(Identity)
GRAFT_SAME(Where)
#undef GRAFT_SAME

template <class Options>
tfl::Activation activation_of(const Options* options) {
  return options == nullptr ? tfl::Activation::NONE : options->activation();
}

Status add(OpContext& c) {
  c.out(0, c.add("Add", c.all()), activation_of(c.op.builtin_options_as_AddOptions()));
  return {};
}
Status sub(OpContext& c) {
  c.out(0, c.add("Sub", c.all()), activation_of(c.op.builtin_options_as_SubOptions()));
  return {};
}
Status mul(OpContext& c) {
  c.out(0, c.add("Mul", c.all()), activation_of(c.op.builtin_options_as_MulOptions()));
  return {};
}
Status div(OpContext& c) {
  c.out(0, c.add("Div", c.all()), activation_of(c.op.builtin_options_as_DivOptions()));
  return {};
}

Status not_equal(OpContext& c) {
  c.out(0, c.add("Not", {c.add("Equal", c.all())}));
  return {};
}

Status relu6(OpContext& c) {
  c.out(0, c.activated(c.in(0), tfl::Activation::RELU6));
  return {};
}
Status relu_n1_to_1(OpContext& c) {
  c.out(0, c.activated(c.in(0), tfl::Activation::RELU_N1_TO_1));
  return {};
}
Status relu_0_to_1(OpContext& c) {
  c.out(0, c.add("Clip", {c.in(0), c.number(0), c.number(1)}));
  return {};
}

Status rsqrt(OpContext& c) {
  c.out(0, c.add("Reciprocal", {c.add("Sqrt", {c.in(0)})}));
  return {};
}
Status square(OpContext& c) {
  c.out(0, c.add("Mul", {c.in(0), c.in(0)}));
  return {};
}
Status squared_difference(OpContext& c) {
  const std::string difference = c.add("Sub", c.all());
  c.out(0, c.add("Mul", {difference, difference}));
  return {};
}

Status floor_div(OpContext& c) {
  if (!is_float(c.input(0).elem)) return unsupported("its input is ", elem_name(c.input(0).elem));
  c.out(0, c.add("Floor", {c.add("Div", c.all())}));
  return {};
}

/// a - floor(a / b) * b: the divisor's sign, as of Python.
Status floor_mod(OpContext& c) {
  if (!is_float(c.input(0).elem)) {
    c.out(0, c.add("Mod", c.all()));
    return {};
  }
  const std::string whole = c.add("Floor", {c.add("Div", c.all())});
  c.out(0, c.add("Sub", {c.in(0), c.add("Mul", {whole, c.in(1)})}));
  return {};
}

Status leaky_relu(OpContext& c) {
  const auto* options = c.op.builtin_options_as_LeakyReluOptions();
  c.out(0, c.add("LeakyRelu", {c.in(0)}, {{"alpha", number_attr(options == nullptr ? 0 : options->alpha())}}));
  return {};
}

Status gelu(OpContext& c) {
  const auto* options = c.op.builtin_options_as_GeluOptions();
  const bool tanh = options != nullptr && options->approximate();
  c.out(0, c.add("Gelu", {c.in(0)}, {{"approximate", text_attr(tanh ? "tanh" : "none")}}));
  return {};
}

Status select(OpContext& c) {
  if (c.input(0).dims.size() == 1 && c.input(1).dims.size() > 1) {
    return unsupported("its condition chooses among rows");
  }
  return same_Where(c);
}

Status softmax(OpContext& c) {
  const auto* options = c.op.builtin_options_as_SoftmaxOptions();
  const float beta = options == nullptr ? 1 : options->beta();
  const std::string x = beta == 1 ? c.in(0) : c.add("Mul", {c.in(0), c.number(beta)});
  c.out(0, c.add("Softmax", {x}, {{"axis", int_attr(-1)}}));
  return {};
}
Status log_softmax(OpContext& c) {
  c.out(0, c.add("LogSoftmax", {c.in(0)}, {{"axis", int_attr(-1)}}));
  return {};
}

/// x / sqrt(max(sum of squares, 1e-6)) along the last axis.
Status l2_normalization(OpContext& c) {
  const std::string square = c.add("Mul", {c.in(0), c.in(0)});
  const std::string sum = c.add("ReduceSum", {square}, {{"axes", ints_attr({-1})}, {"keepdims", int_attr(1)}});
  const std::string root = c.add("Sqrt", {c.add("Max", {sum, c.number(1e-6F)})});
  c.out(0, c.add("Div", {c.in(0), root}), activation_of(c.op.builtin_options_as_L2NormOptions()));
  return {};
}

Status reduce_by(OpContext& c, const char* op, std::string x) {
  GRAFT_TRY_ASSIGN(const Ints axes, c.ints(1, "axes"));
  const auto* options = c.op.builtin_options_as_ReducerOptions();
  const bool keep = options != nullptr && options->keep_dims();
  if (axes.empty()) {
    c.out(0, std::move(x));
    return {};
  }
  Ints each;  // an axis may stand there twice
  for (const std::int64_t given : axes) {
    GRAFT_TRY_ASSIGN(const std::int64_t axis, c.axis(given, 0));
    if (std::find(each.begin(), each.end(), axis) == each.end()) each.push_back(axis);
  }
  c.out(0, c.add(op, {std::move(x)}, {{"axes", ints_attr(each)}, {"keepdims", int_attr(keep)}}));
  return {};
}
Status mean(OpContext& c) { return reduce_by(c, "ReduceMean", c.in(0)); }
Status sum(OpContext& c) { return reduce_by(c, "ReduceSum", c.in(0)); }
Status reduce_max(OpContext& c) { return reduce_by(c, "ReduceMax", c.in(0)); }
Status reduce_min(OpContext& c) { return reduce_by(c, "ReduceMin", c.in(0)); }
Status reduce_prod(OpContext& c) { return reduce_by(c, "ReduceProd", c.in(0)); }

Status arg(OpContext& c, const char* op) {
  GRAFT_TRY_ASSIGN(const Ints axes, c.ints(1, "axis"));
  if (axes.size() != 1) return corrupt("it has ", axes.size(), " axes instead of one");
  const std::string index = c.add(op, {c.in(0)}, {{"axis", int_attr(axes[0])}, {"keepdims", int_attr(0)}});
  const bool narrow = c.output(0).elem == ElemType::i32;
  c.out(0, narrow ? c.add("Cast", {index}, {{"to", int_attr(static_cast<int>(ElemType::i32))}}) : index);
  return {};
}
Status arg_max(OpContext& c) { return arg(c, "ArgMax"); }
Status arg_min(OpContext& c) { return arg(c, "ArgMin"); }

Status cast(OpContext& c) {
  for (const TfliteTensor* tensor : {&c.input(0), &c.output(0)}) {
    const TfliteQuantization& q = tensor->quantization;
    const bool same = std::ranges::all_of(q.scale, [](float s) { return s == 1; }) &&
                      std::ranges::all_of(q.zero, [](std::int64_t z) { return z == 0; });
    if (same) continue;  // what is stored is what it stands for
    return unsupported("it casts the stored numbers of the quantized tensor \"", tensor->name,
                       "\", and graft has what they stand for; QUANTIZE and DEQUANTIZE convert those");
  }
  const ElemType to = c.output(0).elem;
  if (to == ElemType::undefined) return unsupported("it makes ", tensor_type_name(c.output(0).type));
  c.out(0, c.add("Cast", {c.in(0)}, {{"to", int_attr(static_cast<int>(to))}}));
  return {};
}

/// Quantized numbers are floats here already; constants of halves become float32 where they are read.
Status dequantize(OpContext& c) {
  return c.input(0).elem == ElemType::f16 && !c.input(0).constant ? cast(c) : same_Identity(c);
}

Status fully_connected(OpContext& c) {
  const auto* options = c.op.builtin_options_as_FullyConnectedOptions();
  if (options != nullptr && options->weights_format() != 0) return unsupported("its weights are shuffled");
  const bool keep = options != nullptr && options->keep_num_dims();
  std::vector<std::string> from = {c.in(0), c.in(1)};
  if (c.has(2)) from.push_back(c.in(2));
  c.out(0, c.add("FULLY_CONNECTED", from, {{"keep_num_dims", int_attr(keep)}}, "tflite"), activation_of(options));
  return {};
}

Status batch_matmul(OpContext& c) {
  const auto* options = c.op.builtin_options_as_BatchMatMulOptions();
  const auto operand = [&](std::size_t i, bool turned) {
    if (!turned || c.rank(i) < 2) return c.in(i);
    Ints perm;
    for (std::int64_t axis = 0; axis < c.rank(i); ++axis) perm.push_back(axis);
    std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    return c.add("Transpose", {c.in(i)}, {{"perm", ints_attr(perm)}});
  };
  const std::string a = operand(0, options != nullptr && options->adj_x());
  const std::string b = operand(1, options != nullptr && options->adj_y());
  c.out(0, c.add("MatMul", {a, b}));
  return {};
}

Status cumsum(OpContext& c) {
  const auto* options = c.op.builtin_options_as_CumsumOptions();
  c.out(0, c.add("CumSum", c.all(),
                 {{"exclusive", int_attr(options != nullptr && options->exclusive())},
                  {"reverse", int_attr(options != nullptr && options->reverse())}}));
  return {};
}

/// [input, forget, cell, output] gates, each a tensor, become ONNX's one in its order: input, output, forget, cell.
Status lstm(OpContext& c) {
  const auto* options = c.op.builtin_options_as_UnidirectionalSequenceLSTMOptions();
  for (std::size_t i = 0; i < c.inputs(); ++i) {
    const bool needed = (i >= 1 && i <= 8) || (i >= 12 && i <= 15);
    if (needed && !c.has(i)) return unsupported("its input ", i, " is missing (coupled gates are not supported)");
    if (!needed && i > 0 && i != 18 && i != 19 && c.has(i)) {
      return unsupported("it has peepholes, a projection or normalised layers");
    }
  }
  if (activation_of(options) != tfl::Activation::TANH) return unsupported("its activation is not tanh");
  const bool time_major = options != nullptr && options->time_major();
  const auto gates = [&](std::size_t first) {
    const std::string all =
        c.add("Concat", {c.in(first), c.in(first + 3), c.in(first + 1), c.in(first + 2)}, {{"axis", int_attr(0)}});
    return c.add("Unsqueeze", {all, c.constant(Ints{0})});
  };
  if (c.input(5).dims.size() != 2) return corrupt("its recurrent weights have ", c.rank(5), " axes instead of 2");
  const std::int64_t units = c.input(5).dims[1];
  if (units < 1 || units > (1 << 20)) return corrupt("it has ", units, " units");
  const std::string w = gates(1), r = gates(5), input_bias = gates(12);
  const std::string zeros =
      c.constant(HostTensor::of_floats({1, 4 * units}, std::vector<float>(static_cast<std::size_t>(4 * units), 0.0F)));
  const std::string bias = c.add("Concat", {input_bias, zeros}, {{"axis", int_attr(1)}});
  std::string x = c.in(0);
  if (!time_major) x = c.add("Transpose", {x}, {{"perm", ints_attr({1, 0, 2})}});
  OnnxAttrs attrs = {{"hidden_size", int_attr(units)}};
  if (options != nullptr && options->proj_clip() > 0) return unsupported("it clips a projection");
  if (options != nullptr && options->diagonal_recurrent_tensors()) {
    return unsupported("its recurrent weights are diagonals (diagonal_recurrent_tensors)");
  }
  if (options != nullptr && options->cell_clip() > 0) attrs["cell_clip"] = number_attr(options->cell_clip());
  const std::string y = c.add("LSTM", {x, w, r, bias}, std::move(attrs), "tflite");
  std::string out = c.add("Squeeze", {y, c.constant(Ints{1})});  // its direction
  if (!time_major) out = c.add("Transpose", {out}, {{"perm", ints_attr({1, 0, 2})}});
  c.out(0, out);
  return {};
}

using B = tfl::BuiltinOperator;

}  // namespace

const TfliteOp kTfliteMaths[] = {
    {B::LOGISTIC, 1, 1, same_Sigmoid},
    {B::TANH, 1, 1, same_Tanh},
    {B::RELU, 1, 1, same_Relu},
    {B::RELU6, 1, 1, relu6},
    {B::RELU_N1_TO_1, 1, 1, relu_n1_to_1},
    {B::RELU_0_TO_1, 1, 1, relu_0_to_1},
    {B::HARD_SWISH, 1, 1, same_HardSwish},
    {B::ELU, 1, 1, same_Elu},
    {B::EXP, 1, 1, same_Exp},
    {B::LOG, 1, 1, same_Log},
    {B::SQRT, 1, 1, same_Sqrt},
    {B::RSQRT, 1, 1, rsqrt},
    {B::SQUARE, 1, 1, square},
    {B::SIN, 1, 1, same_Sin},
    {B::COS, 1, 1, same_Cos},
    {B::ABS, 1, 1, same_Abs},
    {B::NEG, 1, 1, same_Neg},
    {B::FLOOR, 1, 1, same_Floor},
    {B::CEIL, 1, 1, same_Ceil},
    {B::ROUND, 1, 1, same_Round},
    {B::SIGN, 1, 1, same_Sign},
    {B::LOGICAL_NOT, 1, 1, same_Not},
    {B::LEAKY_RELU, 1, 1, leaky_relu},
    {B::PRELU, 2, 2, same_PRelu},
    {B::GELU, 1, 1, gelu},
    {B::ADD, 2, 2, add},
    {B::SUB, 2, 2, sub},
    {B::MUL, 2, 2, mul},
    {B::DIV, 2, 2, div},
    {B::ADD_N, 1, 1024, same_Sum},
    {B::MAXIMUM, 2, 2, same_Max},
    {B::MINIMUM, 2, 2, same_Min},
    {B::POW, 2, 2, same_Pow},
    {B::SQUARED_DIFFERENCE, 2, 2, squared_difference},
    {B::FLOOR_DIV, 2, 2, floor_div},
    {B::FLOOR_MOD, 2, 2, floor_mod},
    {B::LESS, 2, 2, same_Less},
    {B::LESS_EQUAL, 2, 2, same_LessOrEqual},
    {B::GREATER, 2, 2, same_Greater},
    {B::GREATER_EQUAL, 2, 2, same_GreaterOrEqual},
    {B::EQUAL, 2, 2, same_Equal},
    {B::NOT_EQUAL, 2, 2, not_equal},
    {B::LOGICAL_AND, 2, 2, same_And},
    {B::LOGICAL_OR, 2, 2, same_Or},
    {B::SELECT, 3, 3, select},
    {B::SELECT_V2, 3, 3, same_Where},
    {B::SOFTMAX, 1, 1, softmax},
    {B::LOG_SOFTMAX, 1, 1, log_softmax},
    {B::L2_NORMALIZATION, 1, 1, l2_normalization},
    {B::MEAN, 2, 2, mean},
    {B::SUM, 2, 2, sum},
    {B::REDUCE_MAX, 2, 2, reduce_max},
    {B::REDUCE_MIN, 2, 2, reduce_min},
    {B::REDUCE_PROD, 2, 2, reduce_prod},
    {B::ARG_MAX, 2, 2, arg_max},
    {B::ARG_MIN, 2, 2, arg_min},
    {B::CAST, 1, 1, cast},
    {B::QUANTIZE, 1, 1, same_Identity},
    {B::DEQUANTIZE, 1, 1, dequantize},
    {B::DENSIFY, 1, 1, same_Identity},  // a sparse tensor is made dense where it is read
    {B::FULLY_CONNECTED, 2, 3, fully_connected},
    {B::BATCH_MATMUL, 2, 2, batch_matmul},
    {B::CUMSUM, 2, 2, cumsum},
    {B::UNIDIRECTIONAL_SEQUENCE_LSTM, 9, 24, lstm},
    {B::ADD, 0, 0, nullptr},
};

}  // namespace graft::convert
