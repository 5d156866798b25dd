// Which dispatches become one, on devices with narrow limits and under budgets.
#include <gtest/gtest.h>

#include "tests/support/networks.h"

namespace graft::plan_merge_test {
namespace {

/// `count` parameters of `side` x `side`, each with the gradient of a product and a step.
void add_layers(test::Network& net, int count, std::int64_t side, std::int64_t batch = 4) {
  ValueId x = net.input("x", {batch, side});
  for (int i = 0; i < count; ++i) x = net.linear(x, side);
  net.train(x);
}

std::uint32_t dispatches_of(const Plan& plan, std::string_view op) {
  std::uint32_t count = 0;
  for (const PlanNode& node : plan.nodes) count += node.op == op ? node.steps : 0;
  return count;
}

TEST(PlanMerge, OneDispatchStepsAllParameters) {
  test::Network net;
  add_layers(net, 5, 16, 64);
  const auto plan = test::checked_plan(net.graph);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(dispatches_of(*plan, "sgd_step"), 1u);
  const auto apart = test::checked_plan(net.graph, {}, {.merge = false});
  ASSERT_TRUE(apart.ok()) << apart.status().message();
  EXPECT_EQ(dispatches_of(*apart, "sgd_step"), 10u) << "a weight and a bias of each layer";
  EXPECT_LE(plan->barriers, apart->barriers);
  EXPECT_EQ(plan->flops, apart->flops);
  std::uint64_t flops[2] = {};
  for (const Step& step : plan->steps) flops[0] += step.flops;
  for (const Step& step : apart->steps) flops[1] += step.flops;
  EXPECT_EQ(flops[0], flops[1]);
  for (const PlanNode& node : plan->nodes) {
    if (node.op != "sgd_step") continue;
    EXPECT_EQ(node.steps == 0, node.merged_into != kNoIndex) << node.name;
  }
}

TEST(PlanMerge, WindowsStayWithinBindings) {
  test::Network net;
  add_layers(net, 6, 64);
  gpu::Target target;
  target.caps.max_storage_buffer_range = 40 << 10;  // two weights of 16 KiB, and what lies between them
  const auto plan = test::checked_plan(net.graph, target);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_GT(dispatches_of(*plan, "sgd_step"), 1u);
  EXPECT_LT(dispatches_of(*plan, "sgd_step"), 12u);
  for (const Step& step : plan->steps) {
    for (const PlanBinding& window : step.windows) EXPECT_LE(window.size, target.caps.max_storage_buffer_range);
  }
}

TEST(PlanMerge, FewBuffersHoldManyTensorsAsFarAsTheyReach) {
  test::Network net;
  add_layers(net, 3, 16, 64);
  gpu::Target target;
  target.caps.max_storage_buffers_per_stage = 4;  // parameters, gradients, the step state and the table
  const auto plan = test::checked_plan(net.graph, target);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(dispatches_of(*plan, "sgd_step"), 1u);
  target.caps.max_storage_buffer_range = 8 << 10;  // the arena is larger
  const auto apart = test::checked_plan(net.graph, target);
  ASSERT_TRUE(apart.ok()) << apart.status().message();
  EXPECT_GT(dispatches_of(*apart, "sgd_step"), 1u);
}

TEST(PlanMerge, AWorkgroupCountAboveTheLimitIsSpread) {
  test::Network net;
  add_layers(net, 4, 64);
  gpu::Target target;
  target.caps.max_workgroup_count = {4, 65535, 65535};
  const auto plan = test::checked_plan(net.graph, target);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  for (const Step& step : plan->steps) EXPECT_LE(step.groups[0], 4u);
}

TEST(PlanMerge, MemoryComesBeforeOneDispatch) {
  // Wide layers of few samples: gradients are most of the arena, so that waiting for one dispatch would take memory.
  test::Network net;
  add_layers(net, 8, 64);
  const auto free = test::checked_plan(net.graph);
  const auto apart = test::checked_plan(net.graph, {}, {.merge = false});
  ASSERT_TRUE(free.ok() && apart.ok());
  EXPECT_LE(free->transient_bytes, apart->transient_bytes);
  EXPECT_GT(dispatches_of(*free, "sgd_step"), 1u);
  EXPECT_LT(dispatches_of(*free, "sgd_step"), dispatches_of(*apart, "sgd_step"));
}

}  // namespace
}  // namespace graft::plan_merge_test
