// Variables of TensorFlow Lite files: what is assigned becomes an input and an output.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/files/tflite_run.h"
#include "tests/support/files/tflite_writer.h"

namespace graft::test::convert_tflite_variables_test {
namespace {

using namespace tflite_run;
using B = tfl::BuiltinOperator;

TEST(ConvertTfliteVariables, BecomeInputsAndOutputs) {
  TfliteWriter w;
  const auto resource = [&](const std::string& name) { return w.tensor(name, {1}, tfl::TensorType::RESOURCE); };
  const auto handle = [&](int tensor, const std::string& name) {
    tfl::VarHandleOptionsT options;
    options.shared_name = name;
    w.op(B::VAR_HANDLE, {}, {tensor}, options);
  };
  // The graph that runs once: kept = 2, gone = 0.
  w.model().subgraphs.push_back(std::make_unique<tfl::SubGraphT>());
  std::swap(w.model().subgraphs[0], w.model().subgraphs[1]);
  const int first_kept = resource("first_kept"), first_gone = resource("first_gone");
  const int two = w.floats("two", {1, 2}, {2, 2}), zero = w.floats("zero", {1, 2}, {0, 0});
  handle(first_kept, "kept");
  w.op(B::ASSIGN_VARIABLE, {first_kept, two}, {});
  handle(first_gone, "gone");
  w.op(B::ASSIGN_VARIABLE, {first_gone, zero}, {});
  std::swap(w.model().subgraphs[0], w.model().subgraphs[1]);
  // gone = gone + x; y = (gone before it) * kept + gone after it.
  const int x = w.tensor("x", {1, 2}), kept = resource("kept_handle"), gone = resource("gone_handle");
  const int factor = w.tensor("factor", {1, 2}), old = w.tensor("old", {1, 2}), sum = w.tensor("sum", {1, 2});
  const int again = w.tensor("again", {1, 2}), product = w.tensor("product", {1, 2}), y = w.tensor("y", {1, 2});
  tfl::CallOnceOptionsT once;
  once.init_subgraph_index = 1;
  w.op(B::CALL_ONCE, {}, {}, once);
  handle(kept, "kept");
  handle(gone, "gone");
  w.op(B::READ_VARIABLE, {kept}, {factor});
  w.op(B::READ_VARIABLE, {gone}, {old});
  w.op(B::ADD, {old, x}, {sum}, tfl::AddOptionsT{});
  w.op(B::ASSIGN_VARIABLE, {gone, sum}, {});
  w.op(B::READ_VARIABLE, {gone}, {again});
  w.op(B::MUL, {old, factor}, {product}, tfl::MulOptionsT{});
  w.op(B::ADD, {product, again}, {y}, tfl::AddOptionsT{});
  convert::Report report;
  const auto result = converted(w.file({x}, {y}), {}, &report);
  ASSERT_TRUE(result.ok()) << result.status().message();
  const Graph& graph = result->model.graph;
  ASSERT_EQ(graph.inputs().size(), 2u);
  EXPECT_EQ(graph.value(graph.inputs()[1]).name, "gone");
  ASSERT_EQ(graph.outputs().size(), 2u);
  EXPECT_EQ(graph.outputs()[1].name, "gone/next");
  EXPECT_EQ(output_of(result->model, {{"x", {1, 2}}, {"gone", {10, 20}}}), (Floats{10 * 2 + 11, 20 * 2 + 22}));
  EXPECT_TRUE(std::ranges::any_of(report.notes, [](const std::string& note) {
    return note ==
           "The variable \"gone\" is an input here, and \"gone/next\" an output: each run takes what the run "
           "before it returned, and the first zeros.";
  }));
}

}  // namespace
}  // namespace graft::test::convert_tflite_variables_test
