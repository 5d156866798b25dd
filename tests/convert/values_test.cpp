// ctest: middle
// What becomes of values: layouts, symbols, weights, constants, names.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "runtime/core/op_id.gen.h"
#include "runtime/passes/bind.h"
#include "runtime/passes/pipeline.h"
#include "tests/support/model_tensors.h"
#include "tests/support/files/onnx_writer.h"
#include "tools/convert/onnx/examples/example_onnx.h"
#include "tools/convert/onnx/import/convert_onnx.h"

namespace graft::test::convert_values_test {
namespace {

std::string floats(const std::vector<float>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}

Message int_tensor(const std::string& name, const std::vector<std::int64_t>& values) {
  const std::string raw(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(std::int64_t));
  return Message().integer(1, values.size()).integer(2, 7).text(8, name).text(9, raw);
}

convert::Converted converted(const OnnxParts& parts, const convert::ConvertOptions& options = {}) {
  const std::string file = onnx_file(parts);
  auto graph = convert::parse_onnx(std::as_bytes(std::span(file)));
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  auto result = convert::convert_onnx(std::move(graph).value(), "test.onnx", options);
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result.ok() ? std::move(result).value() : convert::Converted{};
}

std::size_t count_ops(const Graph& graph, Op op) {
  std::size_t count = 0;
  for (const Node& node : graph.nodes()) count += node.op == op;
  return count;
}

const Value& named(const Graph& graph, const std::string& name) { return graph.value(graph.find_value(name)); }

TEST(ConvertValues, ImagesStayChannelsLastBetweenConvolutions) {
  OnnxParts p;
  p.inputs = {float_value("x", {-1, 2, 4, 4})};
  p.outputs = {float_value("y", {-1, 3, 4, 4})};
  p.initializers = {float_tensor("w1", {3, 2, 1, 1}, floats({1, 2, 3, 4, 5, 6})),
                    float_tensor("w2", {3, 3, 1, 1}, floats(std::vector<float>(9, 1))),
                    float_tensor("s", {3, 1, 1}, floats({1, 2, 3}))};
  p.nodes = {onnx_node("Conv", {"x", "w1"}, {"a"}), onnx_node("Relu", {"a"}, {"b"}),
             onnx_node("Mul", {"b", "s"}, {"c"}), onnx_node("Conv", {"c", "w2"}, {"d"}),
             onnx_node("Add", {"d", "b"}, {"y"})};
  const auto result = converted(p);
  EXPECT_EQ(named(result.model.graph, "c").shape, (Shape{Dim::symbol("batch"), 3, 4, 4}));
  auto bound = bind(result.model.graph, {{"batch", 2}});
  ASSERT_TRUE(bound.ok()) << bound.status().message();
  const auto prepared = passes::prepare(*bound, {});
  ASSERT_TRUE(prepared.ok()) << prepared.status().message();
  const Graph& graph = prepared->graph;
  // In at the front, out at the back, nothing between.
  EXPECT_EQ(count_ops(graph, Op::transpose), 2u);
  EXPECT_EQ(named(graph, "c").source_perm, (SourcePerm{0, 2, 3, 1}));
  EXPECT_EQ(named(graph, "c").shape, (Shape{2, 4, 4, 3}));
  EXPECT_EQ(graph.outputs()[0].name, "y");
  EXPECT_EQ(graph.value(graph.outputs()[0].value).shape, (Shape{2, 3, 4, 4}));
  EXPECT_EQ(named(graph, "x").shape, (Shape{2, 2, 4, 4}));
}

// A file exported for training: run and eval still use the running statistics, and training still updates them.
TEST(ConvertValues, BatchNormInTrainingModeKeepsItsStatisticsUnlessTheFileUsesTheNewOnes) {
  OnnxParts p;
  p.opset = 14;
  p.inputs = {float_value("x", {-1, 2, 4, 4})};
  p.outputs = {float_value("y", {-1, 2, 4, 4})};
  for (const char* name : {"scale", "bias", "mean", "var"})
    p.initializers.push_back(float_tensor(name, {2}, floats({1, 2})));
  const Message momentum = Message().text(1, "momentum").float32(2, 0.75F).integer(20, 1);
  p.nodes = {onnx_node("BatchNormalization", {"x", "scale", "bias", "mean", "var"}, {"y", "new_mean", "new_var"},
                       {momentum, int_attribute("training_mode", 1)})};
  const auto result = converted(p);
  const Graph& graph = result.model.graph;
  ASSERT_EQ(count_ops(graph, Op::batch_norm), 1u);
  EXPECT_EQ(named(graph, "mean").kind, ValueKind::state);
  for (const Node& node : graph.nodes()) {
    if (node.op != Op::batch_norm) continue;
    EXPECT_EQ(node.attrs.number("momentum"), 0.25);
  }
  p.outputs.push_back(float_value("new_mean", {2}));
  EXPECT_EQ(count_ops(converted(p).model.graph, Op::batch_norm_train), 1u);
}

TEST(ConvertValues, DropoutInTrainingModeIsOffInInference) {
  OnnxParts p;
  p.inputs = {float_value("x", {-1, 2})};
  p.outputs = {float_value("y", {-1, 2})};
  p.initializers = {float_tensor("ratio", {}, floats({0.25F})), Message().integer(2, 9).text(8, "on").text(9, "\x01")};
  p.nodes = {onnx_node("Dropout", {"x", "ratio", "on"}, {"y"})};
  const auto result = converted(p);
  ASSERT_EQ(count_ops(result.model.graph, Op::dropout), 1u);
  for (const Node& node : result.model.graph.nodes()) {
    if (node.op != Op::dropout) continue;
    EXPECT_FALSE(node.attrs.flag("training"));
    EXPECT_DOUBLE_EQ(node.attrs.number("p"), 0.25) << "training needs it";
  }
  EXPECT_EQ(result.report.notes.size(), 1u);
}

TEST(ConvertValues, ShapesThatTheGraphComputesAreFoldedWithTheirSymbols) {
  OnnxParts p;
  p.inputs = {float_value("x", {-1, 4, 6})};
  p.outputs = {float_value("y", {-1, -1})};
  p.initializers = {int_tensor("zero", {0}), int_tensor("minus", {-1}), int_tensor("four", {4}),
                    int_tensor("two", {2})};
  p.nodes = {onnx_node("Shape", {"x"}, {"s"}),
             onnx_node("Gather", {"s", "zero"}, {"b"}),
             onnx_node("Mul", {"b", "four"}, {"b4"}),
             onnx_node("Div", {"b4", "two"}, {"b2"}),
             onnx_node("Concat", {"b2", "minus"}, {"target"}, {int_attribute("axis", 0)}),
             onnx_node("Reshape", {"x", "target"}, {"y"})};
  const auto result = converted(p);
  const Graph& graph = result.model.graph;
  EXPECT_EQ(graph.nodes().size(), 1u);
  EXPECT_EQ(graph.value(graph.outputs()[0].value).shape.text(), "[2*batch, 12]");
}

/// The shape that [2, 3, 4] becomes where a file computes it by these nodes, from 64-bit integers under their names.
Shape reshaped_by(std::vector<Message> nodes, const std::map<std::string, std::vector<std::int64_t>>& integers,
                  std::vector<Message> more = {}) {
  OnnxParts p;
  p.inputs = {float_value("x", {2, 3, 4})};
  p.outputs = {float_value("y", {-1, -1})};
  p.initializers = std::move(more);
  for (const auto& [name, values] : integers) p.initializers.push_back(int_tensor(name, values));
  p.nodes = std::move(nodes);
  p.nodes.push_back(onnx_node("Reshape", {"x", "shape"}, {"y"}));
  const auto result = converted(p);
  const Graph& graph = result.model.graph;
  return graph.outputs().empty() ? Shape() : graph.value(graph.outputs()[0].value).shape;
}

// Each row computes [6, 4] of operands that no other function, order or offset makes the same of.
TEST(ConvertValues, ShapesAreComputedOnTheHost) {
  const Shape expected = {6, 4};
  const auto to_ints = onnx_node("Cast", {"f"}, {"shape"}, {int_attribute("to", 7)});
  EXPECT_EQ(reshaped_by({onnx_node("Sub", {"a", "b"}, {"shape"})}, {{"a", {10, 7}}, {"b", {4, 3}}}), expected);
  EXPECT_EQ(reshaped_by({onnx_node("Add", {"a", "b"}, {"shape"})}, {{"a", {5, 1}}, {"b", {1, 3}}}), expected);
  EXPECT_EQ(reshaped_by({onnx_node("Mul", {"a", "b"}, {"shape"})}, {{"a", {3, 1}}, {"b", {2, 4}}}), expected);
  EXPECT_EQ(reshaped_by({onnx_node("Div", {"a", "b"}, {"shape"})}, {{"a", {13, 9}}, {"b", {2, 2}}}), expected);
  const std::vector<Message> numbers = {float_tensor("a", {2}, floats({6.5F, 9})),
                                        float_tensor("b", {2}, floats({8, 4.5F}))};
  EXPECT_EQ(reshaped_by({onnx_node("Min", {"a", "b"}, {"f"}), to_ints}, {}, numbers), expected);
  const std::vector<Message> others = {float_tensor("a", {2}, floats({6.5F, 1})),
                                       float_tensor("b", {2}, floats({2, 4.5F}))};
  EXPECT_EQ(reshaped_by({onnx_node("Max", {"a", "b"}, {"f"}), to_ints}, {}, others), expected);
  // In 32 bits.
  EXPECT_EQ(reshaped_by({onnx_node("Cast", {"a"}, {"c"}, {int_attribute("to", 6)}),
                         onnx_node("Cast", {"b"}, {"d"}, {int_attribute("to", 6)}), onnx_node("Sub", {"c", "d"}, {"f"}),
                         to_ints},
                        {{"a", {10, 7}}, {"b", {4, 3}}}),
            expected);
  // From the middle, forwards and backwards, and every other one.
  const auto slice = onnx_node("Slice", {"a", "starts", "ends", "axes", "steps"}, {"shape"});
  const auto sliced = [&](std::vector<std::int64_t> a, std::int64_t start, std::int64_t end, std::int64_t step) {
    return reshaped_by({slice}, {{"a", a}, {"starts", {start}}, {"ends", {end}}, {"axes", {0}}, {"steps", {step}}});
  };
  EXPECT_EQ(sliced({9, 6, 4, 8}, 1, 3, 1), expected);
  EXPECT_EQ(sliced({9, 4, 6, 8}, 2, 0, -1), expected);
  EXPECT_EQ(sliced({9, 6, 8, 4}, -3, 4, 2), expected);
  EXPECT_EQ(sliced({4, 9, 6}, -1, -4, -2), expected);
  // A dimension that is what is left, and parts of which the last has nothing.
  EXPECT_EQ(reshaped_by({onnx_node("Unsqueeze", {"a", "axis"}, {"column"}),
                         onnx_node("Reshape", {"column", "open"}, {"shape"})},
                        {{"a", {6, 4}}, {"axis", {1}}, {"open", {-1}}}),
            expected);
  EXPECT_EQ(reshaped_by({onnx_node("Split", {"a"}, {"shape", "rest", "nothing"}),
                         onnx_node("Concat", {"shape", "nothing"}, {"unused"}, {int_attribute("axis", 0)})},
                        {{"a", {6, 4, 9, 8}}}),
            expected);
  EXPECT_EQ(reshaped_by(
                {onnx_node("Range", {"start", "limit", "delta"}, {"shape"})}, {},
                {Message().integer(2, 7).text(8, "start").text(9, std::string("\6\0\0\0\0\0\0\0", 8)),
                 Message().integer(2, 7).text(8, "limit").text(9, std::string("\3\0\0\0\0\0\0\0", 8)),
                 Message().integer(2, 7).text(8, "delta").text(9, std::string("\xfe\xff\xff\xff\xff\xff\xff\xff", 8))}),
            expected);
}

TEST(ConvertValues, SizesOfAResizeMayHoldTheBatch) {
  OnnxParts p;
  p.inputs = {float_value("x", {-1, 3, 4, 4})};
  p.outputs = {float_value("y", {-1, 3, 8, 6})};
  p.initializers = {int_tensor("zero", {0}), int_tensor("two", {2}), int_tensor("size", {8, 6})};
  p.nodes = {onnx_node("Shape", {"x"}, {"all"}), onnx_node("Slice", {"all", "zero", "two"}, {"front"}),
             onnx_node("Concat", {"front", "size"}, {"sizes"}, {int_attribute("axis", 0)}),
             onnx_node("Resize", {"x", "", "", "sizes"}, {"y"})};
  const auto result = converted(p);
  ASSERT_FALSE(result.model.graph.outputs().empty());
  EXPECT_EQ(result.model.graph.value(result.model.graph.outputs()[0].value).shape,
            (Shape{Dim::symbol("batch"), 3, 8, 6}));
}

TEST(ConvertValues, BoundSymbolsAreNumbers) {
  OnnxParts p;
  p.inputs = {float_value("x", {-1, 4})};
  p.outputs = {float_value("y", {-1, 4})};
  p.nodes = {onnx_node("Relu", {"x"}, {"y"})};
  const auto result = converted(p, {.bindings = {{"batch", 7}}});
  EXPECT_EQ(named(result.model.graph, "x").shape, (Shape{7, 4}));
}

TEST(ConvertValues, WeightsStayParametersBehindComputations) {
  OnnxParts p;
  p.inputs = {float_value("x", {1, 2})};
  p.outputs = {float_value("y", {1, 2}), float_value("z", {1, 2})};
  p.initializers = {float_tensor("w", {2, 2}, floats({1, 2, 3, 4})), float_tensor("c", {}, floats({2}))};
  p.nodes = {onnx_node("Transpose", {"w"}, {"wt"}), onnx_node("Sqrt", {"wt"}, {"r"}),
             onnx_node("Mul", {"r", "c"}, {"m"}), onnx_node("MatMul", {"x", "m"}, {"y"}),
             onnx_node("MatMul", {"x", "w"}, {"z"})};
  const auto result = converted(p);
  const Graph& graph = result.model.graph;
  // One tensor, used twice, and a gradient can reach it through what was computed from it.
  ASSERT_EQ(graph.of_kind(ValueKind::parameter).size(), 1u);
  EXPECT_EQ(count_ops(graph, Op::sqrt), 1u);
  EXPECT_EQ(count_ops(graph, Op::matmul), 2u);
  RefTensors tensors = weights_of(result.model);
  tensors["x"] = {{1, 2}, {1, 0}};
  ASSERT_TRUE(interpret(graph, tensors).ok());
  const auto& y = tensors.at(graph.value(graph.outputs()[0].value).name).data;
  EXPECT_NEAR(y[0], 2.0, 1e-6);                   // 2 * sqrt(w[0][0])
  EXPECT_NEAR(y[1], 2.0 * std::sqrt(3.0), 1e-6);  // 2 * sqrt(w[1][0])
  EXPECT_EQ(tensors.at(graph.value(graph.outputs()[1].value).name).data, (std::vector<double>{1, 2}));
}

// As where a layer normalizes its weight: a shape is known whatever is in it, and however much.
TEST(ConvertValues, ShapesOfLargeWeightsAreKnown) {
  constexpr std::size_t kSide = 100;
  OnnxParts p;
  p.opset = 13;
  p.inputs = {float_value("x", {-1, kSide})};
  p.outputs = {float_value("y", {-1, kSide})};
  p.initializers = {float_tensor("w", {kSide, kSide}, floats(std::vector<float>(kSide * kSide, 0.5F)))};
  p.nodes = {onnx_node("ReduceL2", {"w"}, {"n"}, {ints_attribute("axes", {1}), int_attribute("keepdims", 1)}),
             onnx_node("Shape", {"w"}, {"s"}), onnx_node("Expand", {"n", "s"}, {"e"}),
             onnx_node("Div", {"w", "e"}, {"d"}), onnx_node("MatMul", {"x", "d"}, {"y"})};
  const auto result = converted(p);
  EXPECT_EQ(named(result.model.graph, "w").kind, ValueKind::parameter);
  EXPECT_EQ(count_ops(result.model.graph, Op::matmul), 1u);
}

TEST(ConvertValues, KindsOfWeights) {
  OnnxParts p;
  p.inputs = {float_value("x", {1, 2, 3, 3})};
  p.outputs = {float_value("y", {1, 2, 3, 3})};
  for (const char* name : {"scale", "bias", "mean", "var"}) {
    p.initializers.push_back(float_tensor(name, {2}, floats({1, 1})));
  }
  p.nodes = {onnx_node("BatchNormalization", {"x", "scale", "bias", "mean", "var"}, {"y"})};
  const auto result = converted(p);
  EXPECT_EQ(named(result.model.graph, "scale").kind, ValueKind::parameter);
  EXPECT_EQ(named(result.model.graph, "mean").kind, ValueKind::state);
  EXPECT_EQ(named(result.model.graph, "var").kind, ValueKind::state);
  EXPECT_TRUE(validate(result.model).ok());
}

// As PyTorch exports fresh networks: one tensor of ones is scale and variance, one of zeros is bias and mean.
TEST(ConvertValues, BatchNormPartsWeightsThatTheFileMerges) {
  OnnxParts p;
  p.inputs = {float_value("x", {1, 2, 3, 3})};
  p.outputs = {float_value("y", {1, 2, 3, 3})};
  p.initializers = {float_tensor("var", {2}, floats({1, 1})), float_tensor("bias", {2}, floats({0, 0}))};
  p.nodes = {onnx_node("Identity", {"var"}, {"scale"}), onnx_node("Identity", {"bias"}, {"mean"}),
             onnx_node("BatchNormalization", {"x", "scale", "bias", "mean", "var"}, {"y"})};
  const auto result = converted(p);
  const Graph& graph = result.model.graph;
  for (const char* name : {"scale", "bias"}) {
    ASSERT_TRUE(graph.find_value(name).valid()) << name;
    EXPECT_EQ(named(graph, name).kind, ValueKind::parameter) << name;
  }
  for (const char* name : {"mean", "var"}) {
    ASSERT_TRUE(graph.find_value(name).valid()) << name;
    EXPECT_EQ(named(graph, name).kind, ValueKind::state) << name;
  }
  ASSERT_EQ(result.report.notes.size(), 1u);
  EXPECT_NE(result.report.notes[0].find("several names"), std::string::npos) << result.report.notes[0];
  EXPECT_TRUE(validate(result.model).ok());
}

TEST(ConvertValues, IntegersBeyondInt32AreRefused) {
  OnnxParts p;
  p.inputs = {float_value("x", {2})};
  p.outputs = {float_value("y", {2})};
  p.initializers = {int_tensor("i", {0, std::int64_t{1} << 40})};
  p.nodes = {onnx_node("Add", {"i", "i"}, {"j"}), onnx_node("Identity", {"j"}, {"y"})};
  const std::string file = onnx_file(p);
  auto graph = convert::parse_onnx(std::as_bytes(std::span(file)));
  ASSERT_TRUE(graph.ok());
  const auto result = convert::convert_onnx(std::move(graph).value(), "test.onnx");
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.status().message().find("2199023255552"), std::string::npos) << result.status().message();
}

// Sizes and indices are multiplied so; all products are summed as integers.
TEST(ConvertValues, MatricesOfIntegersAreMultiplied) {
  OnnxParts p;
  p.inputs = {typed_value("a", {2, 1, 2, 3}, 7), typed_value("b", {4, 3, 2}, 7), typed_value("v", {3}, 7)};
  p.outputs = {typed_value("y", {2, 4, 2, 2}, 7), typed_value("z", {2, 1, 2}, 7), typed_value("w", {}, 7)};
  p.nodes = {onnx_node("MatMul", {"a", "b"}, {"y"}), onnx_node("MatMul", {"a", "v"}, {"z"}),
             onnx_node("MatMul", {"v", "v"}, {"w"})};
  const auto result = converted(p);
  RefTensors tensors;
  for (const ValueId id : result.model.graph.inputs()) {
    const Value& value = result.model.graph.value(id);
    RefTensor& tensor = tensors[value.name] = {value.shape.values(), {}};
    for (std::uint64_t i = 0; i < value.shape.elements(); ++i) {
      tensor.data.push_back(static_cast<double>(i) * 1001 - 3000);
    }
  }
  const auto a = tensors["a"].data, b = tensors["b"].data, v = tensors["v"].data;
  ASSERT_TRUE(interpret(result.model.graph, tensors).ok());
  for (std::size_t i = 0; i < 32; ++i) {
    const std::size_t item = i / 16, other = i / 4 % 4, row = i / 2 % 2, column = i % 2;
    double sum = 0;
    for (std::size_t k = 0; k < 3; ++k) sum += a[item * 6 + row * 3 + k] * b[other * 6 + k * 2 + column];
    EXPECT_EQ(tensors["y"].data[i], sum) << i;
  }
  EXPECT_EQ(tensors["z"].dims, (std::vector<std::int64_t>{2, 1, 2}));
  EXPECT_EQ(tensors["z"].data[3], a[9] * v[0] + a[10] * v[1] + a[11] * v[2]);
  EXPECT_EQ(tensors["w"].dims, std::vector<std::int64_t>{});
  EXPECT_EQ(tensors["w"].data[0], v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
}

// ONNX Runtime's quantizer writes sums so: of what the integers stand for, quantized again.
TEST(ConvertValues, SumsOfQuantizedNumbers) {
  OnnxParts p;
  p.inputs = {typed_value("a", {4}, 2), typed_value("b", {1}, 2)};
  p.outputs = {typed_value("y", {4}, 2)};
  const auto byte = [](const std::string& name, char value) {
    return Message().integer(2, 2).text(8, name).text(9, std::string(1, value));
  };
  p.initializers = {float_tensor("as", {}, floats({0.5F})),  byte("az", 10),
                    float_tensor("bs", {}, floats({0.25F})), byte("bz", 2),
                    float_tensor("ys", {}, floats({1.0F})),  byte("yz", 3)};
  const Message node = onnx_node("QLinearAdd", {"a", "as", "az", "b", "bs", "bz", "ys", "yz"}, {"y"});
  p.nodes = {Message(node).text(7, "com.microsoft")};
  const auto result = converted(p);
  const Value& y = result.model.graph.value(result.model.graph.outputs()[0].value);
  EXPECT_EQ(y.source_type, SourceType::u8);
  RefTensors tensors = weights_of(result.model);
  tensors["a"] = {{4}, {0, 10, 13, 255}};
  tensors["b"] = {{1}, {6}};
  ASSERT_TRUE(interpret(result.model.graph, tensors).ok());
  // (a - 10) / 2 + 1, rounded to even, + 3, cut off at 0.
  EXPECT_EQ(tensors[y.name].data, (std::vector<double>{0, 4, 5, 127}));
}

// 1.8 of 5 pixels are 9 in f32, in which exporters count, though the f32 next to 1.8 is less than it.
TEST(ConvertValues, ResizingCountsPixelsInF32) {
  OnnxParts p;
  p.inputs = {float_value("x", {1, 1, 5, 5})};
  p.outputs = {float_value("y", {1, 1, 9, 8})};
  p.initializers = {float_tensor("scales", {4}, floats({1, 1, 1.8F, 1.75F}))};
  p.nodes = {onnx_node("Resize", {"x", "", "scales"}, {"y"})};
  EXPECT_EQ(named(converted(p).model.graph, "y").shape, (Shape{1, 1, 9, 8}));
}

TEST(ConvertValues, InputsCanBeFixed) {
  OnnxParts p;
  p.inputs = {float_value("x", {2, 3}),
              Message()
                  .text(1, "shape")
                  .message(2, Message().message(1, Message().integer(1, 7).message(
                                                       2, Message().message(1, Message().integer(1, 1)))))};
  p.outputs = {float_value("y", {-1})};
  p.nodes = {onnx_node("Reshape", {"x", "shape"}, {"y"})};
  const std::string file = onnx_file(p);
  auto graph = convert::parse_onnx(std::as_bytes(std::span(file)));
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  convert::Report report;
  EXPECT_FALSE(convert::convert_onnx(*graph, "test.onnx", {}, &report).ok());
  EXPECT_EQ(report.fix_inputs, std::vector<std::string>{"shape"});
  const convert::ConvertOptions options{.fixed_inputs = {{"shape", convert::HostTensor::of_ints({6})}}};
  const auto result = convert::convert_onnx(*graph, "test.onnx", options);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->model.graph.value(result->model.graph.outputs()[0].value).shape, Shape{6});
}

TEST(ConvertValues, ExamplesConvert) {
  // As published, but vit-small: by hand, 22,049,896 without a class token and with a head of 1000.
  const std::map<std::string, std::uint64_t> elements = {
      {"lenet", 431080}, {"mlp", 101770}, {"resnet18", 11689512}, {"vit-small", 22049896}};
  for (const std::string& name : convert::example_names()) {
    const auto bytes = convert::example_onnx(name, 3);
    ASSERT_TRUE(bytes.ok());
    EXPECT_EQ(*bytes, *convert::example_onnx(name, 3));
    EXPECT_NE(*bytes, *convert::example_onnx(name, 4));
    auto graph = convert::parse_onnx(std::as_bytes(std::span(*bytes)));
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    const auto result = convert::convert_onnx(std::move(graph).value(), name);
    ASSERT_TRUE(result.ok()) << result.status().message();
    EXPECT_TRUE(validate(result->model).ok()) << validate(result->model).message();
    EXPECT_EQ(result->report.parameter_elements, elements.at(name)) << name;
    for (const auto& entry : result->report.entries) EXPECT_TRUE(entry.gradient) << entry.node;
  }
}

}  // namespace
}  // namespace graft::test::convert_values_test
