// Numbers that ONNX Runtime computes, where ONNX's text, or another reading of it, gives others.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/passes/bind.h"
#include "tests/support/model_tensors.h"
#include "tests/support/files/onnx_writer.h"
#include "tools/convert/onnx/import/convert_onnx.h"

namespace graft::test::convert_numbers_test {
namespace {

std::string floats_of(const std::vector<float>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}
Message tensor(const std::string& name, const std::vector<std::int64_t>& dims, const std::vector<float>& values) {
  return float_tensor(name, dims, floats_of(values));
}
Message whole_tensor(const std::string& name, const std::vector<std::int64_t>& values) {
  const std::string raw(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(std::int64_t));
  return Message().integer(1, values.size()).integer(2, 7).text(8, name).text(9, raw);
}
Message words(const std::string& name, const std::string& value) {
  return Message().text(1, name).text(4, value).integer(20, 3);
}
Message float_attribute(const std::string& name, float value) {
  return Message().text(1, name).float32(2, value).integer(20, 1);
}

std::vector<double> counted(std::size_t count) {
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<double>(i);
  return values;
}

struct Computed {
  const char* name;
  OnnxParts parts;
  std::vector<std::int64_t> dims;  ///< of x
  std::vector<double> x;
  std::vector<double> y;  ///< by ONNX Runtime 1.30
};

OnnxParts one_node(Message node, std::vector<std::int64_t> dims, std::vector<Message> initializers,
                   std::uint64_t opset) {
  OnnxParts p;
  p.opset = opset;
  p.nodes = {std::move(node)};
  p.inputs = {float_value("x", dims)};
  p.outputs = {float_value("y", {-1})};
  p.initializers = std::move(initializers);
  return p;
}

std::vector<Computed> rows() {
  std::vector<Computed> all;
  for (const char* mode : {"linear", "cubic"}) {
    all.push_back({"corners are aligned by the whole size of the result",
                   one_node(onnx_node("Resize", {"x", "", "s"}, {"y"},
                                      {words("mode", mode), words("coordinate_transformation_mode", "align_corners")}),
                            {1, 1, 2, 4}, {tensor("s", {4}, {1, 1, 1.5F, 0.6F})}, 17),
                   {1, 1, 2, 4},
                   counted(8),
                   {0, 3, 2, 5, 4, 7}});
  }
  const std::vector<std::pair<std::vector<std::int64_t>, std::vector<double>>> wraps = {
      {{-2, 3}, {2, 3, 4, 2, 3, 4}},
      {{3, -2}, {0, 1, 2, 0, 1, 2}},
      {{-1, -1}, {1, 2, 3}},
      {{7, 0}, {3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4}},
      {{-1, 7}, {1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3}}};
  for (const auto& [pads, y] : wraps) {
    all.push_back(
        {"what is left after the crop is wrapped",
         one_node(onnx_node("Pad", {"x", "p"}, {"y"}, {words("mode", "wrap")}), {5}, {whole_tensor("p", pads)}, 19),
         {5},
         counted(5),
         y});
  }
  all.push_back({"clip limits the gates and not the cell",
                 one_node(onnx_node("LSTM", {"x", "w", "r"}, {"y"},
                                    {int_attribute("hidden_size", 1), float_attribute("clip", 0.5F)}),
                          {4, 1, 1}, {tensor("w", {1, 4, 1}, {1, 1, 1, 1}), tensor("r", {1, 4, 1}, {0, 0, 0, 0})}, 17),
                 {4, 1, 1},
                 {5, 5, 5, 5},
                 {0.17426970601081848, 0.27109864354133606, 0.32450032234191895, 0.35480234026908875}});
  return all;
}

std::vector<double> computed(const OnnxParts& parts, RefTensors feeds, const std::string& output) {
  const std::string file = onnx_file(parts);
  auto source = convert::parse_onnx(std::as_bytes(std::span(file)));
  EXPECT_TRUE(source.ok());
  const auto converted = convert::convert_onnx(std::move(source).value(), "test.onnx", {});
  EXPECT_TRUE(converted.ok()) << converted.status().message();
  if (!converted.ok()) return {};
  feeds.merge(weights_of(converted->model));
  const Status status = interpret(converted->model.graph, feeds);
  EXPECT_TRUE(status.ok()) << status.message();
  return feeds[output].data;
}

TEST(ConvertNumbers, AreThoseOfOnnxRuntime) {
  for (const Computed& row : rows()) {
    const std::vector<double> y = computed(row.parts, {{"x", {row.dims, row.x}}}, "y");
    ASSERT_EQ(y.size(), row.y.size()) << row.name;
    for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], row.y[i], 1e-6) << row.name << ", element " << i;
  }
}

TEST(ConvertNumbers, AQueryThatSeesNoKeyGetsZeros) {
  const Message mask =
      Message().integer(1, 2).integer(1, 2).integer(2, 9).text(8, "m").text(9, std::string("\1\0\0\0", 4));
  OnnxParts p = one_node(
      onnx_node("Attention", {"x", "x", "x", "m"}, {"y", "", "", "s"}, {int_attribute("qk_matmul_output_mode", 3)}),
      {1, 1, 2, 1}, {mask}, 23);
  p.outputs.push_back(float_value("s", {-1}));
  const RefTensors feeds = {{"x", {{1, 1, 2, 1}, {1, 2}}}};
  EXPECT_EQ(computed(p, feeds, "s"), (std::vector<double>{1, 0, 0, 0}));
  EXPECT_EQ(computed(p, feeds, "y"), (std::vector<double>{1, 0}));
}

// A tensor without elements is an input as any other, and what is computed of it is known.
TEST(ConvertNumbers, AnEmptyInputStaysAnInput) {
  OnnxParts p = one_node(onnx_node("Concat", {"x", "e"}, {"y"}, {int_attribute("axis", 0)}), {2}, {}, 17);
  p.inputs.push_back(float_value("e", {0}));
  const std::vector<double> y = computed(p, {{"x", {{2}, {1, 2}}}, {"e", {{0}, {}}}}, "y");
  EXPECT_EQ(y, (std::vector<double>{1, 2}));
  const std::string file = onnx_file(p);
  auto source = convert::parse_onnx(std::as_bytes(std::span(file)));
  ASSERT_TRUE(source.ok());
  const auto converted = convert::convert_onnx(std::move(source).value(), "test.onnx", {});
  ASSERT_TRUE(converted.ok()) << converted.status().message();
  const Graph& graph = converted->model.graph;
  ASSERT_TRUE(graph.find_value("e").valid());
  EXPECT_EQ(graph.value(graph.find_value("e")).kind, ValueKind::input);
}

TEST(ConvertNumbers, DoublesBeyondFloat32AreRefusedByName) {
  constexpr double kMost = 0x1.fffffep127, kFirstBeyond = 0x1.ffffffp127,
                   kInf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(convert::narrowed(std::nextafter(kFirstBeyond, 0.0)), static_cast<float>(kMost));
  EXPECT_EQ(convert::narrowed(-kFirstBeyond), std::nullopt);
  EXPECT_EQ(convert::narrowed(-kInf), -std::numeric_limits<float>::infinity()) << "it was infinite before";
  EXPECT_EQ(convert::narrowed(1e-300), 0.0F);
  const auto problems = [](double value, bool raw) {
    Message w = Message().integer(1, 1).integer(2, 11).text(8, "w");
    const std::string bytes(reinterpret_cast<const char*>(&value), sizeof value);
    OnnxParts p = one_node(onnx_node("Mul", {"x", "w"}, {"y"}), {1}, {w.text(raw ? 9 : 10, bytes)}, 17);
    p.inputs = {typed_value("x", {1}, 11)};
    const std::string file = onnx_file(p);
    auto source = convert::parse_onnx(std::as_bytes(std::span(file)));
    EXPECT_TRUE(source.ok()) << source.status().message();
    return convert::convert_onnx(std::move(source).value(), "test.onnx", {}).status().message();
  };
  for (const bool raw : {false, true}) {
    EXPECT_EQ(problems(3e38, raw), "");
    const std::string said = problems(1e39, raw);
    EXPECT_NE(said.find("\"w\" cannot be used: it holds 1e+39, which is beyond the range of float32."),
              std::string::npos)
        << said;
  }
}

}  // namespace
}  // namespace graft::test::convert_numbers_test
