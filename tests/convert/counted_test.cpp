// Results that are as long as the data decide: boxes that are kept, elements that are not zero, what is looked up by
// them; and what is refused since it would compute with rows that are not there.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "runtime/autodiff/autodiff.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/passes/bind.h"
#include "runtime/reference/interpreter.h"
#include "tests/support/counted_rows.h"
#include "tests/support/model_tensors.h"
#include "tests/support/files/onnx_writer.h"
#include "tools/convert/onnx/examples/example_onnx.h"
#include "tools/convert/onnx/import/convert_onnx.h"

namespace graft::test::convert_counted_test {
namespace {

using Numbers = std::vector<double>;
using Dims = std::vector<std::int64_t>;
constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();

Message ints(const std::string& name, const Dims& values, bool scalar = false) {
  const std::string raw(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(std::int64_t));
  Message m;
  if (!scalar) m.integer(1, values.size());
  return m.integer(2, 7).text(8, name).text(9, raw);
}
Message number(const std::string& name, float value) {
  return float_tensor(name, {}, std::string(reinterpret_cast<const char*>(&value), sizeof value));
}

Result<convert::Converted> converted(const OnnxParts& parts) {
  const std::string file = onnx_file(parts);
  GRAFT_TRY_ASSIGN(auto graph, convert::parse_onnx(std::as_bytes(std::span(file))));
  return convert::convert_onnx(std::move(graph), "test.onnx", {});
}

/// All outputs but counts, without what is not there.
std::map<std::string, RefTensor> run(const Model& model, const std::map<std::string, Numbers>& inputs,
                                     const Bindings& bindings = {}) {
  std::map<std::string, RefTensor> out;
  const auto counted = counted_outputs(model);
  auto bound = graft::bind(model.graph, bindings);
  EXPECT_TRUE(counted.ok()) << counted.status().message();
  EXPECT_TRUE(bound.ok()) << bound.status().message();
  if (!counted.ok() || !bound.ok()) return out;
  EXPECT_TRUE(validate(*bound).ok());
  RefTensors tensors = weights_of(model);
  for (const ValueId id : bound->inputs()) {
    const Value& value = bound->value(id);
    tensors[value.name] = RefTensor{value.shape.values(), inputs.at(value.name)};
  }
  const Status status = interpret(*bound, tensors);
  EXPECT_TRUE(status.ok()) << status.message();
  if (!status.ok()) return out;
  for (const Output& output : bound->outputs()) out[output.name] = counted_output(*bound, tensors, *counted, output);
  return out;
}

void expect_refused(const OnnxParts& parts, const std::string& part) {
  const auto result = converted(parts);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.status().message().find(part), std::string::npos) << result.status().message();
}

/// Six boxes, of which 1 and 2 overlap 0, and 4 overlaps 3; two classes.
OnnxParts detector(std::int64_t most) {
  OnnxParts p;
  p.inputs = {float_value("boxes", {1, 6, 4}), float_value("scores", {1, 2, 6})};
  p.initializers = {ints("most", {most}),          number("overlap", 0.5F),         number("least", 0.25F),
                    ints("box_column", {2}, true), ints("class_column", {1}, true), ints("zero", {0})};
  p.nodes = {onnx_node("NonMaxSuppression", {"boxes", "scores", "most", "overlap", "least"}, {"kept"})};
  p.outputs = {typed_value("kept", {-1, 3}, 7)};
  return p;
}
const std::map<std::string, Numbers> kScene = {
    {"boxes", {0, 0, 4, 4, 0, 1, 4, 5, 4, 4, 0, 0, 10, 10, 14, 14, 10, 10, 14, 13, 20, 20, 24, 24}},
    {"scores", {0.9, 0.8, 0.7, 0.5, 0.6, 0.1, 0, 0.5, 0.25, 0.75, 0.75, 0.3}}};

TEST(ConvertCounted, BoxesThatAreComputedAreSuppressed) {
  const auto result = converted(detector(kAll));
  ASSERT_TRUE(result.ok()) << result.status().message();
  const Graph& graph = result->model.graph;
  ASSERT_EQ(graph.outputs().size(), 2u);
  EXPECT_EQ(graph.value(graph.outputs()[0].value).shape, (Shape{12, 3}));
  EXPECT_EQ(graph.outputs()[1].name, "kept.count");
  auto out = run(result->model, kScene);
  // By class, then by score; of equal scores the first box.
  EXPECT_EQ(out["kept"].dims, (Dims{5, 3}));
  EXPECT_EQ(out["kept"].data, (Numbers{0, 0, 0, 0, 0, 4, 0, 1, 3, 0, 1, 1, 0, 1, 5}));
  EXPECT_EQ(out["kept.count"].data, Numbers{5});

  const auto one = converted(detector(1));
  ASSERT_TRUE(one.ok()) << one.status().message();
  EXPECT_EQ(run(one->model, kScene)["kept"].data, (Numbers{0, 0, 0, 0, 1, 3}));
  // Nothing that is good enough; and nothing asked for.
  auto dim = kScene;
  dim["scores"].assign(12, 0.25);
  EXPECT_EQ(run(result->model, dim)["kept"].dims, (Dims{0, 3}));
  const auto none = converted(detector(0));
  ASSERT_TRUE(none.ok()) << none.status().message();
  EXPECT_EQ(run(none->model, kScene)["kept"].dims, (Dims{0, 3}));
}

TEST(ConvertCounted, WhatIsLookedUpByRowsHasAsManyRows) {
  OnnxParts p = detector(kAll);
  p.initializers.push_back(ints("columns", {0, 2}));
  p.initializers.push_back(ints("flat", {-1}));
  p.initializers.push_back(ints("wide", {0, 1, -1}));
  p.initializers.push_back(ints("from", {1}));
  p.initializers.push_back(ints("to", {4}));
  p.initializers.push_back(ints("axis", {1}));
  p.initializers.push_back(number("half", 0.5F));
  p.nodes.push_back(onnx_node("Gather", {"kept", "box_column"}, {"box"}, {int_attribute("axis", 1)}));
  p.nodes.push_back(onnx_node("Squeeze", {"boxes", "zero"}, {"table"}));
  p.nodes.push_back(onnx_node("Gather", {"table", "box"}, {"found"}, {int_attribute("axis", 0)}));
  p.nodes.push_back(onnx_node("Mul", {"found", "half"}, {"halves"}));
  p.nodes.push_back(onnx_node("Slice", {"halves", "from", "to", "axis"}, {"cut"}));
  p.nodes.push_back(onnx_node("Concat", {"halves", "cut"}, {"joined"}, {int_attribute("axis", 1)}));
  // Scores by (batch, class, box), as tuples.
  p.nodes.push_back(onnx_node("GatherND", {"scores", "kept"}, {"score"}));
  p.nodes.push_back(onnx_node("Unsqueeze", {"score", "axis"}, {"column"}));
  p.nodes.push_back(onnx_node("Reshape", {"column", "flat"}, {"row"}));
  p.nodes.push_back(onnx_node("Transpose", {"joined"}, {"turned"}, {ints_attribute("perm", {1, 0})}));
  p.nodes.push_back(
      onnx_node("ReduceMax", {"joined"}, {"largest"}, {ints_attribute("axes", {1}), int_attribute("keepdims", 0)}));
  p.nodes.push_back(onnx_node("Add", {"row", "largest"}, {"sum"}));
  p.nodes.push_back(onnx_node("Reshape", {"joined", "wide"}, {"planes"}));
  p.outputs = {float_value("turned", {7, -1}), float_value("sum", {-1}), float_value("planes", {-1, 1, 7})};
  const auto result = converted(p);
  ASSERT_TRUE(result.ok()) << result.status().message();
  auto out = run(result->model, kScene);
  EXPECT_EQ(out["turned"].dims, (Dims{7, 5}));
  EXPECT_EQ(out["planes"].dims, (Dims{5, 1, 7}));
  const Numbers row(out["planes"].data.begin() + 28, out["planes"].data.end());
  EXPECT_EQ(row, (Numbers{10, 10, 12, 12, 10, 12, 12}));  // box 5
  const Numbers last_column = {2, 6.5, 7, 2.5, 12};
  const Numbers scores = {0.9, 0.6, 0.75, 0.5, 0.3};
  ASSERT_EQ(out["sum"].dims, (Dims{5}));
  for (std::size_t i = 0; i < 5; ++i) {
    const Numbers largest = {2, 7, 7, 2.5, 12};
    EXPECT_NEAR(out["sum"].data[i], scores[i] + largest[i], 1e-6) << i;
    EXPECT_EQ(out["turned"].data[3 * 5 + i], last_column[i]) << i;
  }
  // One count for all.
  EXPECT_EQ(result->model.graph.outputs().size(), 4u);
}

TEST(ConvertCounted, ElementsThatAreNotZeroAndSlicesOfACondition) {
  OnnxParts p;
  p.inputs = {float_value("x", {2, 3, 2}), typed_value("take", {3}, 9)};
  p.initializers = {ints("two", {2}), ints("zero", {0})};
  p.nodes = {onnx_node("NonZero", {"x"}, {"places"}),
             onnx_node("Transpose", {"places"}, {"tuples"}, {ints_attribute("perm", {1, 0})}),
             onnx_node("GatherND", {"x", "tuples"}, {"found"}),
             onnx_node("Slice", {"found", "zero", "two", "zero"}, {"first"}),
             onnx_node("Compress", {"x", "take"}, {"slices"}, {int_attribute("axis", 1)}),
             onnx_node("Compress", {"x", "take"}, {"elements"})};
  p.outputs = {typed_value("places", {3, -1}, 7), float_value("found", {-1}), float_value("first", {-1}),
               float_value("slices", {2, -1, 2}), float_value("elements", {-1})};
  const auto result = converted(p);
  ASSERT_TRUE(result.ok()) << result.status().message();
  const Numbers x = {0, 1, 2, 0, 0, 0, 0, -3, 0, 0, 4, std::nan("")};
  auto out = run(result->model, {{"x", x}, {"take", {1, 0, 1}}});
  EXPECT_EQ(out["places"].dims, (Dims{3, 5}));
  EXPECT_EQ(out["places"].data, (Numbers{0, 0, 1, 1, 1, 0, 1, 0, 2, 2, 1, 0, 1, 0, 1}));
  ASSERT_EQ(out["found"].dims, (Dims{5}));
  EXPECT_EQ(Numbers(out["found"].data.begin(), out["found"].data.end() - 1), (Numbers{1, 2, -3, 4}));
  EXPECT_EQ(out["first"].data, (Numbers{1, 2}));
  EXPECT_EQ(out["slices"].dims, (Dims{2, 2, 2}));
  EXPECT_EQ(Numbers(out["slices"].data.begin(), out["slices"].data.end() - 1), (Numbers{0, 1, 0, 0, 0, -3, 4}));
  EXPECT_EQ(out["elements"].data, (Numbers{0, 2}));
  out = run(result->model, {{"x", Numbers(12, 0.0)}, {"take", {0, 0, 0}}});
  EXPECT_EQ(out["places"].dims, (Dims{3, 0}));
  EXPECT_EQ(out["first"].dims, (Dims{0}));
  EXPECT_EQ(out["slices"].dims, (Dims{2, 0, 2}));
}

// As PyTorch's exporter writes x[rows, columns]: the shape of the indices is asked for, and given back to Reshape.
TEST(ConvertCounted, RowsAreReshapedByTheSizeThatWasAskedOfThem) {
  OnnxParts p = detector(kAll);
  p.initializers.push_back(ints("first", {0}));
  p.initializers.push_back(ints("rest", {3, 1}));
  p.nodes.push_back(onnx_node("Shape", {"kept"}, {"sizes"}));
  p.nodes.push_back(onnx_node("Gather", {"sizes", "first"}, {"count"}, {int_attribute("axis", 0)}));
  p.nodes.push_back(onnx_node("Concat", {"count", "rest"}, {"target"}, {int_attribute("axis", 0)}));
  p.nodes.push_back(onnx_node("Reshape", {"kept", "target"}, {"y"}));
  p.outputs = {typed_value("y", {-1, 3, 1}, 7), typed_value("sizes", {2}, 7)};
  const auto result = converted(p);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_TRUE(result->model.graph.symbols().empty());
  auto out = run(result->model, kScene);
  EXPECT_EQ(out["y"].dims, (Dims{5, 3, 1}));
  EXPECT_EQ(out["sizes"].data, (Numbers{5, 3}));
}

// What is chosen may be chosen from again: boxes behind the last one are never kept.
TEST(ConvertCounted, ChoosesAmongWhatWasChosen) {
  OnnxParts p;
  p.inputs = {float_value("boxes", {6, 4}), float_value("scores", {6}), typed_value("take", {6}, 9)};
  p.initializers = {ints("most", {kAll}), ints("zero", {0}), ints("axes", {0, 1})};
  p.nodes = {onnx_node("Compress", {"boxes", "take"}, {"b"}, {int_attribute("axis", 0)}),
             onnx_node("NonZero", {"take"}, {"places"}),
             onnx_node("Squeeze", {"places", "zero"}, {"place"}),
             onnx_node("Gather", {"boxes", "place"}, {"taken"}, {int_attribute("axis", 0)}),
             onnx_node("Gather", {"scores", "place"}, {"s"}, {int_attribute("axis", 0)}),
             onnx_node("Unsqueeze", {"taken", "zero"}, {"one_batch"}),
             onnx_node("Unsqueeze", {"s", "axes"}, {"one_class"}),
             onnx_node("NonMaxSuppression", {"one_batch", "one_class", "most"}, {"kept"}),
             onnx_node("NonZero", {"s"}, {"again"}),
             onnx_node("Squeeze", {"again", "zero"}, {"rank"}),
             onnx_node("Gather", {"taken", "rank"}, {"found"}),
             onnx_node("Neg", {"rank"}, {"from_the_end"}),
             onnx_node("Sub", {"from_the_end", "one"}, {"mirrored"}),
             onnx_node("Gather", {"s", "mirrored"}, {"other"})};
  p.initializers.push_back(ints("one", {1}));
  p.outputs = {typed_value("kept", {-1, 3}, 7), float_value("b", {-1, 4}), typed_value("again", {1, -1}, 7),
               float_value("found", {-1, 4}), float_value("other", {-1})};
  const auto result = converted(p);
  ASSERT_TRUE(result.ok()) << result.status().message();
  // Box 0 is not taken; it is what places behind the last hold.
  auto out =
      run(result->model, {{"boxes", kScene.at("boxes")}, {"scores", {9, 8, 7, 0, 6, 5}}, {"take", {0, 1, 0, 1, 1, 0}}});
  EXPECT_EQ(out["kept"].data, (Numbers{0, 0, 0, 0, 0, 2}));
  EXPECT_EQ(out["again"].data, (Numbers{0, 2}));
  EXPECT_EQ(out["found"].data, (Numbers{0, 1, 4, 5, 10, 10, 14, 13}));
  EXPECT_EQ(out["other"].data, (Numbers{6, 8}));  // places -1 and -3 of three
  EXPECT_EQ(out["b"].dims, (Dims{3, 4}));
  // One count for all that was chosen by one condition, and one for each choice after it.
  EXPECT_EQ(result->model.graph.outputs().size(), 8u);
}

TEST(ConvertCounted, ElementsThatDiffer) {
  OnnxParts p;
  p.inputs = {float_value("x", {2, 4})};
  p.nodes = {onnx_node("Unique", {"x"}, {"y", "first", "which", "often"}, {int_attribute("sorted", 1)}),
             onnx_node("Unique", {"x"}, {"v", "begins", "number", "times"}, {int_attribute("sorted", 0)})};
  p.outputs = {float_value("y", {-1}),        typed_value("first", {-1}, 7), typed_value("which", {8}, 7),
               typed_value("often", {-1}, 7), float_value("v", {-1}),        typed_value("begins", {-1}, 7),
               typed_value("number", {8}, 7), typed_value("times", {-1}, 7)};
  const auto result = converted(p);
  ASSERT_TRUE(result.ok()) << result.status().message();
  auto out = run(result->model, {{"x", {3, -1, 3, 7, 7, 3, 0, -1}}});
  EXPECT_EQ(out["y"].data, (Numbers{-1, 0, 3, 7}));
  EXPECT_EQ(out["first"].data, (Numbers{1, 6, 0, 3}));
  EXPECT_EQ(out["which"].data, (Numbers{2, 0, 2, 3, 3, 2, 1, 0}));
  EXPECT_EQ(out["often"].data, (Numbers{2, 1, 3, 2}));
  EXPECT_EQ(out["v"].data, (Numbers{3, -1, 7, 0}));
  EXPECT_EQ(out["begins"].data, (Numbers{0, 1, 3, 6}));
  EXPECT_EQ(out["number"].data, (Numbers{0, 1, 0, 2, 2, 0, 3, 1}));
  EXPECT_EQ(out["times"].data, (Numbers{3, 2, 2, 1}));
  out = run(result->model, {{"x", Numbers(8, 5.0)}});
  EXPECT_EQ(out["often"].data, Numbers{8});
  EXPECT_EQ(out["times"].data, Numbers{8});
  out = run(result->model, {{"x", {8, 7, 6, 5, 4, 3, 2, 1}}});
  EXPECT_EQ(out["first"].data, (Numbers{7, 6, 5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(out["begins"].data, (Numbers{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(ConvertCounted, OpenSizesStayOpen) {
  OnnxParts p;
  p.inputs = {named_value("x", {"rows", "columns"}), named_value("boxes", {"batch", "n", "4"}),
              named_value("scores", {"batch", "2", "n"})};
  p.initializers = {ints("most", {kAll})};
  p.nodes = {onnx_node("NonZero", {"x"}, {"places"}),
             onnx_node("NonMaxSuppression", {"boxes", "scores", "most"}, {"kept"})};
  p.outputs = {typed_value("places", {2, -1}, 7), typed_value("kept", {-1, 3}, 7)};
  const auto result = converted(p);
  ASSERT_TRUE(result.ok()) << result.status().message();
  const Numbers boxes = {0, 0, 1, 1, 0, 0, 1, 1, 5, 5, 6, 6, 0, 0, 1, 1};
  auto out = run(result->model, {{"x", {0, 1, 1, 0, 0, 1}}, {"boxes", boxes}, {"scores", {1, 2, 3, 4, 5, 6, 8, 7}}},
                 {{"rows", 3}, {"columns", 2}, {"batch", 2}, {"n", 2}});
  EXPECT_EQ(out["places"].data, (Numbers{0, 1, 2, 1, 0, 1}));
  EXPECT_EQ(out["kept"].data, (Numbers{0, 0, 1, 0, 1, 1, 1, 0, 1, 1, 0, 0, 1, 1, 0, 1, 1, 1}));
}

TEST(ConvertCounted, WhatWouldMixRowsIsRefused) {
  const auto with = [](std::vector<Message> nodes, std::vector<Message> initializers = {}) {
    OnnxParts p = detector(3);
    p.nodes.push_back(onnx_node("Cast", {"kept"}, {"rows"}, {int_attribute("to", 1)}));
    p.nodes.insert(p.nodes.end(), nodes.begin(), nodes.end());
    p.initializers.insert(p.initializers.end(), initializers.begin(), initializers.end());
    p.outputs = {float_value("y", {-1})};
    return p;
  };
  const auto matrix = float_tensor("m", {3, 6}, std::string(72, '\0'));
  expect_refused(with({onnx_node("ReduceSum", {"rows", "zero"}, {"y"})}), "ReduceSum");
  expect_refused(with({onnx_node("ReduceMean", {"rows"}, {"y"})}), "is as long as the data decide");
  expect_refused(with({onnx_node("MatMul", {"m", "rows"}, {"y"})}, {matrix}), "MatMul");
  expect_refused(with({onnx_node("Concat", {"rows", "rows"}, {"y"}, {int_attribute("axis", 0)})}), "Concat");
  expect_refused(
      with({onnx_node("Add", {"rows", "bias"}, {"y"})}, {float_tensor("bias", {6, 3}, std::string(72, '\0'))}),
      "has no row for each");
  expect_refused(with({onnx_node("Reshape", {"rows", "shape"}, {"y"})}, {ints("shape", {6, 3})}), "Reshape");
  expect_refused(with({onnx_node("Reshape", {"rows", "shape"}, {"y"})}, {ints("shape", {-1, 9})}), "Reshape");
  expect_refused(with({onnx_node("Shape", {"rows"}, {"size"}), onnx_node("Mul", {"size", "size"}, {"y"})}),
                 "computes with how many rows");
  expect_refused(with({onnx_node("Shape", {"rows"}, {"size"}), onnx_node("Reshape", {"scores", "size"}, {"y"})}),
                 "computes with how many rows");
  expect_refused(with({onnx_node("Gather", {"rows", "zero"}, {"y"}, {int_attribute("axis", 0)})}), "Gather");
  expect_refused(with({onnx_node("Softmax", {"rows"}, {"y"}, {int_attribute("axis", 0)})}), "Softmax");
  expect_refused(
      with({onnx_node("Slice", {"rows", "one", "two", "zero"}, {"y"})}, {ints("one", {1}), ints("two", {2})}),
      "only its first rows");
  expect_refused(with({onnx_node("Expand", {"rows", "shape"}, {"y"})}, {ints("shape", {2, 6, 3})}), "Expand");
  // Rows of two counts.
  expect_refused(with({onnx_node("NonMaxSuppression", {"boxes", "scores", "most"}, {"others"}),
                       onnx_node("Cast", {"others"}, {"more"}, {int_attribute("to", 1)}),
                       onnx_node("Add", {"rows", "more"}, {"y"})}),
                 "another");
}

TEST(ConvertCounted, AbsurdSizesAreRefusedBeforeAnythingIsMade) {
  OnnxParts p;
  p.inputs = {float_value("boxes", {4096, 1 << 20, 4}), float_value("scores", {4096, 4096, 1 << 20})};
  p.initializers = {ints("most", {kAll})};
  p.nodes = {onnx_node("NonMaxSuppression", {"boxes", "scores", "most"}, {"kept"})};
  p.outputs = {typed_value("kept", {-1, 3}, 7)};
  expect_refused(p, "too");
}

// A loss would be of rows that are not there as well.
TEST(ConvertCounted, NothingIsTrainedOnCountedRows) {
  OnnxParts p = detector(kAll);
  p.nodes.push_back(onnx_node("GatherND", {"scores", "kept"}, {"score"}));
  p.outputs = {float_value("score", {-1})};
  const auto result = converted(p);
  ASSERT_TRUE(result.ok()) << result.status().message();
  Graph graph = result->model.graph;
  const ValueId score = graph.outputs()[0].value;
  const auto cotangent = graph.add_value("c", DType::f32, graph.value(score).shape, ValueKind::input);
  ASSERT_TRUE(cotangent.ok());
  const auto gradients = add_gradients(graph, {{score, *cotangent}}, {graph.find_value("scores")});
  ASSERT_FALSE(gradients.ok());
  EXPECT_NE(gradients.status().message().find("would be trained on"), std::string::npos)
      << gradients.status().message();
}

TEST(CountedOutputs, MetadataThatDoesNotFitIsCorrupt) {
  auto result = converted(detector(kAll));
  ASSERT_TRUE(result.ok()) << result.status().message();
  Model& model = result->model;
  const auto counted = counted_outputs(model);
  ASSERT_TRUE(counted.ok()) << counted.status().message();
  ASSERT_EQ(counted->size(), 1u);
  EXPECT_EQ((*counted)[0].name, "kept");
  EXPECT_EQ((*counted)[0].axis, 0u);
  EXPECT_EQ((*counted)[0].count, "kept.count");
  EXPECT_EQ(counted_text(*counted), model.metadata.at(std::string(kMetaCounted)));
  for (const char* text : {"kept", "kept\t0", "kept\t2\tkept.count", "kept\t-1\tkept.count", "kept\t0\tkept", "\t\t",
                           "kept\t0x\tkept.count", "other\t0\tkept.count", "kept\t0\tother",
                           "kept\t18446744073709551616\tkept.count", "\n"}) {
    model.metadata[std::string(kMetaCounted)] = text;
    EXPECT_FALSE(counted_outputs(model).ok()) << text;
  }
  model.metadata.erase(std::string(kMetaCounted));
  EXPECT_TRUE(counted_outputs(model)->empty());
}

}  // namespace
}  // namespace graft::test::convert_counted_test
