// The graphs of training: what they hold, and what is said where none can be built. No device.
#include "runtime/core/op_id.gen.h"
#include "runtime/train/step/training_graph.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "runtime/exec/memory.h"
#include "runtime/passes/train_mode.h"
#include "runtime/plan/hazards.h"
#include "runtime/train/plan/training_plan.h"
#include "tests/support/tiny_decoder.h"
#include "tests/support/tiny_training.h"

namespace graft::train::training_graph_test {
namespace {

using test::tiny_cnn;
using test::tiny_mlp;
using test::TinyModel;

std::size_t count(const Graph& graph, Op op) {
  std::size_t n = 0;
  for (const Node& node : graph.nodes()) n += node.op == op;
  return n;
}

TEST(TrainMode, ReplacesBatchNormAndStartsDropout) {
  TinyModel model = tiny_cnn(4, 0.5);
  Builder b(model.graph);
  const ValueId first = model.graph.outputs()[0].value;
  const ValueId second = b.node(Op::dropout, {first}, {{"p", 0.1}, {"training", std::int64_t{0}}});
  const ValueId unused = b.node(Op::exp, {first});
  model.graph.clear_outputs();
  model.graph.add_output("y", second);
  model.graph.add_output("z", unused);
  const Graph bound = bind_batch(model.graph, 8, {}).value();
  const passes::TrainModeGraph made = passes::to_train_mode(bound, bound.outputs()[0].value, {}).value();
  ASSERT_TRUE(validate(made.graph).ok()) << validate(made.graph).message();
  EXPECT_EQ(count(made.graph, Op::batch_norm), 0u);
  EXPECT_EQ(count(made.graph, Op::batch_norm_train), 1u);
  EXPECT_EQ(count(made.graph, Op::exp), 0u) << "the loss does not depend on it";
  std::set<std::int64_t> streams;
  for (const Node& node : made.graph.nodes()) {
    if (node.op == Op::batch_norm_update) {
      EXPECT_EQ(node.attrs.integer("count"), 8 * 8 * 8);
      EXPECT_EQ(node.attrs.number("momentum"), 0.1);
    }
    if (node.op != Op::dropout) continue;
    EXPECT_TRUE(node.attrs.flag("training"));
    streams.insert(node.attrs.integer("stream"));
  }
  EXPECT_EQ(streams.size(), 2u);
  EXPECT_EQ(made.graph.value(made.graph.find_value("bn.running_mean")).kind, ValueKind::state);

  passes::TrainModeOptions fixed;
  fixed.batch_statistics = false;
  fixed.freeze = {"bn.*"};
  const passes::TrainModeGraph still = passes::to_train_mode(bound, bound.outputs()[0].value, fixed).value();
  EXPECT_EQ(count(still.graph, Op::batch_norm), 1u);
  EXPECT_EQ(count(still.graph, Op::batch_norm_update), 0u);
  EXPECT_EQ(still.graph.value(still.graph.find_value("bn.weight")).kind, ValueKind::constant);
  EXPECT_EQ(still.graph.value(still.graph.find_value("fc.weight")).kind, ValueKind::parameter);
}

TEST(TrainMode, AddsNoiseToEmbeddings) {
  const TinyModel model = test::tiny_llama({.tied = true});
  const Graph bound = bind_batch(model.graph, 3, {{"seq", 8}}).value();
  passes::TrainModeOptions noisy;
  noisy.neftune_alpha = 5;
  const ValueId target = bound.outputs()[0].value;
  const passes::TrainModeGraph made = passes::to_train_mode(bound, target, noisy).value();
  ASSERT_TRUE(validate(made.graph).ok()) << validate(made.graph).message();
  std::size_t lookups = 0;
  for (const Node& node : made.graph.nodes()) {
    if (node.op == Op::gather) ++lookups;
    if (node.op != Op::random_uniform) continue;
    const Shape& shape = made.graph.value(node.outputs[0]).shape;
    ASSERT_EQ(shape.rank(), 3u);
    EXPECT_EQ(shape[0], Dim(3));
    const double bound_of_it = 5 / std::sqrt(8.0 * static_cast<double>(shape[2].value()));
    EXPECT_DOUBLE_EQ(node.attrs.number("offset"), -bound_of_it);
    EXPECT_DOUBLE_EQ(node.attrs.number("factor"), 2 * bound_of_it);
  }
  EXPECT_EQ(count(made.graph, Op::random_uniform), lookups);
  EXPECT_EQ(lookups, 1u);
  EXPECT_EQ(count(passes::to_train_mode(bound, target, {}).value().graph, Op::random_uniform), 0u);

  const TinyModel image = tiny_mlp(3, 4, 5);
  const Graph pictures = bind_batch(image.graph, 2, {}).value();
  const auto refused = passes::to_train_mode(pictures, pictures.outputs()[0].value, noisy);
  EXPECT_NE(refused.status().message().find("looks up no rows"), std::string::npos) << refused.status().message();
}

TEST(LossInput, TakesWhatGoesIntoASoftmax) {
  TinyModel model = tiny_mlp(3, 4, 5);
  Builder b(model.graph);
  const ValueId logits = model.graph.outputs()[0].value;
  const ValueId p = b.node(Op::softmax, {logits}, {{"axis", std::int64_t{-1}}});
  model.graph.clear_outputs();
  model.graph.add_output("p", p);
  model.graph.add_output("logits", logits);
  std::string note;
  const auto loss_input = [&](const LossOptions& loss) -> Result<ValueId> {
    TrainOptions options;
    options.loss = loss;
    GRAFT_TRY_ASSIGN(const LossInputs inputs, loss_inputs(model.graph, options, &note));
    return inputs.at(0).at(0);
  };
  EXPECT_EQ(loss_input({}).value(), logits);
  EXPECT_NE(note.find("softmax"), std::string::npos);
  note.clear();
  EXPECT_EQ(loss_input({.kind = Loss::mse}).value(), p);
  EXPECT_EQ(loss_input({.output = "logits"}).value(), logits);
  EXPECT_TRUE(note.empty());
  EXPECT_FALSE(loss_input({.output = "q"}).ok());
}

TEST(TrainingGraph, NamesWhatItTrainsAndWhatItDoesNot) {
  TinyModel model = tiny_mlp(3, 4, 5);
  model.weight("spare", {2}, 1);
  TrainOptions options;
  options.freeze = {"fc2.bias"};
  const auto graph = build_training_graph(model.graph, 6, options, GradientUse::accumulate).value();
  EXPECT_TRUE(validate(graph.graph).ok()) << validate(graph.graph).message();
  std::vector<std::string> names;
  for (const TrainedTensor& tensor : graph.tensors) {
    names.push_back(tensor.name);
    EXPECT_EQ(tensor.accumulator, tensor.name + "/gradient");
    EXPECT_EQ(tensor.optimizer_state,
              (std::vector<std::string>{tensor.name + "/exp_avg", tensor.name + "/exp_avg_sq"}));
  }
  EXPECT_EQ(names, (std::vector<std::string>{"fc1.weight", "fc1.bias", "fc2.weight"}));
  EXPECT_EQ(graph.untrained, std::vector<std::string>{"spare"});
  EXPECT_EQ(count(graph.graph, Op::adam_step), 0u);
  EXPECT_EQ(count(graph.graph, Op::accumulate), 3u);
  const Graph update = build_update_graph(graph, options).value();
  EXPECT_TRUE(validate(update).ok());
  EXPECT_EQ(count(update, Op::adam_step), 3u);
  EXPECT_EQ(count(update, Op::zero_state), 3u);
}

/// y + 1 where x is larger than the parameter.
TinyModel with_a_threshold() {
  TinyModel model = tiny_mlp(3, 4, 5);
  Builder b(model.graph);
  const ValueId threshold = model.weight("threshold", {1}, 1);
  const ValueId y = model.graph.outputs()[0].value;
  const ValueId larger = b.node(Op::cast, {b.node(Op::less, {threshold, y}, {}, "compare")}, {{"to", std::int64_t{0}}});
  model.graph.clear_outputs();
  model.graph.add_output("y", b.add(y, larger));
  return model;
}

TEST(TrainingGraph, LeavesAloneWhatNoGradientReachesAndSaysSo) {
  const TinyModel model = with_a_threshold();
  const auto graph = build_training_graph(model.graph, 6, {}, GradientUse::accumulate).value();
  EXPECT_EQ(graph.untrained, std::vector<std::string>{"threshold"});
  EXPECT_EQ(graph.tensors.size(), 4u);
  EXPECT_NE(graph.note.find("has no gradient: \"threshold\"."), std::string::npos) << graph.note;
  TrainOptions alone;
  alone.freeze = {"fc*"};
  const auto none = build_training_graph(model.graph, 6, alone, GradientUse::accumulate);
  EXPECT_NE(none.status().message().find("\"compare\" (less) stands in the way"), std::string::npos)
      << none.status().message();
}

TEST(TrainingGraph, RefusesNamesThatStandForNothing) {
  const TinyModel model = tiny_mlp(3, 4, 5);
  const auto refusal = [&](const TrainOptions& options) {
    const auto made = build_training_graph(model.graph, 4, options, GradientUse::step);
    EXPECT_FALSE(made.ok());
    return made.ok() ? std::string() : made.status().message();
  };
  TrainOptions frozen;
  frozen.freeze = {"fc9.*"};
  EXPECT_NE(refusal(frozen).find("matches \"fc9.*\""), std::string::npos);
  TrainOptions grouped;
  grouped.groups = {{.pattern = "nothing"}};
  EXPECT_NE(refusal(grouped).find("matches \"nothing\""), std::string::npos);
  TrainOptions bound;
  bound.bindings = {{"sequence", 3}};
  EXPECT_NE(refusal(bound).find("named \"sequence\""), std::string::npos);
}

TEST(TrainingGraph, ClassAxisOfImages) {
  TinyModel model;
  const ValueId x = model.input("x", {5, 2, 3});  // [batch, classes, height, width]
  const ValueId w = model.filled("w", {1}, 2);
  Builder b(model.graph);
  model.graph.add_output("y", b.mul(x, w));
  const auto graph = build_training_graph(model.graph, 4, {}, GradientUse::step).value();
  EXPECT_EQ(graph.loss.classes, 5);
  EXPECT_EQ(graph.graph.value(graph.loss.targets[0]).shape, (Shape{4, 2, 3}));
  TrainOptions last;
  last.loss.class_axis = -1;
  EXPECT_EQ(build_training_graph(model.graph, 4, last, GradientUse::step)->loss.classes, 3);
  last.loss.class_axis = 0;
  EXPECT_FALSE(build_training_graph(model.graph, 4, last, GradientUse::step).ok());
  last.loss.class_axis = 1;
  last.loss.target_shape = Shape{5, 3};
  const auto misfit = build_training_graph(model.graph, 4, last, GradientUse::step);
  ASSERT_FALSE(misfit.ok());
  EXPECT_NE(misfit.status().message().find("along axis 1"), std::string::npos) << misfit.status().message();
  last.loss.class_axis.reset();
  EXPECT_EQ(build_training_graph(model.graph, 4, last, GradientUse::step)->loss.classes, 2);
}

TEST(BindBatch, SaysWhatDoesNotFit) {
  TinyModel model;
  Builder b(model.graph);
  const ValueId fixed = model.graph.add_value("x", DType::f32, Shape{1, 3}, ValueKind::input).value();
  model.graph.add_output("y", b.node(Op::exp, {fixed}));
  EXPECT_TRUE(bind_batch(model.graph, 1, {}).ok());
  const auto more = bind_batch(model.graph, 8, {});
  ASSERT_FALSE(more.ok());
  EXPECT_NE(more.status().message().find("[1, 3], which fixes its batch, but 8 samples"), std::string::npos);
  TinyModel two = tiny_mlp(3, 4, 5);
  two.graph.add_value("mask", DType::f32, Shape{Dim::symbol("other")}, ValueKind::input).value();
  EXPECT_FALSE(batch_symbol(two.graph).ok());
}

TEST(TrainingPlan, NeedsNoDeviceAndCountsEveryClass) {
  const TinyModel model = tiny_cnn(4, 0.5);
  TrainOptions options;
  options.batch = 8;
  options.micro_batch = 3;
  options.clip_norm = 1;
  PlanRequest request;
  request.samples = 21;
  request.evaluation_samples = 7;
  const auto made = plan_training(model.graph, options, request, gpu::Target{});
  ASSERT_TRUE(made.ok()) << made.status().message();
  ASSERT_EQ(made->training.size(), 2u);
  EXPECT_EQ(made->training[0].samples, 3);
  EXPECT_EQ(made->training[1].samples, 2);
  ASSERT_EQ(made->evaluation.size(), 2u);
  EXPECT_TRUE(made->update.has_value());
  for (const Plan* plan : made->plans()) {
    EXPECT_TRUE(check_hazards(*plan).ok()) << check_hazards(*plan).message();
    EXPECT_TRUE(check_memory(*plan).ok()) << check_memory(*plan).message();
  }
  const MemoryByClass& memory = made->residents.memory();
  // conv 36 + 4, bn 8, fc 256 parameters and 8 statistics, of 4 bytes; each value is aligned.
  EXPECT_GE(memory[MemoryClass::parameters], 312u * 4);
  EXPECT_GE(memory[MemoryClass::gradients], 304u * 4);
  EXPECT_GE(memory[MemoryClass::optimizer], 2 * 304u * 4);
  EXPECT_EQ(memory[MemoryClass::weights], 0u);

  request.plan.budget = 1000;
  const auto small = plan_training(model.graph, options, request, gpu::Target{});
  ASSERT_FALSE(small.ok());
  EXPECT_EQ(small.status().code(), Code::out_of_memory);
  EXPECT_NE(small.status().message().find(" bytes, with 3 samples at once"), std::string::npos)
      << small.status().message();

  request = {};
  request.samples = 5;
  request.drop_last = true;
  EXPECT_FALSE(plan_training(model.graph, options, request, gpu::Target{}).ok());
}

TEST(TrainingPlan, ABudgetBecomesAMicroBatch) {
  const TinyModel model = tiny_cnn(4);
  TrainOptions options;
  options.batch = 64;
  PlanRequest request;
  request.samples = 100;
  const std::uint64_t whole = plan_training(model.graph, options, request, gpu::Target{})->memory().total();
  request.plan.budget = whole / 2;
  EXPECT_FALSE(plan_training(model.graph, options, request, gpu::Target{}).ok());
  request.shrink_micro_batch = true;
  const auto half = plan_training(model.graph, options, request, gpu::Target{});
  ASSERT_TRUE(half.ok()) << half.status().message();
  EXPECT_LT(half->micro_batch, 64);
  EXPECT_GT(half->micro_batch, 1);
  EXPECT_TRUE(half->accumulates);
  EXPECT_LE(half->memory().total(), whole / 2);

  request.plan.budget = 1000;
  const auto none = plan_training(model.graph, options, request, gpu::Target{});
  ASSERT_FALSE(none.ok());
  const std::string& message = none.status().message();
  const std::size_t at = message.find("works is ");
  ASSERT_NE(at, std::string::npos) << message;
  request.plan.budget = std::stoull(message.substr(at + 9));
  EXPECT_TRUE(plan_training(model.graph, options, request, gpu::Target{}).ok()) << message;
  --request.plan.budget;
  EXPECT_FALSE(plan_training(model.graph, options, request, gpu::Target{}).ok());
}

/// Thousands of layers: what grows with the square of their number would take minutes here.
TEST(TrainingPlan, OfAChainOfThousandsOfLayers) {
  constexpr int kLayers = 3000;
  TinyModel model;
  Builder b(model.graph);
  ValueId x = model.input("x", {4});
  for (int i = 0; i < kLayers; ++i) {
    const ValueId weight = model.weight(cat("w", i), {4, 4}, 0.5);
    x = b.node(Op::tanh, {b.add(b.node(Op::matmul, {x, weight}), model.weight(cat("b", i), {4}, 0.5))});
  }
  model.graph.add_output("y", x);
  ASSERT_TRUE(b.status().ok()) << b.status().message();
  TrainOptions options;
  options.loss.kind = Loss::mse;
  options.batch = 8;
  PlanRequest request;
  request.evaluation = false;
  const auto made = plan_training(model.graph, options, request, gpu::Target{});
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ(made->tensors.size(), 2u * kLayers);
  // Each layer's result is kept for its backward pass, and nothing else.
  EXPECT_LT(made->training.front().plan.transient_bytes, 2u * kLayers * 256 * 2);
}

}  // namespace
}  // namespace graft::train::training_graph_test
