#include <cmath>

#include "runtime/core/op_id.gen.h"
#include "tests/support/op_case.h"

namespace graft::test::norm_test {
namespace {

constexpr const char* kReason = "sums of a few thousand numbers in f32, and inversesqrt with 2 units in the last place";
using Dims = std::vector<std::int64_t>;

OpCase batch(std::string name, Dims dims, double epsilon = 1e-5) {
  const Dims c = {dims.back()};
  return {
      .name = std::move(name),
      .op = Op::batch_norm,
      .inputs = {{.dims = std::move(dims)}, {.dims = c}, {.dims = c}, {.dims = c}, {.dims = c, .low = 0.2, .high = 2}},
      .attrs = {{"epsilon", epsilon}},
      .tolerance = 2e-5,
      .reason = kReason};
}

OpCase frozen(OpCase c) {
  c.name += " frozen";
  for (std::size_t i = 1; i < c.inputs.size(); ++i) c.inputs[i].grad = false;
  return c;
}

OpCase batch_train(std::string name, Dims dims, double low = -1, double high = 1) {
  const Dims c = {dims.back()};
  return {.name = std::move(name),
          .op = Op::batch_norm_train,
          .inputs = {{.dims = std::move(dims), .low = low, .high = high}, {.dims = c}, {.dims = c}},
          .tolerance = 3e-5,
          .reason = kReason,
          .cotangents = 1};
}

OpCase update(std::string name, Attrs attrs) {
  const auto kind = ValueKind::state;
  return {.name = std::move(name),
          .op = Op::batch_norm_update,
          .inputs = {{.dims = {130}, .kind = kind},
                     {.dims = {130}, .low = 0.1, .kind = kind},
                     {.dims = {130}},
                     {.dims = {130}, .low = 0.1}},
          .attrs = std::move(attrs),
          .tolerance = 1e-6,
          .reason = "a few roundings of f32 (6e-8 each)",
          .gradient = false};
}

/// What is not finite leaves the running statistics as they are, channel by channel.
OpCase update_of_overflow() {
  OpCase c = update("update of overflow", {{"momentum", 0.25}, {"unbiased", std::int64_t{0}}});
  const double inf = std::numeric_limits<double>::infinity();
  for (OpInput& input : c.inputs) input.dims = {5};
  c.inputs[2].values = {1, inf, 2, std::nan(""), 3};
  c.inputs[3].values = {1, std::nan(""), inf, 2, 0};
  c.low_precision_roundings = 0;  // statistics are never kept in 16 bits
  return c;
}

OpCase layer(std::string name, Dims dims, std::int64_t axis, bool scale = true, bool bias = true) {
  const Dims trailing(dims.begin() + axis, dims.end());
  return {.name = std::move(name),
          .op = Op::layer_norm,
          .inputs = {{.dims = dims}, {.dims = trailing, .missing = !scale}, {.dims = trailing, .missing = !bias}},
          .attrs = {{"axis", axis}, {"epsilon", 1e-5}},
          .tolerance = 3e-5,
          .reason = kReason,
          .cotangents = 1};
}

OpCase group(std::string name, Dims dims, std::int64_t groups, bool scale = true, bool bias = true) {
  const Dims c = {dims.back()};
  return {.name = std::move(name),
          .op = Op::group_norm,
          .inputs = {{.dims = dims}, {.dims = c, .missing = !scale}, {.dims = c, .missing = !bias}},
          .attrs = {{"groups", groups}, {"epsilon", 1e-5}},
          .tolerance = 3e-5,
          .reason = kReason,
          .cotangents = 1};
}

// Normalisation must not cancel where the mean is large against the deviation; the gradient is not asked for, since
// x itself rounds (1000 has steps of 6e-5, deviations are about 0.6).
OpCase offset(OpCase c) {
  c.inputs[0].low = 999;
  c.inputs[0].high = 1001;
  c.gradient = false;
  c.tolerance = 2e-4;
  c.reason = "the mean of numbers near 1000 rounds to 6e-5, deviations are 0.6";
  return c;
}

std::vector<OpCase> cases() {
  OpCase only_bias_missing = layer("layer scale missing", {5, 9}, 1, false, true);
  OpCase axis_from_end = layer("layer axis from the end", {3, 4, 6}, 2);
  axis_from_end.attrs.set("axis", std::int64_t{-1});
  return {
      batch("batch", {2, 3, 3, 5}),
      batch("batch wide", {7, 200}),
      batch("batch epsilon", {4, 3}, 0.5),
      frozen(batch("batch", {2, 3, 3, 5})),
      batch("batch empty", {0, 3}),
      batch_train("train small", {4, 3}),
      batch_train("train one channel", {5, 7, 7, 1}),
      batch_train("train many rows", {3, 40, 45, 6}),
      batch_train("train many channels", {9, 150}),
      batch_train("train rank 5", {2, 2, 3, 2, 33}),
      offset(batch_train("train offset", {3, 10, 10, 4})),
      update("update unbiased", {{"momentum", 0.1}, {"count", std::int64_t{10}}}),
      update("update biased", {{"momentum", 0.25}, {"unbiased", std::int64_t{0}}}),
      update_of_overflow(),
      update("update by shape", {{"momentum", 0.1}, {"count_shape", Shape{2, 3, 4}}}),
      layer("layer", {6, 10}, 1),
      layer("layer one lane", {5, 1}, 1),
      layer("layer long", {3, 1000}, 1),
      layer("layer rows of 128", {2, 3, 128}, 2),
      layer("layer two axes", {4, 3, 5}, 1),
      layer("layer all axes", {3, 5}, 0),
      layer("layer many rows", {700, 3}, 1),
      layer("layer plain", {5, 9}, 1, false, false),
      layer("layer without bias", {5, 9}, 1, true, false),
      only_bias_missing,
      axis_from_end,
      layer("layer empty", {0, 4}, 1),
      offset(layer("layer offset", {4, 600}, 1)),
      group("group", {2, 3, 4, 6}, 3),
      group("group one", {2, 5, 8}, 1),
      group("instance", {3, 6, 6, 5}, 5),
      group("group without spatial axes", {4, 12}, 4),
      group("group wide", {2, 7, 96}, 2),
      group("group tall", {1, 50, 50, 4}, 2),
      group("group of many images in chunks", {6, 700, 3}, 3),
      group("group plain", {2, 9, 4}, 2, false, false),
      group("group without bias", {2, 9, 4}, 2, true, false),
      group("group empty", {0, 9, 4}, 2),
      offset(group("group offset", {2, 90, 6}, 3)),
  };
}
GRAFT_OP_CASES(Norm, cases());

TEST(NormInfer, RefusesWhatDoesNotFit) {
  expect_infer_error(batch("bad", {4}), "rank 2 or more");
  expect_infer_error(batch("bad", {4, 2}, -1.0), "\"epsilon\" is -1");
  expect_infer_error(batch("bad", {4, 2}, std::nan("")), "\"epsilon\" is nan");
  OpCase channels = batch("bad", {4, 2});
  channels.inputs[3].dims = {3};
  expect_infer_error(channels, "[2] is needed");
  expect_infer_error(group("bad", {2, 3, 6}, 4), "\"groups\" is 4");
  expect_infer_error(group("bad", {2, 3, 6}, 0), "\"groups\" is 0");
  expect_infer_error(group("bad", {2, 3, 6}, -3), "\"groups\" is -3");
  OpCase axis = layer("bad", {2, 3}, 1);
  axis.attrs.set("axis", std::int64_t{2});
  expect_infer_error(axis, "axis 2 is out of range");
  OpCase scale = layer("bad", {2, 3}, 1);
  scale.inputs[1].dims = {2, 3};
  expect_infer_error(scale, "[3] is needed");
  expect_infer_error(update("bad", {{"momentum", 1.5}, {"count", std::int64_t{3}}}), "\"momentum\" is 1.5");
  expect_infer_error(update("bad", {{"momentum", 0.1}, {"count", std::int64_t{1}}}), "2 or more values");
  expect_infer_error(update("bad", {{"momentum", 0.1}}), "2 or more values");
}

TEST(NormInfer, StatisticsAreNotDifferentiable) {
  OpCase c = layer("statistics", {2, 3}, 1);
  c.cotangents = 3;
  expect_infer_error(c, "cannot be differentiated through");
}

TEST(NormInfer, TakesSymbols) {
  Graph graph;
  const Dim batch_dim = Dim::symbol("batch");
  const auto x = graph.add_value("x", DType::f32, {batch_dim, 5, 5, 8}, ValueKind::input);
  const auto scale = graph.add_value("scale", DType::f32, {8}, ValueKind::parameter);
  const auto bias = graph.add_value("bias", DType::f32, {8}, ValueKind::parameter);
  ASSERT_TRUE(x.ok() && scale.ok() && bias.ok());
  const auto shape_of = [&](Op op, Attrs attrs, std::size_t output) {
    const auto node = graph.add_node(op, {*x, *scale, *bias}, std::move(attrs));
    EXPECT_TRUE(node.ok()) << node.status().message();
    return node.ok() ? graph.value(graph.node(*node).outputs[output]).shape.text() : std::string();
  };
  EXPECT_EQ(shape_of(Op::batch_norm_train, {}, 0), "[batch, 5, 5, 8]");
  EXPECT_EQ(shape_of(Op::batch_norm_train, {}, 2), "[8]");
  EXPECT_EQ(shape_of(Op::group_norm, {{"groups", std::int64_t{4}}}, 1), "[batch, 4]");
  EXPECT_EQ(shape_of(Op::layer_norm, {{"axis", std::int64_t{3}}}, 2), "[batch, 5, 5]");
}

}  // namespace
}  // namespace graft::test::norm_test
