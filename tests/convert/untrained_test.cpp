// Buffers among the float initializers of an ONNX file: which are taken for constants, and which are not.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/files/onnx_writer.h"
#include "tests/support/files/temporary_folder.h"
#include "tools/convert/onnx/export/export_onnx.h"
#include "tools/convert/onnx/import/convert_onnx.h"

namespace graft::test::convert_untrained_test {
namespace {

std::string floats(const std::vector<float>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}

Result<convert::Converted> convert_file(const OnnxParts& parts, const convert::ConvertOptions& options = {}) {
  const std::string file = onnx_file(parts);
  GRAFT_TRY_ASSIGN(convert::OnnxGraph graph, convert::parse_onnx(std::as_bytes(std::span(file))));
  return convert::convert_onnx(std::move(graph), "test.onnx", options);
}

/// Reasons by name of what is not trained.
std::map<std::string, std::string> untrained(const OnnxParts& parts, const convert::ConvertOptions& options = {}) {
  const auto result = convert_file(parts, options);
  EXPECT_TRUE(result.ok()) << result.status().message();
  std::map<std::string, std::string> reasons;
  if (!result.ok()) return reasons;
  for (const auto& constant : result->report.constants) reasons[constant.name] = constant.reason;
  return reasons;
}

/// y = x op t, for tables [3, 4].
OnnxParts used_by(const char* op, const std::vector<std::pair<std::string, std::vector<float>>>& tables) {
  OnnxParts p;
  p.inputs = {float_value("x", {3, 4})};
  std::string last = "x";
  for (const auto& [name, values] : tables) {
    p.initializers.push_back(float_tensor(name, {3, 4}, floats(values)));
    p.nodes.push_back(onnx_node(op, {last, name}, {"after_" + name}));
    last = "after_" + name;
  }
  p.outputs = {float_value(last, {3, 4})};
  return p;
}

std::vector<float> angles(float (*of)(float), bool twice = true) {
  std::vector<float> out;
  for (int i = 0; i < 3; ++i) {
    for (int k = 0; k < 4; ++k) {
      const float frequency = (twice ? k % 2 : k / 2) == 0 ? 1.0F : 0.01F;
      out.push_back(of(static_cast<float>(i) * frequency));
    }
  }
  return out;
}
float cosine(float x) { return std::cos(x); }
float sine(float x) { return std::sin(x); }

TEST(ConvertUntrained, CosinesAndSines) {
  const auto found = untrained(used_by("Mul", {{"c", angles(cosine)}, {"s", angles(sine)}}));
  EXPECT_EQ(found.size(), 2u);
  EXPECT_EQ(found.at("c"), "it holds cosines and sines");
  // One of them alone, and a pair of which a step of training has changed an element.
  EXPECT_TRUE(untrained(used_by("Mul", {{"c", angles(cosine)}})).empty());
  std::vector<float> trained = angles(sine);
  trained[5] += 0.01F;
  EXPECT_TRUE(untrained(used_by("Mul", {{"c", angles(cosine)}, {"s", trained}})).empty());
  // Scales and shifts of a fresh norm lie on a circle as well.
  EXPECT_TRUE(untrained(used_by("Mul", {{"w", std::vector<float>(12, 1)}, {"b", std::vector<float>(12, 0)}})).empty());
}

TEST(ConvertUntrained, CosinesAndSinesAmongManyTables) {
  std::vector<std::pair<std::string, std::vector<float>>> tables;
  std::uint32_t state = 1;
  for (int i = 0; i < 3000; ++i) {  // of one shape: comparing all pairs would take minutes
    std::vector<float> values;
    for (int k = 0; k < 12; ++k) values.push_back(static_cast<float>((state = state * 1664525 + 1013904223) >> 8) * 0x1p-24f);
    tables.emplace_back(std::to_string(i), std::move(values));
  }
  tables.insert(tables.begin() + 700, {"s", angles(sine)});
  tables.insert(tables.begin() + 2100, {"c", angles(cosine)});
  const auto found = untrained(used_by("Mul", tables));
  EXPECT_EQ(found.size(), 2u);
  EXPECT_EQ(found.at("c"), "it holds cosines and sines");
  EXPECT_EQ(found.at("s"), "it holds cosines and sines");
}

TEST(ConvertUntrained, SinusoidsOfPositions) {
  std::vector<float> neighbours, halves;
  for (int i = 0; i < 3; ++i) {
    const auto at = static_cast<float>(i);
    neighbours.insert(neighbours.end(), {sine(at), cosine(at), sine(at * 0.01F), cosine(at * 0.01F)});
    halves.insert(halves.end(), {sine(at), sine(at * 0.01F), cosine(at), cosine(at * 0.01F)});
  }
  EXPECT_EQ(untrained(used_by("Add", {{"pe", neighbours}})).count("pe"), 1u);
  EXPECT_EQ(untrained(used_by("Add", {{"pe", halves}})).count("pe"), 1u);
  neighbours[4] += 0.01F;
  EXPECT_TRUE(untrained(used_by("Add", {{"pe", neighbours}})).empty());
  // Directions in the plane, which are no sequence.
  std::vector<float> directions;
  for (const float angle : {0.1F, 2.0F, 0.4F, 5.0F, 1.0F, 3.0F}) {
    directions.insert(directions.end(), {sine(angle), cosine(angle)});
  }
  EXPECT_TRUE(untrained(used_by("Add", {{"pe", directions}})).empty());
  // A fresh norm over two axes.
  EXPECT_TRUE(untrained(used_by("Mul", {{"w", std::vector<float>(12, 1)}})).empty());
}

TEST(ConvertUntrained, Masks) {
  constexpr float kLow = -3.4028235e38F;
  EXPECT_EQ(untrained(used_by("Add", {{"m", {0, kLow, kLow, kLow, 0, 0, kLow, kLow, 0, 0, 0, kLow}}})).size(), 1u);
  EXPECT_EQ(untrained(used_by("Add", {{"m", {0, 0, -100, -100, 0, 0, -100, -100, -100, -100, 0, 0}}})).size(), 1u);
  EXPECT_TRUE(untrained(used_by("Add", {{"m", {0, 0, -100, -99, 0, 0, -100, -100, -100, -100, 0, 0}}})).empty());
  const std::vector<float> triangle = {1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1},
                           ahead = {0, 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 1};
  EXPECT_EQ(untrained(used_by("Mul", {{"m", triangle}})).size(), 1u);
  EXPECT_EQ(untrained(used_by("Sub", {{"m", ahead}})).size(), 1u);
  std::vector<float> other = triangle;
  other[2] = 1;
  other[6] = 0;
  EXPECT_TRUE(untrained(used_by("Mul", {{"m", other}})).empty());
  EXPECT_TRUE(untrained(used_by("Mul", {{"m", std::vector<float>(12, 1)}})).empty());
}

TEST(ConvertUntrained, ATriangleThatMultipliesAsAMatrixIsAWeight) {
  OnnxParts p;
  p.inputs = {float_value("x", {2, 2})};
  p.outputs = {float_value("y", {2, 2})};
  p.initializers = {float_tensor("w", {2, 2}, floats({1, 0, 1, 1}))};
  p.nodes = {onnx_node("Transpose", {"w"}, {"t"}), onnx_node("MatMul", {"x", "t"}, {"y"})};
  EXPECT_TRUE(untrained(p).empty());
}

TEST(ConvertUntrained, FrequenciesAndWhatOnlyComparesHasNoGradient) {
  OnnxParts p;
  p.inputs = {float_value("x", {2, 1}), float_value("z", {2, 3})};
  p.outputs = {float_value("y", {2, 3}), float_value("k", {2, 3})};
  p.initializers = {float_tensor("f", {3}, floats({1, 0.1F, 0.01F})), float_tensor("g", {3}, floats({1, 0.1F, 0.02F})),
                    float_tensor("t", {2, 3}, floats({1, 2, 3, 4, 5, 6})),
                    float_tensor("u", {2, 3}, floats({1, 2, 3, 4, 5, 6}))};
  p.nodes = {onnx_node("Mul", {"x", "f"}, {"a"}),       onnx_node("Sin", {"a"}, {"b"}),
             onnx_node("Mul", {"x", "g"}, {"c"}),       onnx_node("Sin", {"c"}, {"d"}),
             onnx_node("Add", {"b", "d"}, {"y"}),       onnx_node("Less", {"z", "t"}, {"l"}),
             onnx_node("Where", {"l", "u", "z"}, {"k"})};
  const auto found = untrained(p);
  EXPECT_EQ(found.size(), 2u);
  EXPECT_EQ(found.at("f"), "it holds the frequencies of cosines and sines");
  EXPECT_EQ(found.at("t"), "no gradient reaches it");
  // The same numbers where they scale: a first layer by sines may begin so.
  p.nodes[1] = onnx_node("Relu", {"a"}, {"b"});
  EXPECT_EQ(untrained(p).size(), 1u);
}

TEST(ConvertUntrained, Names) {
  const auto named = [](const std::string& name) {
    return untrained(used_by("Mul", {{name, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}}));
  };
  EXPECT_EQ(named("model.24.anchors").size(), 1u);
  EXPECT_EQ(named("stft.forward_basis_buffer").size(), 1u);
  EXPECT_EQ(named("onnx::Mul_12").at("onnx::Mul_12"), "the exporter computed it");
  EXPECT_TRUE(named("onnx::MatMul_12").empty());
  EXPECT_TRUE(named("layer.weight").empty());
  const auto result = convert_file(used_by("Sub", {{"norm.running_mean", std::vector<float>(12, 3)}}));
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_TRUE(result->report.constants.empty());
  EXPECT_EQ(result->model.graph.of_kind(ValueKind::state).size(), 1u);
}

TEST(ConvertUntrained, ConstantsOfTorchExport) {
  // x^3 with the exponent in an initializer, whose gradient is x^3 ln x; a linear layer's weight, transposed.
  OnnxParts p;
  p.inputs = {float_value("x", {2, 4})};
  p.outputs = {float_value("y", {2, 3})};
  p.initializers = {float_tensor("val_12", {}, floats({3})),
                    float_tensor("val_4", {4, 3}, floats(std::vector<float>(12, 2))),
                    float_tensor("lifted_tensor_0", {1}, floats({7})), float_tensor("val_scale", {1}, floats({5}))};
  p.nodes = {onnx_node("Pow", {"x", "val_12"}, {"a"}), onnx_node("MatMul", {"a", "val_4"}, {"b"}),
             onnx_node("Mul", {"b", "lifted_tensor_0"}, {"c"}), onnx_node("Mul", {"c", "val_scale"}, {"y"})};
  EXPECT_EQ(untrained(p), (std::map<std::string, std::string>{{"lifted_tensor_0", "the exporter computed it"}}));
  const auto result = convert_file(p);
  ASSERT_TRUE(result.ok()) << result.status().message();
  std::set<std::string> trained;
  for (const ValueId id : result->model.graph.of_kind(ValueKind::parameter))
    trained.insert(result->model.graph.value(id).name);
  EXPECT_EQ(trained, (std::set<std::string>{"val_4", "val_scale"}));
}

TEST(ConvertUntrained, FoldedScalesAndShifts) {
  // PyTorch's group norm: a norm of groups, then views of weight and bias, which the exporter names for their reader.
  OnnxParts p;
  p.inputs = {float_value("x", {2, 4, 3})};
  p.outputs = {float_value("y", {2, 4, 3})};
  const std::string numbers = floats({1, 2, 3, 4});
  p.initializers = {float_tensor("ones", {4}, numbers), float_tensor("onnx::Mul_1", {4, 1}, numbers),
                    float_tensor("onnx::Add_2", {4, 1}, numbers), float_tensor("onnx::Mul_3", {4, 1}, numbers)};
  p.nodes = {onnx_node("InstanceNormalization", {"x", "ones", "ones"}, {"n"}),
             onnx_node("Mul", {"n", "onnx::Mul_1"}, {"s"}), onnx_node("Add", {"s", "onnx::Add_2"}, {"a"}),
             onnx_node("Mul", {"a", "onnx::Mul_3"}, {"y"})};
  // What scales anything else may be a table.
  EXPECT_EQ(untrained(p), (std::map<std::string, std::string>{{"onnx::Mul_3", "the exporter computed it"}}));
  p.nodes[0] = onnx_node("Relu", {"x"}, {"n"});
  EXPECT_EQ(untrained(p).size(), 3u);
}

TEST(ConvertUntrained, WhatIsAskedForGoesFirst) {
  const OnnxParts p =
      used_by("Mul", {{"rope.c", angles(cosine)}, {"rope.s", angles(sine)}, {"grid", angles(cosine, false)}});
  convert::ConvertOptions options;
  options.parameters = {"rope.*"};
  options.constants = {"g?id", "rope.c"};
  const auto found = untrained(p, options);
  EXPECT_EQ(found, (std::map<std::string, std::string>{{"grid", "asked for"}}));
  options.constants = {"nothing.*"};
  const auto refused = convert_file(p, options);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("No float tensor of the file matches \"nothing.*\"."), std::string::npos);
}

Message constant_node(const std::string& name, const Message& tensor) {
  return onnx_node("Constant", {}, {name}, {Message().text(1, "value").message(5, tensor).integer(20, 4)});
}

/// As Paddle's exporter writes it: no initializers at all.
OnnxParts weights_in_nodes() {
  OnnxParts p;
  p.inputs = {float_value("x", {2, 3})};
  p.nodes = {constant_node("w", float_tensor("", {3, 2}, floats({1, 2, 3, 4, 5, 6}))),
             constant_node("scale", float_tensor("", {}, floats({2}))), onnx_node("MatMul", {"x", "w"}, {"z"}),
             onnx_node("Mul", {"z", "scale"}, {"y"})};
  p.outputs = {float_value("y", {2, 2})};
  return p;
}

TEST(ConvertUntrained, WeightsThatAreConstantNodesAreTrained) {
  const auto kind_of = [](const OnnxParts& parts, const char* name) {
    const auto result = convert_file(parts);
    EXPECT_TRUE(result.ok()) << result.status().message();
    const ValueId value = result->model.graph.find_value(name);
    return value.valid() ? std::optional(result->model.graph.value(value).kind) : std::nullopt;
  };
  OnnxParts p = weights_in_nodes();
  EXPECT_EQ(kind_of(p, "w"), ValueKind::parameter);
  EXPECT_NE(kind_of(p, "scale"), ValueKind::parameter) << "a number";
  EXPECT_EQ(convert_file(p)->report.notes.size(), 1u);
  // Where the file has initializers, these are the weights, and nobody trains a Constant.
  p.initializers = {float_tensor("b", {2}, floats({1, 2}))};
  p.nodes.push_back(onnx_node("Add", {"y", "b"}, {"sum"}));
  p.outputs = {float_value("sum", {2, 2})};
  EXPECT_EQ(kind_of(p, "b"), ValueKind::parameter);
  EXPECT_NE(kind_of(p, "w"), ValueKind::parameter);
}

// PyTorch writes parameters as initializers: a file of its without any has none.
TEST(ConvertUntrained, ConstantsOfPyTorchStayConstants) {
  const std::string file = onnx_file(weights_in_nodes());
  auto graph = convert::parse_onnx(std::as_bytes(std::span(file)));
  ASSERT_TRUE(graph.ok());
  graph->producer = "pytorch";
  const auto result = convert::convert_onnx(std::move(*graph), "test.onnx", {});
  ASSERT_TRUE(result.ok()) << result.status().message();
  for (const Value& value : result->model.graph.values()) EXPECT_NE(value.kind, ValueKind::parameter) << value.name;
}

TEST(ConvertUntrained, ConstantNodesTakeNewWeights) {
  const TemporaryFolder folder;
  const std::string source = folder.write("in.onnx", onnx_file(weights_in_nodes())), out = folder.file("out.onnx");
  auto result = convert_file(weights_in_nodes());
  ASSERT_TRUE(result.ok());
  const std::vector<float> trained = {6, 5, 4, 3, 2, 1};
  Model& model = result->model;
  ASSERT_TRUE(model.copy_weight(model.graph.find_value("w"), std::as_bytes(std::span(trained))).ok());
  const auto report = convert::export_onnx(os::system_files(), out, model, source);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->tensors, 1u);
  const auto again = convert::load_onnx(out, {});
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->nodes[0].attrs.at("value").tensor->floats, trained);
}

/// As spox writes Silero's detector: both branches of an If hold their weights, as Constant nodes. y = x * w + grid.
OnnxParts weights_in_branches(bool condition) {
  const auto branch = [](const std::string& name, const std::vector<float>& w) {
    const std::string product = name + "_product", grid = name + "_grid", result = name + "_y";
    Message graph;
    graph.message(1, constant_node(name, float_tensor("", {4}, floats(w))));
    graph.message(1, constant_node(grid, float_tensor("", {4}, floats({0, 1, 2, 3}))));
    graph.message(1, onnx_node("Mul", {"x", name}, {product})).message(1, onnx_node("Add", {product, grid}, {result}));
    return Message()
        .text(1, name + "_branch")
        .message(6, graph.text(2, name).message(12, float_value(result, {4})))
        .integer(20, 5);
  };
  OnnxParts p;
  p.inputs = {float_value("x", {4})};
  p.initializers = {Message().integer(2, 9).text(8, "condition").text(9, std::string(1, condition ? '\1' : '\0'))};
  p.nodes = {onnx_node("If", {"condition"}, {"y"}, {branch("then", {7, 5, 3, 2}), branch("else", {4, 9, 8, 6})})};
  p.outputs = {float_value("y", {4})};
  return p;
}

TEST(ConvertUntrained, WeightsOfBranchesAreJudgedLikeOthers) {
  for (const bool condition : {true, false}) {
    const auto result = convert_file(weights_in_branches(condition));
    ASSERT_TRUE(result.ok()) << result.status().message();
    const Graph& graph = result->model.graph;
    const char *taken = condition ? "then" : "else", *other = condition ? "else" : "then";
    ASSERT_TRUE(graph.find_value(taken).valid());
    EXPECT_EQ(graph.value(graph.find_value(taken)).kind, ValueKind::parameter);
    EXPECT_FALSE(graph.find_value(other).valid());
    ASSERT_EQ(result->report.constants.size(), 1u);
    EXPECT_EQ(result->report.constants[0].name, cat(taken, "_grid"));
    EXPECT_EQ(result->report.constants[0].reason, "it counts evenly: a grid, or positions");
  }
}

TEST(ConvertUntrained, BranchesTakeNewWeights) {
  const TemporaryFolder folder;
  const OnnxParts parts = weights_in_branches(false);
  const std::string source = folder.write("in.onnx", onnx_file(parts)), out = folder.file("out.onnx");
  auto result = convert_file(parts);
  ASSERT_TRUE(result.ok()) << result.status().message();
  const std::vector<float> trained = {1, -1, 2, -2};
  Model& model = result->model;
  ASSERT_TRUE(model.copy_weight(model.graph.find_value("else"), std::as_bytes(std::span(trained))).ok());
  const auto report = convert::export_onnx(os::system_files(), out, model, source);
  ASSERT_TRUE(report.ok()) << report.status().message();
  const auto again = convert::load_onnx(out, {});
  ASSERT_TRUE(again.ok()) << again.status().message();
  const auto weight_of = [&](const char* branch) {
    return again->nodes[0].attrs.at(branch).graph->nodes[0].attrs.at("value").tensor->floats;
  };
  EXPECT_EQ(weight_of("else_branch"), trained);
  EXPECT_EQ(weight_of("then_branch"), (std::vector<float>{7, 5, 3, 2}));
}

}  // namespace
}  // namespace graft::test::convert_untrained_test
