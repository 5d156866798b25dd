// Plans of whole networks in training: tight, correct by both checks, every barrier needed, the same each time.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "tests/support/networks.h"

namespace graft::plan_networks_test {
namespace {

struct Case {
  std::string name;
  std::function<void(test::Network&)> build;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class PlanNetworks : public testing::TestWithParam<Case> {};

TEST_P(PlanNetworks, AreTightAndCorrect) {
  test::Network net;
  GetParam().build(net);
  if (testing::Test::HasFatalFailure() || testing::Test::HasNonfatalFailure()) return;
  const auto plan = test::checked_plan(net.graph);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_LE(static_cast<double>(plan->transient_bytes), 1.02 * static_cast<double>(plan->lower_bound))
      << plan->transient_bytes << " bytes, of which " << plan->lower_bound << " are needed";
  RecordProperty("arena_over_bound",
                 std::to_string(static_cast<double>(plan->transient_bytes) / static_cast<double>(plan->lower_bound)));
  RecordProperty("dispatches", static_cast<int>(plan->steps.size()));
  RecordProperty("barriers", static_cast<int>(plan->barriers));
  test::expect_every_barrier_needed(*plan);

  ASSERT_LT(plan->peak_node, plan->nodes.size());
  EXPECT_EQ(plan->nodes[plan->peak_node].live_bytes, plan->lower_bound);
  EXPECT_GT(plan->flops, 0u);
  EXPECT_FALSE(plan->saved.empty());
  EXPECT_GT(plan->memory[MemoryClass::parameters], 0u);

  const auto given = test::checked_plan(net.graph, {}, {.reorder = false});
  ASSERT_TRUE(given.ok()) << given.status().message();
  EXPECT_LE(plan->lower_bound, given->lower_bound) << "another order is only taken where it needs less";
  const auto apart = test::checked_plan(net.graph, {}, {.in_place = false});
  ASSERT_TRUE(apart.ok()) << apart.status().message();
  // Updates may wait for each other at the price of 1/128 of the arena, in one plan and not in the other.
  EXPECT_LE(plan->lower_bound, apart->lower_bound + apart->lower_bound / 128);
}

TEST_P(PlanNetworks, HoldInSmallSegments) {
  test::Network net;
  GetParam().build(net);
  if (testing::Test::HasFatalFailure() || testing::Test::HasNonfatalFailure()) return;
  gpu::Target target;
  std::uint64_t largest = 0;
  for (const Value& value : net.graph.values()) largest = std::max(largest, device_bytes(value));
  target.caps.max_allocation = 2 * largest + (64 << 10);
  const auto plan = test::checked_plan(net.graph, target);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_GT(plan->transient_bytes, plan->segment_bytes) << "the case is to need several segments";
}

INSTANTIATE_TEST_SUITE_P(, PlanNetworks,
                         testing::Values(Case{"lenet", [](test::Network& n) { test::build_lenet(n, 32); }},
                                         Case{"resnet", [](test::Network& n) { test::build_resnet(n, 8, 8); }},
                                         Case{"u_net", [](test::Network& n) { test::build_u_net(n, 4, 3); }},
                                         Case{"transformer",
                                              [](test::Network& n) { test::build_transformer(n, 4, 3); }}),
                         [](const testing::TestParamInfo<Case>& c) { return c.param.name; });

}  // namespace
}  // namespace graft::plan_networks_test
