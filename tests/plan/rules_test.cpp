// Single rules of the planner: what stands in a plan, and which of two limits holds.
#include <gtest/gtest.h>

#include "runtime/core/op_id.gen.h"
#include "runtime/plan/stream_choice.h"
#include "tests/support/plan_checks.h"

namespace graft::plan_rules_test {
namespace {

using test::GraphMaker;

/// Four products one behind the other, by weights of 64 KiB each.
void build_products(GraphMaker& g) {
  ValueId v = g.input("x", {4, 128});
  for (int i = 0; i < 4; ++i) v = g.add(Op::matmul, {v, g.value(cat("w", i), {128, 128}, ValueKind::constant)});
  g.output("y", v);
}

TEST(PlanRules, StreamedResidentsAreTheSameOnes) {
  GraphMaker g;
  build_products(g);
  Residents residents{gpu::Caps()};
  ASSERT_TRUE(residents.add(g.graph).ok());
  ASSERT_EQ(residents.entries().size(), 4u);
  const Residents streamed = residents.streamed({.names = {"w1", "w2"}, .range = kStreamRange});
  ASSERT_EQ(streamed.entries().size(), 4u);
  EXPECT_LT(streamed.bytes(), residents.bytes());
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(streamed.entries()[i].name, residents.entries()[i].name);
    EXPECT_EQ(streamed.entries()[i].streamed, i == 1 || i == 2);
    EXPECT_EQ(streamed.find(residents.entries()[i].name), &streamed.entries()[i]);
  }
  const Residents back = streamed.streamed({});
  EXPECT_EQ(back.bytes(), residents.bytes());
  EXPECT_EQ(back.memory().total(), residents.memory().total());
}

TEST(PlanRules, TheRingIsAsWideAsMemoryAllows) {
  GraphMaker g;
  build_products(g);
  const gpu::Target target;
  Residents residents{target.caps};
  ASSERT_TRUE(residents.add(g.graph).ok());
  const Residents open = residents.streamed({.range = kStreamRange});
  const auto plan = make_plan(g.graph, target, open);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  const Plan* const plans[] = {&*plan};
  const StreamChoice choice(open, target.caps, plans, false);
  ASSERT_TRUE(choice.any());
  const Streaming least = choice.least();
  const std::uint64_t fewest = choice.bytes(least);
  const auto within = choice.within(fewest);
  ASSERT_TRUE(within);
  EXPECT_LE(choice.bytes(*within), fewest);
  EXPECT_GE(within->window, 128u * 128u * 4u) << "a weight at a time";
  // With room for more a window takes several, so that the device waits less often.
  const auto wide = choice.within(open.bytes() - 1);
  ASSERT_TRUE(wide);
  Streaming wider = *wide;
  wider.window *= 2;
  EXPECT_TRUE(wider.window > open.bytes() || choice.bytes(wider) > open.bytes() - 1) << "no wider one fits";
}

TEST(PlanRules, OfTwoLimitsTheLowerHolds) {
  GraphMaker g;
  ValueId v = g.input("x", {64, 64});
  for (int i = 0; i < 3; ++i) v = g.add(Op::transpose, {v}, {{"perm", Ints{1, 0}}});
  g.output("y", v);
  const auto free = test::checked_plan(g.graph);
  ASSERT_TRUE(free.ok()) << free.status().message();
  const std::uint64_t arena = free->transient_bytes, total = free->memory.total();
  ASSERT_GT(arena, 0u);
  const auto code = [&](std::uint64_t limit, std::uint64_t budget) {
    return test::checked_plan(g.graph, {}, {.budget = budget, .arena_limit = limit}).status().code();
  };
  EXPECT_EQ(code(arena, total), Code::ok);
  EXPECT_EQ(code(arena / 4, 100 * total), Code::out_of_memory);
  EXPECT_EQ(code(100 * arena, total - arena / 2), Code::out_of_memory);
}

TEST(PlanRules, AnOperandThatIsReadTwiceMayBeWrittenOver) {
  GraphMaker g;
  const ValueId t = g.add(Op::exp, {g.input("x", {64, 64})});
  g.output("y", g.add(Op::mul, {t, t}));
  const auto plan = test::checked_plan(g.graph, {}, {.fuse = false});
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan->transient_bytes, 64u * 64u * 4u);
}

TEST(PlanRules, ResidentsStayToTheEndAndWorkspaceIsToldApart) {
  GraphMaker g;
  const ValueId x = g.input("x", {16, 4100});
  const ValueId w = g.value("w", {4100, 20}, ValueKind::constant);
  g.output("y", g.add(Op::relu, {g.add(Op::matmul, {x, w})}));
  gpu::Target target;
  target.caps.type = gpu::DeviceType::discrete;  // whose products cut long sums into parts
  const auto plan = test::checked_plan(g.graph, target, {.fuse = false});
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_GT(plan->memory[MemoryClass::workspace], 0u) << "partial sums, of the node at the peak";
  const PlanValue* weight = test::find_value(*plan, "w");
  ASSERT_NE(weight, nullptr);
  EXPECT_EQ(weight->space, Space::resident);
  EXPECT_EQ(weight->first, 0u);
  EXPECT_EQ(weight->last, plan->nodes.size());
}

}  // namespace
}  // namespace graft::plan_rules_test
