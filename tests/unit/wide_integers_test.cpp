// Arithmetic of 64 bits that may not fit 32 is refused before it runs, and nothing else is.
#include <gtest/gtest.h>

#include "runtime/passes/wide_integers.h"
#include "tests/support/model_tensors.h"
#include "tests/support/files/onnx_writer.h"
#include "tools/convert/onnx/import/convert_onnx.h"

namespace graft::test::wide_integers_test {
namespace {

constexpr std::uint64_t kInt32 = 6, kInt64 = 7;

Message numbers(const std::string& name, const std::vector<std::int64_t>& values) {
  const std::string raw(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(std::int64_t));
  return Message().integer(1, values.size()).integer(2, kInt64).text(8, name).text(9, raw);
}

struct Row {
  const char* name;
  std::vector<Message> nodes;
  std::uint64_t type;
  passes::IntegerSpan x;  ///< what the inputs x and z [4] hold
  bool overflows;
};

std::string found(const Row& row) {
  OnnxParts p;
  p.opset = 18;
  p.nodes = row.nodes;
  p.inputs = {typed_value("x", {4}, row.type), typed_value("z", {4}, row.type)};
  p.outputs = {typed_value("y", {-1}, row.type)};
  p.initializers = {numbers("big", {100000}), numbers("two", {2}), numbers("axis", {0}), numbers("places", {0, 1, 2, 3})};
  const std::string file = onnx_file(p);
  auto source = convert::parse_onnx(std::as_bytes(std::span(file)));
  const auto converted = convert::convert_onnx(std::move(source).value(), "test.onnx", {});
  EXPECT_TRUE(converted.ok()) << row.name << ": " << converted.status().message();
  if (!converted.ok()) return {};
  const Model& model = converted->model;
  passes::WideIntegers wide(model.graph,
                            [&](const std::string& name) { return model.weight(model.graph.find_value(name)); });
  EXPECT_EQ(wide.is_needed(), row.type == kInt64) << row.name;
  wide.set_input("x", row.x);
  wide.set_input("z", row.x);
  return wide.find_overflow();
}

TEST(WideIntegers, OnlyWhatMayNotFitIsRefused) {
  const auto node = [](const char* op, const std::vector<std::string>& inputs,
                       const std::vector<Message>& attributes = {}) {
    return std::vector<Message>{onnx_node(op, inputs, {"y"}, attributes)};
  };
  const Message mul = Message().text(1, "reduction").text(4, "mul").integer(20, 3);
  const std::vector<Row> rows = {
      {"a product of inputs", node("Mul", {"x", "z"}), kInt64, {0, 100000}, true},
      {"a small product of inputs", node("Mul", {"x", "z"}), kInt64, {-1000, 1000}, false},
      {"a product with a constant", node("Mul", {"x", "big"}), kInt64, {0, 30000}, true},
      {"a sum", node("Add", {"x", "z"}), kInt64, {0, 2000000000}, true},
      {"a difference", node("Sub", {"x", "z"}), kInt64, {-2000000000, 2000000000}, true},
      {"a sum over an axis", node("ReduceSum", {"x", "axis"}), kInt64, {0, 600000000}, true},
      {"running sums", node("CumSum", {"x", "axis"}), kInt64, {-600000000, 0}, true},
      {"running sums of a mask", node("CumSum", {"x", "axis"}), kInt64, {0, 1}, false},
      {"the least number's opposite", node("Neg", {"x"}), kInt64, {-2147483648LL, 0}, true},
      {"in 32 bits it wraps around, as in the source", node("Mul", {"x", "z"}), kInt32, {0, 100000}, false},
      {"sums of products", node("MatMul", {"x", "z"}), kInt64, {0, 100000}, true},
      {"small sums of products", node("MatMul", {"x", "z"}), kInt64, {0, 1000}, false},
      {"sums of products in 32 bits", node("MatMul", {"x", "z"}), kInt32, {0, 100000}, false},
      {"a product with what is scattered",
       {onnx_node("ScatterElements", {"x", "places", "z"}, {"y"}, {mul})},
       kInt64,
       {0, 100000},
       true},
      {"a chain",
       {onnx_node("Mul", {"x", "big"}, {"a"}), onnx_node("Div", {"a", "two"}, {"b"}),
        onnx_node("Mul", {"b", "big"}, {"y"})},
       kInt64,
       {0, 10},
       true},
  };
  for (const Row& row : rows) {
    const std::string text = found(row);
    EXPECT_EQ(!text.empty(), row.overflows) << row.name << ": " << text;
    if (row.overflows) {
      EXPECT_NE(text.find("int64"), std::string::npos) << text;
    }
  }
}

}  // namespace
}  // namespace graft::test::wide_integers_test
