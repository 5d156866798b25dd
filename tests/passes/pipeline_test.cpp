// All passes that come before differentiation, on a network as an exporter writes it.
#include "runtime/core/op_id.gen.h"
#include "runtime/passes/pipeline.h"

#include <gtest/gtest.h>

#include "runtime/core/graph_text.h"
#include "runtime/core/op_def.h"
#include "tests/support/parse_graph.h"

namespace graft::test::passes_pipeline_test {
namespace {

// A transformer's layer as PyTorch 1.13 exports it: layer norm, attention and GELU spelled out.
constexpr std::string_view kLayer = R"(
  input x: f32[2, 6, 8]
  parameter norm.weight: f32[8]
  parameter norm.bias: f32[8]
  parameter qkv.weight: f32[8, 24]
  parameter qkv.bias: f32[24]
  parameter up.weight: f32[8, 16]
  parameter up.bias: f32[16]
  parameter down.weight: f32[16, 8]
  constant two: f32[] = 2.0
  constant scale: f32[] = 0.5
  constant root: f32[] = 1.4142135
  constant one: f32[] = 1.0
  constant half: f32[] = 0.5
  m = reduce_mean(x) {axes=[-1], keepdims=1}
  c = sub(x, m)
  q2 = pow(c, two)
  v = reduce_mean(q2) {axes=[-1], keepdims=1}
  ve = affine(v) {alpha=1.0, beta=1e-05}
  d = sqrt(ve)
  n = div(c, d)
  nw = mul(n, norm.weight)
  normal = add(nw, norm.bias)
  p = matmul(normal, qkv.weight)
  qkv = add(qkv.bias, p)
  r = reshape(qkv) {shape=shape[2, 6, 3, 2, 4]}
  t = transpose(r) {perm=[2, 0, 3, 1, 4]}
  s0 = slice(t) {ends=[1, 2147483647, 2147483647, 2147483647, 2147483647], starts=[0, 0, 0, 0, 0], steps=[1, 1, 1, 1, 1]}
  s1 = slice(t) {ends=[2, 2147483647, 2147483647, 2147483647, 2147483647], starts=[1, 0, 0, 0, 0], steps=[1, 1, 1, 1, 1]}
  s2 = slice(t) {ends=[3, 2147483647, 2147483647, 2147483647, 2147483647], starts=[2, 0, 0, 0, 0], steps=[1, 1, 1, 1, 1]}
  q = reshape(s0) {shape=shape[2, 2, 6, 4]}
  k = reshape(s1) {shape=shape[2, 2, 6, 4]}
  w = reshape(s2) {shape=shape[2, 2, 6, 4]}
  kt = transpose(k) {perm=[0, 1, 3, 2]}
  scores = matmul(q, kt)
  scaled = mul(scores, scale)
  shares = softmax(scaled) {axis=3}
  mixed = matmul(shares, w)
  back = transpose(mixed) {perm=[0, 2, 1, 3]}
  joined = reshape(back) {shape=shape[2, 6, 8]}
  skip = add(x, joined)
  u = matmul(skip, up.weight)
  up = add(up.bias, u)
  e0 = div(up, root)
  e1 = erf(e0)
  e2 = add(e1, one)
  e3 = mul(up, e2)
  active = mul(e3, half)
  down = matmul(active, down.weight)
  y = add(skip, down)
  output y
)";

std::string ops_of(const Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes()) text += cat(text.empty() ? "" : " ", op_name(node.op));
  return text;
}

TEST(PassesPipeline, ATransformersLayerIsWhatGraftWouldHaveWritten) {
  auto parsed = parse_graph(kLayer);
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  auto prepared = passes::prepare(parsed->graph, {});
  ASSERT_TRUE(prepared.ok()) << prepared.status().message();
  EXPECT_EQ(ops_of(prepared->graph),
            "layer_norm matmul reshape slice slice slice reshape reshape reshape attention reshape add matmul gelu "
            "matmul add")
      << graph_text(prepared->graph);
  // Whatever survives is found by the network's name for it, and told by its id.
  for (const char* name : {"x", "normal", "qkv", "joined", "skip", "up", "active", "y"}) {
    const ValueId now = prepared->graph.find_value(name);
    ASSERT_TRUE(now.valid()) << name;
    EXPECT_EQ(prepared->values[parsed->graph.find_value(name).index], now) << name;
  }
  EXPECT_FALSE(prepared->values[parsed->graph.find_value("shares").index].valid());
}

TEST(PassesPipeline, NotesSayWhatEachPassDid) {
  auto parsed = parse_graph(kLayer);
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  auto prepared = passes::prepare(parsed->graph, {});
  ASSERT_TRUE(prepared.ok()) << prepared.status().message();
  std::size_t nodes = parsed->graph.nodes().size();
  bool found = false;
  for (const passes::PassNote& note : prepared->notes) {
    EXPECT_EQ(note.nodes_before, nodes) << note.pass;
    nodes = note.nodes_after;
    std::int64_t difference = 0;
    for (const auto& [op, count] : note.changes) {
      difference += count;
      found = found || (note.pass == "activations" && op == Op::gelu && count == 1);
    }
    EXPECT_EQ(difference, static_cast<std::int64_t>(note.nodes_after) - static_cast<std::int64_t>(note.nodes_before));
  }
  EXPECT_EQ(nodes, prepared->graph.nodes().size());
  EXPECT_TRUE(found);
}

TEST(PassesPipeline, APinnedValueStaysWhatItWas) {
  auto parsed = parse_graph(kLayer);
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  const ValueId shares = parsed->graph.find_value("shares");
  auto prepared = passes::prepare(parsed->graph, {shares});
  ASSERT_TRUE(prepared.ok()) << prepared.status().message();
  const ValueId now = prepared->values[shares.index];
  ASSERT_TRUE(now.valid());
  EXPECT_EQ(prepared->graph.value(now).name, "shares");
  EXPECT_EQ(prepared->graph.value(now).shape, parsed->graph.value(shares).shape);
  const std::string ops = ops_of(prepared->graph);
  EXPECT_NE(ops.find("softmax matmul"), std::string::npos) << ops;
  EXPECT_EQ(ops.find("attention"), std::string::npos) << ops;
}

}  // namespace
}  // namespace graft::test::passes_pipeline_test
