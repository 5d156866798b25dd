// Tensors larger than one binding of the device: in pieces, or one sentence while planning, before anything runs.
#include <gtest/gtest.h>

#include "runtime/core/op_id.gen.h"
#include "tests/support/plan_checks.h"

namespace graft::plan_bindings_test {
namespace {

using test::GraphMaker;

/// Of nodes that bind whole tensors: rows of normalization, softmax and sums.
void expect_sentence(const GraphMaker& g) {
  gpu::Target target;
  ASSERT_TRUE(test::checked_plan(g.graph, target).ok()) << "with room it is planned";
  target.caps.max_storage_buffer_range = 8192;
  const auto plan = test::checked_plan(g.graph, target);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), Code::unsupported);
  const std::string& message = plan.status().message();
  EXPECT_NE(message.find("While planning node \"big\""), std::string::npos) << message;
  EXPECT_NE(message.find("binding"), std::string::npos) << message;
}

TEST(PlanBindings, SoftmaxSaysWhatIsTooLarge) {
  GraphMaker g;
  g.output("y", g.add(Op::softmax, {g.input("x", {64, 64})}, {{"axis", std::int64_t{1}}}, "big"));
  expect_sentence(g);
}

TEST(PlanBindings, SumsSayWhatIsTooLarge) {
  GraphMaker g;
  g.output("y",
           g.add(Op::reduce_sum, {g.input("x", {64, 64})}, {{"axes", Ints{1}}, {"keepdims", std::int64_t{0}}}, "big"));
  expect_sentence(g);
}

TEST(PlanBindings, LayerNormSaysWhatIsTooLarge) {
  GraphMaker g;
  const ValueId x = g.input("x", {64, 64});
  g.output("y", g.add(Op::layer_norm, {x, g.parameter("scale", {64}), g.parameter("shift", {64})},
                      {{"axis", std::int64_t{1}}, {"epsilon", 1e-5}}, "big"));
  expect_sentence(g);
}

TEST(PlanBindings, BatchNormSaysWhatIsTooLarge) {
  GraphMaker g;
  const ValueId x = g.input("x", {64, 8, 8, 4});
  g.output("y",
           g.add(Op::batch_norm,
                 {x, g.parameter("scale", {4}), g.parameter("shift", {4}), g.state("mean", {4}), g.state("var", {4})},
                 {{"epsilon", 1e-5}}, "big"));
  expect_sentence(g);
}

GraphMaker& conv_of(GraphMaker& g, std::int64_t samples, std::int64_t side) {
  const ValueId x = g.input("x", {samples, side, side, 4});
  g.output("y", g.add(Op::conv, {x, g.parameter("w", {4, 3, 3, 4})},
                      {{"strides", Ints{1, 1}}, {"pads", Ints{1, 1, 1, 1}}}, "big"));
  return g;
}

TEST(PlanBindings, ConvTakesManySamplesInPieces) {
  GraphMaker g;
  gpu::Target target;
  target.caps.max_storage_buffer_range = 8192;
  const auto plan = test::checked_plan(conv_of(g, 64, 8).graph, target);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_GT(plan->nodes.at(0).steps, 1u);
  for (const Step& step : plan->steps) {
    if (step.kind != StepKind::dispatch) continue;
    for (const PlanBinding& binding : bound_by(step)) EXPECT_LE(binding.size, target.caps.max_storage_buffer_range);
  }
}

TEST(PlanBindings, ConvSaysWhenOneSampleIsTooLarge) {
  GraphMaker g;
  expect_sentence(conv_of(g, 1, 64));
}

}  // namespace
}  // namespace graft::plan_bindings_test
