// Control flow, functions and sequences of ONNX files: what is known at conversion becomes plain nodes, of branches
// that the data choose between both do, and what is left is refused with the reason.
#include <gtest/gtest.h>

#include "runtime/passes/bind.h"
#include "tests/support/model_tensors.h"
#include "tests/support/files/onnx_writer.h"
#include "tests/support/run_graph.h"
#include "tools/convert/onnx/import/convert_onnx.h"

namespace graft::test::convert_control_test {
namespace {

using Values = std::vector<double>;

template <typename T>
std::string raw(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

Message int_tensor(const std::string& name, const std::vector<std::int64_t>& dims,
                   const std::vector<std::int64_t>& values) {
  Message m;
  for (const std::int64_t dim : dims) m.integer(1, static_cast<std::uint64_t>(dim));
  return m.integer(2, 7).text(8, name).text(9, raw(values));
}

Message bool_tensor(const std::string& name, bool value) {
  return Message().integer(2, 9).text(8, name).text(9, std::string(1, value ? '\1' : '\0'));
}

Message graph_of(const std::vector<Message>& nodes, const std::vector<Message>& inputs,
                 const std::vector<Message>& outputs, const std::vector<Message>& initializers = {}) {
  Message graph;
  for (const Message& node : nodes) graph.message(1, node);
  graph.text(2, "body");
  for (const Message& tensor : initializers) graph.message(5, tensor);
  for (const Message& value : inputs) graph.message(11, value);
  for (const Message& value : outputs) graph.message(12, value);
  return graph;
}

Message graph_attribute(const std::string& name, const Message& graph) {
  return Message().text(1, name).message(6, graph).integer(20, 5);
}

Result<convert::Converted> convert_file(const std::string& file, const convert::ConvertOptions& options = {},
                                        convert::Report* report = nullptr) {
  auto graph = convert::parse_onnx(std::as_bytes(std::span(file)));
  if (!graph.ok()) return std::move(graph).status();
  return convert::convert_onnx(std::move(graph).value(), "test.onnx", options, report);
}

/// The first output for x = {1, 2, 3}.
Values run(const convert::Converted& converted, const RefTensor& x = {{3}, {1, 2, 3}}) {
  RefTensors values = weights_of(converted.model);
  const Graph& graph = converted.model.graph;
  if (graph.find_value("x").valid()) values["x"] = x;
  const Status status = interpret(graph, values);
  EXPECT_TRUE(status.ok()) << status.message();
  return values[graph.value(graph.outputs()[0].value).name].data;
}

Values run_parts(const OnnxParts& parts, const convert::ConvertOptions& options = {}) {
  auto converted = convert_file(onnx_file(parts), options);
  EXPECT_TRUE(converted.ok()) << converted.status().message();
  return converted.ok() ? run(*converted) : Values();
}

std::string refusal(const OnnxParts& parts, convert::Report* report = nullptr) {
  const auto converted = convert_file(onnx_file(parts), {}, report);
  return converted.ok() ? std::string() : converted.status().message();
}

/// y = x + w if `condition`, x * w otherwise; w is a weight of the branch.
OnnxParts branches() {
  OnnxParts p;
  p.inputs = {float_value("x", {3})};
  p.outputs = {float_value("y", {3})};
  const Message w = float_tensor("w", {3}, raw<float>({10, 20, 30}));
  p.nodes = {onnx_node("If", {"condition"}, {"y"},
                       {graph_attribute("then_branch", graph_of({onnx_node("Add", {"x", "w"}, {"sum"})}, {},
                                                                {float_value("sum", {3})}, {w})),
                        graph_attribute("else_branch", graph_of({onnx_node("Mul", {"x", "w"}, {"product"})}, {},
                                                                {float_value("product", {3})}, {w}))})};
  return p;
}

TEST(ConvertIf, AKnownConditionTakesABranchWithItsWeights) {
  OnnxParts p = branches();
  p.initializers = {bool_tensor("condition", true)};
  EXPECT_EQ(run_parts(p), (Values{11, 22, 33}));
  p.initializers = {bool_tensor("condition", false)};
  EXPECT_EQ(run_parts(p), (Values{10, 40, 90}));
  const auto converted = convert_file(onnx_file(p));
  const ValueId w = converted->model.graph.find_value("w");
  ASSERT_TRUE(w.valid());
  EXPECT_EQ(converted->model.graph.value(w).kind, ValueKind::parameter);
}

TEST(ConvertIf, AConditionOnASizeIsKnownOnceItIsBound) {
  OnnxParts p = branches();
  p.inputs = {float_value("x", {-1})};
  p.initializers = {int_tensor("three", {}, {3})};
  p.nodes.insert(p.nodes.begin(),
                 {onnx_node("Size", {"x"}, {"size"}), onnx_node("Equal", {"size", "three"}, {"condition"})});
  EXPECT_NE(refusal(p).find("--bind 'batch=SIZE'"), std::string::npos) << refusal(p);
  convert::ConvertOptions options;
  options.bindings["batch"] = 3;
  EXPECT_EQ(run_parts(p, options), (Values{11, 22, 33}));
}

/// The condition is x[0] > 0, a tensor of one element.
OnnxParts branches_by_data() {
  OnnxParts p = branches();
  p.initializers = {int_tensor("first", {1}, {0}), float_tensor("zero", {}, raw<float>({0}))};
  p.nodes.insert(p.nodes.begin(), {onnx_node("Gather", {"x", "first"}, {"x0"}, {int_attribute("axis", 0)}),
                                   onnx_node("Greater", {"x0", "zero"}, {"condition"})});
  return p;
}

TEST(ConvertIf, WhereTheDataChooseBothBranchesAreComputed) {
  convert::Report report;
  const auto converted = convert_file(onnx_file(branches_by_data()), {}, &report);
  ASSERT_TRUE(converted.ok()) << converted.status().message();
  EXPECT_EQ(run(*converted), (Values{11, 22, 33}));
  EXPECT_EQ(run(*converted, {{3}, {-1, 2, 3}}), (Values{-10, 40, 90}));
  // Of the branch that is not taken no infinity comes through.
  EXPECT_EQ(run(*converted, {{3}, {-1e300, 2, 3}})[1], 40);
  std::size_t trained = 0;
  for (const Value& value : converted->model.graph.values()) trained += value.kind == ValueKind::parameter ? 1 : 0;
  EXPECT_EQ(trained, 2u) << "w of each";
}

TEST(ConvertIf, AConditionMayBeAnInput) {
  OnnxParts p = branches();
  p.inputs.push_back(typed_value("condition", {}, 9));
  const auto converted = convert_file(onnx_file(p));
  ASSERT_TRUE(converted.ok()) << converted.status().message();
  for (const double condition : {0.0, 1.0}) {
    RefTensors values = weights_of(converted->model);
    values["x"] = {{3}, {1, 2, 3}};
    values["condition"] = {{}, {condition}};
    ASSERT_TRUE(interpret(converted->model.graph, values).ok());
    EXPECT_EQ(values["y"].data, condition != 0 ? (Values{11, 22, 33}) : (Values{10, 40, 90}));
  }
}

TEST(ConvertIf, BranchesOfOtherShapesNeedAKnownCondition) {
  OnnxParts p = branches();
  p.inputs.push_back(typed_value("condition", {}, 9));
  p.nodes = {onnx_node(
      "If", {"condition"}, {"y"},
      {graph_attribute("then_branch", graph_of({onnx_node("Identity", {"x"}, {"a"})}, {}, {float_value("a", {3})})),
       graph_attribute("else_branch", graph_of({onnx_node("Size", {"x"}, {"b"})}, {}, {typed_value("b", {}, 7)}))})};
  convert::Report report;
  const std::string why = refusal(p, &report);
  EXPECT_NE(why.find("must be known at conversion, but is an input"), std::string::npos) << why;
  EXPECT_NE(why.find("\"y\" is float32[3] of one and int64[] of the other"), std::string::npos) << why;
  EXPECT_EQ(report.fix_inputs, std::vector<std::string>{"condition"});
  // What cannot be converted at all is said in the same sentence.
  p = branches();
  p.inputs.push_back(typed_value("condition", {}, 9));
  p.nodes = {onnx_node(
      "If", {"condition"}, {"y"},
      {graph_attribute("then_branch", graph_of({onnx_node("Identity", {"x"}, {"a"})}, {}, {float_value("a", {3})})),
       graph_attribute("else_branch", graph_of({onnx_node("NoSuchOp", {"x"}, {"b"})}, {}, {float_value("b", {3})}))})};
  EXPECT_NE(refusal(p).find("NoSuchOp"), std::string::npos) << refusal(p);
  EXPECT_NE(refusal(p).find("must be known at conversion"), std::string::npos) << refusal(p);
}

/// Turns that double x and keep each result; the body goes on as long as the turn is below `last`.
OnnxParts turns(std::int64_t count, std::int64_t last) {
  OnnxParts p;
  p.inputs = {float_value("x", {3})};
  p.outputs = {float_value("all", {-1, 3})};
  p.initializers = {int_tensor("count", {}, {count}), bool_tensor("go", true), int_tensor("last", {}, {last})};
  const Message body =
      graph_of({onnx_node("Add", {"value", "value"}, {"doubled"}), onnx_node("Identity", {"doubled"}, {"kept"}),
                onnx_node("Less", {"turn", "last"}, {"on"})},
               {typed_value("turn", {}, 7), typed_value("going", {}, 9), float_value("value", {3})},
               {typed_value("on", {}, 9), float_value("doubled", {3}), float_value("kept", {3})});
  p.nodes = {onnx_node("Loop", {"count", "go", "x"}, {"final", "all"}, {graph_attribute("body", body)})};
  return p;
}

TEST(ConvertLoop, TakesItsTurns) {
  EXPECT_EQ(run_parts(turns(2, 9)), (Values{2, 4, 6, 4, 8, 12}));
  EXPECT_EQ(run_parts(turns(9, 1)), (Values{2, 4, 6, 4, 8, 12}));  // its condition ends it
  EXPECT_EQ(run_parts(turns(1, 9)), (Values{2, 4, 6}));
  EXPECT_TRUE(run_parts(turns(0, 9)).empty() || refusal(turns(0, 9)).find("takes no turn") != std::string::npos);
}

TEST(ConvertLoop, RefusesWhatItCannotUnroll) {
  EXPECT_NE(refusal(turns(1 << 20, 1 << 20)).find("more than 4096 turns"), std::string::npos);
  OnnxParts computed = turns(9, 9);
  computed.initializers.pop_back();
  computed.inputs.push_back(typed_value("last", {}, 7));
  EXPECT_NE(refusal(computed).find("goes on after turn 0 is computed by the model"), std::string::npos)
      << refusal(computed);
  OnnxParts counted = turns(9, 9);
  counted.initializers.erase(counted.initializers.begin());
  counted.inputs.push_back(typed_value("count", {}, 7));
  EXPECT_NE(refusal(counted).find("number of turns"), std::string::npos);
  OnnxParts unknown = turns(2, 9);
  unknown.nodes = {onnx_node(
      "Loop", {"count", "go", "x"}, {"final", "all"},
      {graph_attribute(
          "body", graph_of({onnx_node("Mystery", {"value"}, {"doubled"}), onnx_node("Identity", {"doubled"}, {"kept"})},
                           {typed_value("turn", {}, 7), typed_value("going", {}, 9), float_value("value", {3})},
                           {typed_value("going", {}, 9), float_value("doubled", {3}), float_value("kept", {3})}))})};
  EXPECT_NE(refusal(unknown).find("Mystery"), std::string::npos);
}

OnnxParts running_sum(const std::vector<std::int64_t>& inputs, const std::vector<std::int64_t>& outputs) {
  OnnxParts p;
  p.inputs = {float_value("x", {3})};
  p.outputs = {float_value("sums", {3})};
  p.initializers = {float_tensor("zero", {}, raw<float>({0}))};
  const Message body =
      graph_of({onnx_node("Add", {"sum", "element"}, {"next"}), onnx_node("Identity", {"next"}, {"kept"})},
               {float_value("sum", {}), float_value("element", {})}, {float_value("next", {}), float_value("kept", {})});
  p.nodes = {
      onnx_node("Scan", {"zero", "x"}, {"total", "sums"},
                {graph_attribute("body", body), int_attribute("num_scan_inputs", 1),
                 ints_attribute("scan_input_directions", inputs), ints_attribute("scan_output_directions", outputs)})};
  return p;
}

TEST(ConvertScan, RunsForwardsAndBackwards) {
  EXPECT_EQ(run_parts(running_sum({0}, {0})), (Values{1, 3, 6}));
  EXPECT_EQ(run_parts(running_sum({1}, {1})), (Values{6, 5, 3}));
  EXPECT_NE(refusal(running_sum({0, 1}, {0})).find("its scan_input_directions holds 2 numbers, and it scans 1 inputs"),
            std::string::npos);
  EXPECT_NE(refusal(running_sum({0}, {2})).find("its scan_output_directions holds 2, and a direction is 0 or 1"),
            std::string::npos);
}

TEST(ConvertFunctions, AreInlinedWithTheAttributesOfTheCall) {
  OnnxParts p;
  p.inputs = {float_value("x", {3})};
  p.outputs = {float_value("y", {3})};
  const Message ref = Message().text(1, "alpha").text(21, "slope").integer(20, 1);
  const Message negative = onnx_node("Neg", {"a"}, {"b"});
  const Message leaky = onnx_node("LeakyRelu", {"b"}, {"c"}, {ref});
  const Message function =
      Message().text(1, "Tilted").text(4, "a").text(5, "c").message(7, negative).message(7, leaky).text(10, "own");
  Message call;
  call.text(1, "x").text(2, "y").text(3, "call").text(4, "Tilted").text(7, "own");
  call.message(5, Message().text(1, "slope").float32(2, 0.5F).integer(20, 1));
  p.nodes = {call};
  const std::string file = onnx_file(p) + Message().message(25, function).bytes();
  const auto converted = convert_file(file);
  ASSERT_TRUE(converted.ok()) << converted.status().message();
  EXPECT_EQ(run(*converted), (Values{-0.5, -1, -1.5}));
  // One that calls itself never ends.
  Message again;
  again.text(1, "a").text(2, "c").text(4, "Tilted").text(7, "own");
  const Message endless = Message().text(1, "Tilted").text(4, "a").text(5, "c").message(7, again).text(10, "own");
  const auto refused = convert_file(onnx_file(p) + Message().message(25, endless).bytes());
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("call each other"), std::string::npos) << refused.status().message();
}

TEST(ConvertSequences, OfAKnownLengthAreTheirTensors) {
  OnnxParts p;
  p.inputs = {float_value("x", {3})};
  p.outputs = {float_value("y", {-1})};
  p.initializers = {int_tensor("one", {}, {1}), int_tensor("last", {}, {-1})};
  p.nodes = {onnx_node("Neg", {"x"}, {"n"}),
             onnx_node("SequenceConstruct", {"x", "n"}, {"s"}),
             onnx_node("SequenceInsert", {"s", "x", "one"}, {"t"}),
             onnx_node("SequenceErase", {"t", "last"}, {"u"}),
             onnx_node("SequenceAt", {"t", "last"}, {"n_again"}),
             onnx_node("SequenceInsert", {"u", "n_again"}, {"v"}),
             onnx_node("ConcatFromSequence", {"v"}, {"y"}, {int_attribute("axis", 0)})};
  EXPECT_EQ(run_parts(p), (Values{1, 2, 3, 1, 2, 3, -1, -2, -3}));
  p.nodes.back() = onnx_node("SequenceLength", {"v"}, {"y"});
  p.outputs = {typed_value("y", {}, 7)};
  EXPECT_EQ(run_parts(p), (Values{3}));
  p.initializers[1] = int_tensor("last", {}, {7});
  EXPECT_NE(refusal(p).find("position 7 is outside"), std::string::npos) << refusal(p);
}

TEST(ConvertSequences, SplitIntoPieces) {
  OnnxParts p;
  p.inputs = {float_value("x", {3})};
  p.outputs = {float_value("y", {-1})};
  p.initializers = {int_tensor("two", {}, {2}), int_tensor("first", {}, {0})};
  p.nodes = {onnx_node("SplitToSequence", {"x", "two"}, {"s"}), onnx_node("SequenceAt", {"s", "first"}, {"y"})};
  EXPECT_EQ(run_parts(p), (Values{1, 2}));
  p.nodes[0] = onnx_node("SplitToSequence", {"x"}, {"s"}, {int_attribute("keepdims", 0)});
  p.nodes[1] = onnx_node("SequenceAt", {"s", "two"}, {"y"});
  EXPECT_EQ(run_parts(p), (Values{3}));
}

TEST(ConvertSequences, AsInputsNeedALength) {
  OnnxParts p;
  const Message tensor = Message().integer(1, 1).message(2, Message().message(1, Message()));  // float32, one open axis
  const Message sequence = Message().message(1, Message().message(1, tensor));
  p.inputs = {Message().text(1, "s").message(2, Message().message(4, sequence))};
  p.outputs = {float_value("y", {-1})};
  p.nodes = {onnx_node("ConcatFromSequence", {"s"}, {"y"}, {int_attribute("axis", 0)})};
  EXPECT_NE(refusal(p).find("say how many tensors it holds"), std::string::npos) << refusal(p);
  convert::ConvertOptions options;
  options.lengths["s"] = 2;
  options.bindings = {{"s_0_0", 1}, {"s_1_0", 2}};
  const auto converted = convert_file(onnx_file(p), options);
  ASSERT_TRUE(converted.ok()) << converted.status().message();
  const Graph& graph = converted->model.graph;
  EXPECT_EQ(graph.value(graph.find_value("s.0")).shape, (Shape{1}));
  EXPECT_EQ(graph.value(graph.outputs()[0].value).shape, (Shape{3}));
}

TEST(ConvertSequences, AsResultsAreSeveral) {
  OnnxParts p;
  p.inputs = {float_value("x", {3})};
  p.outputs = {float_value("s", {3})};
  p.nodes = {onnx_node("Neg", {"x"}, {"n"}), onnx_node("SequenceConstruct", {"n", "x"}, {"s"})};
  const auto converted = convert_file(onnx_file(p));
  ASSERT_TRUE(converted.ok()) << converted.status().message();
  const auto& outputs = converted->model.graph.outputs();
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_EQ(outputs[0].name, "s.0");
  EXPECT_EQ(outputs[1].name, "s.1");
  EXPECT_EQ(run(*converted), (Values{-1, -2, -3}));
  p.outputs = {float_value("y", {3})};
  p.nodes.push_back(onnx_node("Neg", {"s"}, {"y"}));
  EXPECT_NE(refusal(p).find("its input 0 is a sequence"), std::string::npos);
}

}  // namespace
}  // namespace graft::test::convert_control_test
