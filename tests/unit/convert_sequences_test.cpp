// Sequences of tensors in ONNX files: those of a known length go, others are refused by name. Values are compared in
// tests/torch/patterns.py.
#include <gtest/gtest.h>

#include "tools/convert/onnx/sequences.h"

namespace graft::test::convert_sequences_test {
namespace {

using convert::OnnxNode;

OnnxNode node(const std::string& op, std::vector<std::string> inputs, const std::string& output) {
  return {"", op, "", std::move(inputs), {output}, {}};
}

convert::OnnxGraph graph_of(std::vector<OnnxNode> nodes) {
  convert::OnnxGraph graph;
  graph.opsets[""] = 13;
  graph.nodes = std::move(nodes);
  convert::HostTensor one = convert::HostTensor::of_ints({1});
  one.dims.clear();
  graph.initializers.push_back({"one", std::make_shared<const convert::HostTensor>(std::move(one)), {}});
  convert::replace_sequences(graph);
  return graph;
}

TEST(ConvertSequences, OfAKnownLength) {
  const auto graph = graph_of({node("SequenceConstruct", {"a", "b"}, "s"),
                               node("SequenceInsert", {"s", "c", "one"}, "t"), node("SequenceErase", {"t"}, "u"),
                               node("ConcatFromSequence", {"u"}, "y"), node("SequenceAt", {"t", "one"}, "z")});
  EXPECT_EQ(graph.nodes[3].op, "Concat");
  EXPECT_EQ(graph.nodes[3].inputs, (std::vector<std::string>{"a", "c"}));
  EXPECT_EQ(graph.nodes[4].op, "Identity");
  EXPECT_EQ(graph.nodes[4].inputs, (std::vector<std::string>{"c"}));
}

TEST(ConvertSequences, OthersStay) {
  // Of an input, at a place that is computed or beyond the end, empty, and one that is its own beginning.
  const auto graph = graph_of({node("SequenceInsert", {"given", "a"}, "s"), node("ConcatFromSequence", {"s"}, "v"),
                               node("SequenceConstruct", {"a"}, "t"), node("SequenceAt", {"t", "i"}, "w"),
                               node("SequenceAt", {"t", "one"}, "x"), node("SequenceEmpty", {}, "e"),
                               node("ConcatFromSequence", {"e"}, "y"), node("SequenceInsert", {"c", "a"}, "c"),
                               node("ConcatFromSequence", {"c"}, "z")});
  for (const std::size_t n : {1, 6, 8}) EXPECT_EQ(graph.nodes[n].op, "ConcatFromSequence") << n;
  for (const std::size_t n : {3, 4}) EXPECT_EQ(graph.nodes[n].op, "SequenceAt") << n;
}

}  // namespace
}  // namespace graft::test::convert_sequences_test
