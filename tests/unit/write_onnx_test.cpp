// Graphs written as ONNX files and read again give what they gave: ops that ONNX lacks are composed of those that it
// has. What other programs make of such files is tests/torch/judge.py's to say.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "platform/os/file.h"
#include "tests/support/files/temporary_folder.h"
#include "tests/support/model_tensors.h"
#include "tests/support/parse_graph.h"
#include "tools/convert/onnx/export/write_onnx.h"
#include "tools/convert/onnx/import/convert_onnx.h"

namespace graft::test::write_onnx_test {
namespace {

struct Written {
  std::int64_t opset = 0;
  std::string fault;  ///< why it was not written
};

/// A model of the text: constants have contents there, parameters some waves.
Model model_of(std::string_view text) {
  auto parsed = parse_graph(text);
  EXPECT_TRUE(parsed.ok()) << parsed.status().message();
  Model model;
  if (!parsed.ok()) return model;
  model.graph = parsed->graph;
  for (std::uint32_t i = 0; i < model.graph.values().size(); ++i) {
    const Value& value = model.graph.values()[i];
    if (value.kind == ValueKind::constant) {
      EXPECT_TRUE(model.copy_weight({i}, value.contents).ok());
    }
    if (value.kind != ValueKind::parameter) continue;
    std::vector<float> numbers;
    for (std::uint64_t k = 0; k < value.shape.elements(); ++k)
      numbers.push_back(std::sin(1.3F * static_cast<float>(k)));
    EXPECT_TRUE(model.copy_weight({i}, std::as_bytes(std::span(numbers))).ok());
  }
  return model;
}

/// Floats in waves, integers from -1 on, so that some are no index; truth values in turn.
RefTensor input_of(const Value& value) {
  RefTensor tensor{value.shape.values(), {}};
  for (std::uint64_t k = 0; k < value.shape.elements(); ++k) {
    const auto at = static_cast<double>(k);
    tensor.data.push_back(value.dtype == DType::f32   ? static_cast<float>(std::sin(0.7 * at + value.shape.rank()))
                          : value.dtype == DType::i32 ? static_cast<double>(k % 4) - 1
                                                      : static_cast<double>(k % 2));
  }
  return tensor;
}

RefTensors results(const Model& model) {
  RefTensors tensors = weights_of(model);
  for (const ValueId id : model.graph.inputs()) tensors[model.graph.value(id).name] = input_of(model.graph.value(id));
  const Status status = interpret(model.graph, tensors);
  EXPECT_TRUE(status.ok()) << status.message();
  return tensors;
}

/// Written, read again and run: all outputs are what they were, within f32.
Written expect_same(std::string_view text) {
  const Model model = model_of(text);
  const TemporaryFolder folder;
  const std::string path = folder.file("m.onnx");
  const auto report = convert::write_onnx(os::system_files(), path, model);
  if (!report.ok()) return {0, report.status().message()};
  auto again = convert::convert_onnx(std::filesystem::path(path));
  EXPECT_TRUE(again.ok()) << text << again.status().message();
  if (!again.ok()) return {};
  const RefTensors before = results(model), after = results(again->model);
  for (const Output& output : model.graph.outputs()) {
    const RefTensor& wanted = before.at(model.graph.value(output.value).name);
    const ValueId value = again->model.graph.find_value(output.name);
    const auto found = std::ranges::find(again->model.graph.outputs(), output.name, &Output::name);
    EXPECT_NE(found, again->model.graph.outputs().end()) << output.name;
    if (found == again->model.graph.outputs().end()) continue;
    const RefTensor& got = after.at(again->model.graph.value(found->value).name);
    EXPECT_EQ(got.dims, wanted.dims) << text << value.index;
    for (std::size_t i = 0; i < std::min(got.data.size(), wanted.data.size()); ++i) {
      EXPECT_NEAR(got.data[i], wanted.data[i], 1e-5) << text << output.name << " element " << i;
    }
  }
  const std::string note = report->notes.empty() ? "" : report->notes[0];
  const std::size_t at = note.find("opset ");
  return {at == std::string::npos ? 0 : std::atol(note.c_str() + at + 6), ""};
}

TEST(WriteOnnx, AttentionOfEveryKind) {
  const std::string operands = R"(
    input q: f32[2, 3, 4, 4]
    input k: f32[2, 5, 2, 4]
    input v: f32[2, 5, 2, 4]
  )";
  for (const char* attrs : {"", "causal=1", "window=2", "causal=1, window=3, scale=0.3", "softcap=1.5, causal=1"}) {
    EXPECT_EQ(expect_same(operands + "y, s = attention(q, k, v) {" + attrs + "}\n output y = y\n").opset, 17) << attrs;
  }
  EXPECT_EQ(expect_same(operands + R"(
    input m: f32[2, 1, 3, 5]
    y, s = attention(q, k, v, _, m) {causal=1}
    output y = y
  )")
                .opset,
            17);
  // The last query of each item sees no key: what attention gives then is 0.
  EXPECT_EQ(expect_same(R"(
    input q: f32[2, 4, 2, 4]
    input k: f32[2, 4, 2, 4]
    input n: i32[2, 4]
    y, s = attention(q, k, k, n) {causal=1}
    output y = y
  )")
                .opset,
            17);
  EXPECT_NE(expect_same(operands + "y, s = attention(q, k, v) {from_step=1}\n output y = y\n").fault.find("the place"),
            std::string::npos);
}

TEST(WriteOnnx, RotationsPlacesAndGates) {
  for (const char* attrs :
       {"", "interleaved=1", "rotated=4", "interleaved=1, rotated=4, magnitude=1.5", "inverse=1", "theta=500.0"}) {
    EXPECT_EQ(expect_same(cat(R"(
      input x: f32[2, 3, 2, 6]
      y = rope(x) {)",
                              attrs, R"(}
      output y = y
    )"))
                  .opset,
              17)
        << attrs;
  }
  EXPECT_EQ(expect_same(R"(
    input x: f32[2, 3, 2, 6]
    input p: i32[2, 3]
    constant f: f32[3] = 1.0, 0.5, 0.25
    y = rope(x, p, f)
    z = positions() {shape=shape[2, 3]}
    output y = y
    output z = z
  )")
                .opset,
            17);
  for (const char* activation : {"silu", "gelu", "gelu_tanh"}) {
    EXPECT_EQ(expect_same(cat(R"(
      input a: f32[2, 3]
      input b: f32[2, 3]
      y = gated(a, b) {activation=")",
                              activation, R"("}
      output y = y
    )"))
                  .opset,
              17)
        << activation;
  }
  EXPECT_EQ(expect_same(R"(
    input x: f32[2, 3]
    input y: f32[2, 4]
    parameter a: f32[2, 3]
    parameter b: f32[4, 2]
    z = lora(y, x, a, b) {scale=0.5}
    output z = z
  )")
                .opset,
            17);
}

TEST(WriteOnnx, IntegersByTheirBits) {
  EXPECT_EQ(expect_same(R"(
    input a: i32[8]
    constant n: i32[8] = 200, 3, -5, 40000, 70000, 0, 1, 2
    x = narrow(n) {format="i8"}
    y = narrow(n) {format="u16"}
    z = shift_left(n, a)
    output x = x
    output y = y
  )")
                .opset,
            17);
  EXPECT_EQ(expect_same(R"(
    input a: i32[4]
    constant n: i32[4] = 12, -3, 7, 255
    x = bitwise_and(a, n)
    y = bitwise_xor(a, n)
    s = reduce_max(x) {axes=[0], keepdims=0}
    output x = x
    output y = y
    output s = s
  )")
                .opset,
            18);  // whose reductions take their axes otherwise
}

// ONNX's Mod has the divisor's sign for integers only.
TEST(WriteOnnx, RemaindersWithEitherSign) {
  EXPECT_EQ(expect_same(R"(
    input a: f32[6]
    input n: i32[6]
    constant b: f32[6] = 0.3, -0.3, 0.5, -0.5, 0.7, -0.7
    constant three: i32[1] = -3
    x = remainder(a, b) {fmod=0}
    y = remainder(a, b) {fmod=1}
    z = remainder(n, three) {fmod=0}
    output x = x
    output y = y
    output z = z
  )")
                .opset,
            17);
}

TEST(WriteOnnx, WhatIsPickedByIndex) {
  EXPECT_EQ(expect_same(R"(
    input x: f32[2, 3, 4]
    input i: i32[2, 2, 1]
    y = gather_elements(x, i) {axis=1, zero_miss=1}
    output y = y
  )")
                .opset,
            17);
  EXPECT_EQ(expect_same(R"(
    input x: f32[2, 3]
    input i: i32[2, 3]
    input u: f32[2, 3]
    y = scatter_elements(x, i, u) {axis=1, reduction="max"}
    output y = y
  )")
                .opset,
            18);
  EXPECT_EQ(expect_same(R"(
    constant i: i32[2, 2, 2] = 0, 1, -1, 2, 1, 0, 0, -3
    y = nd_index(i) {dims=shape[2, 3], batches=1}
    z = nd_index(i) {dims=shape[2, 3], batches=0}
    output y = y
    output z = z
  )")
                .opset,
            17);
}

TEST(WriteOnnx, LossesSumsAndStatistics) {
  for (const char* smoothing : {"0.0", "0.2"}) {
    EXPECT_EQ(expect_same(cat(R"(
      input x: f32[4, 3]
      input t: i32[4]
      y = cross_entropy(x, t) {ignore_index=-1, label_smoothing=)",
                              smoothing, R"(}
      output y = y
    )"))
                  .opset,
              17);
  }
  EXPECT_EQ(expect_same(R"(
    input x: f32[2, 3, 4]
    y, m, d = layer_norm(x) {axis=1, epsilon=0.001}
    s = cumsum(x) {axis=1, exclusive=1, reverse=1}
    output y = y
    output m = m
    output d = d
    output s = s
  )")
                .opset,
            17);
}

TEST(WriteOnnx, ConstantsThatAreOutputsOrTruthValues) {
  Model model = model_of(R"(
    input x: f32[2, 2]
    constant seen: boolean[2, 2] = 1, 0, 0, 1
    constant n: i32[2] = 3, -4
    y = where(seen, x, x)
    output y = y
    output n = n
  )");
  model.graph.mutable_value(model.graph.find_value("n")).source_type = SourceType::i64;
  const TemporaryFolder folder;
  const std::string path = folder.file("m.onnx");
  ASSERT_TRUE(convert::write_onnx(os::system_files(), path, model).ok());
  const auto again = convert::convert_onnx(std::filesystem::path(path));
  ASSERT_TRUE(again.ok()) << again.status().message();
  const ValueId n = again->model.graph.outputs()[1].value;
  EXPECT_EQ(again->model.graph.value(n).source_type, SourceType::i64);
}

}  // namespace
}  // namespace graft::test::write_onnx_test
