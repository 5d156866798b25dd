// Single nodes of attention: what they become with open dimensions, and what is refused. Values are compared in
// tests/torch/patterns.py.
#include <gtest/gtest.h>

#include <set>

#include "runtime/core/graph_text.h"
#include "runtime/core/op_id.gen.h"
#include "tests/support/model_tensors.h"
#include "tests/support/files/onnx_writer.h"
#include "tools/convert/onnx/import/convert_onnx.h"

namespace graft::test::convert_attention_test {
namespace {

Message float_attribute(const std::string& name, float value) {
  return Message().text(1, name).float32(2, value).integer(20, 1);
}

struct Made {
  Status status;
  Model model;
};

/// One node of opset 23, whose inputs have these shapes (-1: an open dimension, of its own); those of `integers` are
/// int32.
Made convert_node(const std::string& op, const std::vector<std::vector<std::int64_t>>& shapes,
                  const std::vector<Message>& attributes, const std::vector<std::string>& outputs = {"y"},
                  const std::set<std::size_t>& integers = {}) {
  OnnxParts p;
  p.opset = 23;
  std::vector<std::string> names;
  for (const auto& shape : shapes) {
    names.push_back(shape.empty() ? "" : "x" + std::to_string(names.size()));
    const std::uint64_t type = integers.contains(names.size() - 1) ? 6 : 1;
    if (!shape.empty()) p.inputs.push_back(typed_value(names.back(), shape, type));
  }
  for (const std::string& output : outputs) {
    if (!output.empty()) p.outputs.push_back(float_value(output, {}));
  }
  const std::size_t dot = op.rfind('.');  // behind the domain
  p.nodes = {onnx_node(dot == std::string::npos ? op : op.substr(dot + 1), names, outputs, attributes)};
  if (dot != std::string::npos) p.nodes[0].text(7, op.substr(0, dot));
  const std::string file = onnx_file(p);
  auto graph = convert::parse_onnx(std::as_bytes(std::span(file)));
  if (!graph.ok()) return {graph.status(), {}};
  auto result = convert::convert_onnx(std::move(graph).value(), "test.onnx");
  if (!result.ok()) return {result.status(), {}};
  return {ok_status(), std::move(result->model)};
}

std::string refusal(const std::string& op, const std::vector<std::vector<std::int64_t>>& shapes,
                    const std::vector<Message>& attributes, const std::vector<std::string>& outputs = {"y"},
                    const std::set<std::size_t>& integers = {}) {
  return convert_node(op, shapes, attributes, outputs, integers).status.message();
}

void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

const std::vector<Message> kHeads = {int_attribute("q_num_heads", 4), int_attribute("kv_num_heads", 2)};

std::vector<Message> with_heads(const std::vector<Message>& more) {
  std::vector<Message> all = kHeads;
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(ConvertAttention, OpenDimensionsNeedNoMask) {
  // The same name of the batch for all; a file's own symbols of lengths would be equal as well.
  const Made made = convert_node("Attention", {{-1, 5, 8}, {-1, 5, 4}, {-1, 5, 4}},
                                 with_heads({int_attribute("is_causal", 1), float_attribute("softcap", 2.0F)}));
  ASSERT_TRUE(made.status.ok()) << made.status.message();
  const std::string text = graph_text(made.model.graph);
  expect_contains(text, "attention(");
  expect_contains(text, "{causal=1, scale=0.7071067811865475, softcap=2.0, window=0}");
  EXPECT_EQ(text.find("softmax"), std::string::npos) << text;
}

// Equal scores: a query gets the mean of the values it sees. ONNX's cases and ONNX Runtime: query i sees key past + i.
TEST(ConvertAttention, QueriesFollowThePast) {
  const Made made =
      convert_node("Attention", {{1, 1, 2, 1}, {1, 1, 3, 1}, {1, 1, 3, 1}, {}, {1, 1, 1, 1}, {1, 1, 1, 1}},
                   {int_attribute("is_causal", 1)}, {"y", "k", "v"});
  ASSERT_TRUE(made.status.ok()) << made.status.message();
  RefTensors tensors = weights_of(made.model);
  tensors["x0"] = {{1, 1, 2, 1}, {0, 0}};
  tensors["x1"] = {{1, 1, 3, 1}, {1, 2, 3}};
  tensors["x2"] = {{1, 1, 3, 1}, {4, 2, 1}};
  tensors["x4"] = {{1, 1, 1, 1}, {5}};
  tensors["x5"] = {{1, 1, 1, 1}, {8}};
  ASSERT_TRUE(interpret(made.model.graph, tensors).ok());
  EXPECT_NEAR(tensors.at("y").data[0], (8 + 4) / 2.0, 1e-6);
  EXPECT_NEAR(tensors.at("y").data[1], (8 + 4 + 2) / 3.0, 1e-6);
}

TEST(ConvertAttention, ScoresAreSpelledOut) {
  const Made made = convert_node("Attention", {{2, 5, 8}, {2, 5, 4}, {2, 5, 4}}, kHeads, {"y", "", "", "scores"});
  ASSERT_TRUE(made.status.ok()) << made.status.message();
  expect_contains(graph_text(made.model.graph), "softmax(");
}

TEST(ConvertAttention, WhatIsRefused) {
  expect_contains(refusal("Attention", {{2, 5, 8}, {2, 5, 4}, {2, 5, 4}}, {int_attribute("q_num_heads", 3)}),
                  "its query of width 8 cannot be parted into 3 heads");
  expect_contains(refusal("Attention", {{2, 5, 8}, {2, 5, 6}, {2, 5, 6}},
                          {int_attribute("q_num_heads", 4), int_attribute("kv_num_heads", 3)}),
                  "its 4 query heads are no multiple of its 3 key heads");
  expect_contains(refusal("Attention", {{2, 5, 8}, {2, 5, 4}, {2, 6, 4}}, kHeads), "do not fit each other");
  expect_contains(refusal("Attention", {{2, 5, 8}, {2, 5, 4}, {2, 5, 4}, {3, 5}}, kHeads), "its mask has the shape");
  expect_contains(refusal("Attention", {{2, 5, 8}, {2, 5, 4}, {2, 5, 4}, {}, {2, 2, 3, 2}}, kHeads),
                  "it has one of past_key and past_value alone");
  expect_contains(
      refusal("Attention", {{2, 5, 8}, {2, 5, 4}, {2, 5, 4}, {}, {2, 2, 3, 2}, {2, 2, 3, 2}, {2}}, kHeads, {"y"}, {6}),
      "it has both a past and nonpad_kv_seqlen");
  expect_contains(refusal("Attention", {{2, 5, 8}, {2, 5, 4}, {2, 5, 4}},
                          with_heads({int_attribute("qk_matmul_output_mode", 1), float_attribute("softcap", 2.0F)}),
                          {"y", "", "", "scores"}),
                  "which versions of the operator mean differently");
  expect_contains(refusal("Attention", {{2, 5, 8}, {2, 5, 4}, {2, 5, 4}, {5, 5}}, kHeads, {"y"}, {3}),
                  "its mask is int32");
  expect_contains(refusal("Attention", {{2, 4, 5, 2}, {2, 2, 5, 2}, {2, 2, 5, 2}}, {int_attribute("kv_num_heads", 4)}),
                  "its kv_num_heads is 4, and its input 1 has 2 heads");
  // Causal over more keys than queries: the triangle has to be written out.
  expect_contains(
      refusal("Attention", {{2, 5000, 8}, {2, 5001, 4}, {2, 5001, 4}}, with_heads({int_attribute("is_causal", 1)})),
      "its causal mask of 5000 by 5001 tokens has to be written out");
}

TEST(ConvertAttention, RotationsThatAreRefused) {
  expect_contains(refusal("RotaryEmbedding", {{2, 4, 5, 6}, {2, 5, 2}, {2, 5, 2}}, {}), "for 3 pairs");
  expect_contains(
      refusal("RotaryEmbedding", {{2, 4, 5, 6}, {2, 5, 3}, {2, 5, 3}}, {int_attribute("rotary_embedding_dim", 8)}),
      "it turns 8 elements of heads of 6");
  expect_contains(refusal("RotaryEmbedding", {{2, 5, 24}, {2, 5, 3}, {2, 5, 3}}, {}), "cannot be parted into 0 heads");
}

// ONNX Runtime's operator: a product gives all three, of sizes of their own.
TEST(ConvertAttention, OneProductWithMasksAndABias) {
  const std::string op = "com.microsoft.Attention";
  const std::vector<Message> attributes = {int_attribute("num_heads", 2),
                                           ints_attribute("qkv_hidden_sizes", {4, 4, 6})};
  const std::vector<std::int64_t> x = {2, 5, 8}, w = {8, 14}, none = {};
  const auto text_of = [&](const std::vector<std::vector<std::int64_t>>& shapes) {
    const Made made = convert_node(op, shapes, attributes, {"y"}, {3});
    EXPECT_TRUE(made.status.ok()) << made.status.message();
    return graph_text(made.model.graph);
  };
  const std::string plain = text_of({x, w});
  EXPECT_EQ(plain.find("add("), std::string::npos) << "without a bias: " << plain;
  expect_contains(plain, "f32[2, 5, 6]");
  expect_contains(text_of({x, w, {14}}), "x2)");
  // 0 where a key is hidden: for all queries, or for each.
  expect_contains(text_of({x, w, none, {2, 5}}), "[2, 1, 1, 5]");
  expect_contains(text_of({x, w, none, {2, 5, 5}}), "[2, 1, 5, 5]");
  const std::string biased = text_of({x, w, none, none, none, {2, 2, 5, 5}});
  EXPECT_NE(biased.find("x5", biased.find("x5") + 1), std::string::npos) << "added to the scores: " << biased;
  expect_contains(refusal(op, {x, {8, 15}}, attributes), "do not add up to 15");
}

TEST(ConvertAttention, NoMoreInputsThanThereAre) {
  expect_contains(refusal("RotaryEmbedding", {{2, 4, 5, 6}, {2, 5, 3}, {2, 5, 3}, {2, 5}, {1}}, {}),
                  "it has 5 inputs where 3 to 4 are allowed");
}

}  // namespace
}  // namespace graft::test::convert_attention_test
