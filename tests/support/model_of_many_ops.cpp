#include <gtest/gtest.h>

#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"
#include "tests/support/files/model_example.h"

namespace graft::test {
namespace {

/// Adds values and nodes by name, and fails the test on an error.
class Maker {
 public:
  Model model;

  ValueId value(const char* name, DType dtype, Shape shape, ValueKind kind) {
    auto id = model.graph.add_value(name, dtype, std::move(shape), kind);
    EXPECT_TRUE(id.ok()) << id.status().message();
    if (kind != ValueKind::input) {
      const Value& made = model.graph.value(*id);
      const Status status = model.copy_weight(*id, Bytes(made.shape.elements() * dtype_size(dtype)));
      EXPECT_TRUE(status.ok()) << status.message();
    }
    return *id;
  }
  ValueId parameter(const char* name, Shape shape) {
    return value(name, DType::f32, std::move(shape), ValueKind::parameter);
  }
  /// Output 0; kNoValue where the build lacks the op, or an input comes from such a one.
  ValueId node(Op op, std::vector<ValueId> inputs, Attrs attrs = {}) {
    if (op_def(op).infer == nullptr) return kNoValue;
    for (const ValueId input : inputs) {
      if (!input.valid()) return kNoValue;
    }
    auto id = model.graph.add_node(op, std::move(inputs), std::move(attrs));
    EXPECT_TRUE(id.ok()) << id.status().message();
    if (!id.ok() || model.graph.node(*id).outputs.empty()) return kNoValue;
    return model.graph.node(*id).outputs[0];
  }
};

void add_image_ops(Maker& m, ValueId x) {
  const ValueId kernel = m.parameter("conv.weight", {6, 3, 3, 4});
  const ValueId bias = m.parameter("conv.bias", {6});
  const Attrs window{
      {"strides", Ints{1, 1}}, {"pads", Ints{1, 1, 1, 1}}, {"dilations", Ints{1, 1}}, {"groups", std::int64_t{1}}};
  const ValueId y = m.node(Op::conv, {x, kernel, bias}, window);
  const ValueId up = m.parameter("up.weight", {6, 2, 2, 3});
  Attrs transposed = window;
  transposed.set("strides", Ints{2, 2});
  transposed.set("output_padding", Ints{1, 1});
  m.node(Op::conv_transpose, {y, up}, transposed);
  const Attrs pool{
      {"kernel", Ints{2, 2}}, {"strides", Ints{2, 2}}, {"pads", Ints{0, 0, 0, 0}}, {"ceil_mode", std::int64_t{1}}};
  m.node(Op::max_pool, {x}, pool);
  Attrs average = pool;
  average.set("count_include_pad", std::int64_t{1});
  m.node(Op::avg_pool, {x}, average);
  m.node(Op::resize, {x},
         {{"sizes", Ints{16, 5}},
          {"mode", std::string("linear")},
          {"coordinates", std::string("half_pixel")},
          {"scale_h", 2.0},
          {"scale_w", 0.625}});
  const ValueId four = m.parameter("four", {4});
  m.node(Op::batch_norm, {x, four, four, four, four}, {{"epsilon", 1e-5}});
  m.node(Op::batch_norm_train, {x, four, four}, {{"epsilon", 1e-5}});
  m.node(Op::layer_norm, {x, four, four}, {{"axis", std::int64_t{3}}, {"epsilon", 1e-5}});
  m.node(Op::rms_norm, {x, four}, {{"epsilon", 1e-6}, {"add_unit", std::int64_t{1}}});
  m.node(Op::rope, {x}, {{"theta", 10000.0}, {"interleaved", std::int64_t{1}}});
  m.node(Op::gated, {x, x}, {{"activation", std::string("gelu")}});
  m.node(Op::lora, {x, x, m.parameter("lora.a", {2, 4}), m.parameter("lora.b", {4, 2})}, {{"scale", 0.5}});
  m.node(Op::attention, {x, x, x}, {{"causal", std::int64_t{1}}, {"window", std::int64_t{3}}});
  m.node(Op::group_norm, {x, four, four}, {{"groups", std::int64_t{2}}, {"epsilon", 1e-5}});
}

void add_shape_ops(Maker& m, ValueId x) {
  const Dim batch = Dim::symbol("batch");
  m.node(Op::pad, {x}, {{"pads", Ints{0, 1, 2, 0, 0, 1, -1, 0}}, {"mode", std::string("constant")}, {"value", 0.5}});
  constexpr std::int64_t kToEnd = 2147483647;
  m.node(Op::slice, {x},
         {{"starts", Ints{0, 7, 1, 0}}, {"ends", Ints{kToEnd, -2147483648, 5, 4}}, {"steps", Ints{1, -1, 2, 1}}});
  m.node(Op::concat, {x, x}, {{"axis", std::int64_t{3}}});
  const ValueId indices = m.value("indices", DType::i32, {2, 3}, ValueKind::input);
  m.node(Op::gather, {x, indices}, {{"axis", std::int64_t{1}}});
  m.node(Op::transpose, {x}, {{"perm", Ints{0, 3, 1, 2}}});
  m.node(Op::reshape, {x}, {{"shape", Shape{batch, 4, 64}}});
  m.node(Op::expand, {x}, {{"shape", Shape{2, batch, 8, 8, 4}}});
  const ValueId gates = m.value("recurrent.gates", DType::f32, {Dim::symbol("seq"), batch, 8}, ValueKind::input);
  m.node(Op::lstm, {gates, m.parameter("recurrent.r", {8, 2})},
         {{"reverse", std::int64_t{1}}, {"activations", std::string("Sigmoid,Elu(0.5),Tanh")}, {"clip", 3.0}});
  m.node(Op::full, {}, {{"shape", Shape{batch, 3}}, {"value", 2.0}, {"dtype", std::int64_t{0}}});
}

void add_number_ops(Maker& m, ValueId x) {
  const ValueId matrix = m.parameter("matrix", {5, 4});
  m.node(Op::matmul, {x, matrix}, {{"trans_b", std::int64_t{1}}});
  const ValueId sum = m.node(Op::add, {x, x});
  m.node(Op::where, {m.node(Op::less, {x, sum}), x, sum});
  m.node(Op::clip, {m.node(Op::gelu, {x}, {{"approximate", std::string("tanh")}})}, {{"min", 0.0}, {"max", 1.0}});
  m.node(Op::leaky_relu, {x}, {{"alpha", 0.1}});
  m.node(Op::cast, {x}, {{"to", std::int64_t{1}}});
  m.node(Op::dropout, {x}, {{"p", 0.5}, {"training", std::int64_t{1}}, {"stream", std::int64_t{3}}});
  m.node(Op::reduce_mean, {x}, {{"axes", Ints{1, 2}}, {"keepdims", std::int64_t{0}}});
  m.node(Op::arg_max, {x}, {{"axis", std::int64_t{3}}, {"keepdims", std::int64_t{1}}});
  m.node(Op::softmax, {x}, {{"axis", std::int64_t{3}}});
  const ValueId labels = m.value("labels", DType::i32, {Dim::symbol("batch"), 8, 8}, ValueKind::input);
  m.node(Op::cross_entropy, {x, labels}, {{"ignore_index", std::int64_t{-1}}, {"label_smoothing", 0.1}});
  m.node(Op::topk_correct, {x, labels}, {{"k", std::int64_t{2}}});
}

}  // namespace

Model model_of_many_ops() {
  Maker m;
  const ValueId x = m.value("x", DType::f32, {Dim::symbol("batch"), 8, 8, 4}, ValueKind::input);
  add_image_ops(m, x);
  add_shape_ops(m, x);
  add_number_ops(m, x);
  for (std::uint32_t i = 0; i < m.model.graph.nodes().size(); i += 5) {
    const Node& node = m.model.graph.nodes()[i];
    if (!node.outputs.empty()) m.model.graph.add_output(node.name, node.outputs[0]);
  }
  return std::move(m.model);
}

}  // namespace graft::test
