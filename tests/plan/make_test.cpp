// What plans hold: order, shared memory, barriers, limits. Planning needs no device.
#include <gtest/gtest.h>

#include "runtime/core/op_id.gen.h"
#include "tests/support/plan_checks.h"

namespace graft::plan_make_test {
namespace {

using test::checked_plan;
using test::find_value;
using test::GraphMaker;
using test::position;

constexpr std::int64_t kSide = 64;
const Shape kSquare = {kSide, kSide};
constexpr std::uint64_t kSquareBytes = kSide * kSide * 4;
const Attrs kTurn = {{"perm", Ints{1, 0}}};

/// The plan of the graph as it is: what is tested here is not fusion.
Result<Plan> planned(const Graph& graph, const gpu::Target& target = {}, PlanOptions options = {}) {
  options.fuse = false;
  return checked_plan(graph, target, options);
}

#define ASSERT_PLAN(name, ...)                                         \
  auto name##_result = planned(__VA_ARGS__);                           \
  ASSERT_TRUE(name##_result.ok()) << name##_result.status().message(); \
  const Plan name = std::move(name##_result).value()

TEST(Plan, ChainOfTwoBuffers) {
  GraphMaker g;
  ValueId v = g.input("x", kSquare);
  for (int i = 0; i < 6; ++i) v = g.add(Op::transpose, {v}, kTurn);
  g.output("y", v);
  ASSERT_PLAN(plan, g.graph);
  EXPECT_EQ(plan.transient_bytes, 2 * kSquareBytes);
  EXPECT_EQ(plan.lower_bound, 2 * kSquareBytes);
  EXPECT_EQ(plan.nodes.size(), 6u);
  EXPECT_EQ(plan.steps.size(), 8u) << "an upload, six dispatches, a readback";
  EXPECT_EQ(plan.barriers, 7u) << "each step reads what the one before wrote";
  EXPECT_EQ(plan.kernels.size(), 1u);
  EXPECT_EQ(plan.memory[MemoryClass::activations], 2 * kSquareBytes);
  EXPECT_EQ(plan.memory[MemoryClass::staging], 2 * kSquareBytes);
  EXPECT_EQ(plan.memory.total(), 4 * kSquareBytes);
  test::expect_every_barrier_needed(plan);
}

TEST(Plan, BranchesNeedNoBarrierBetweenThem) {
  GraphMaker g;
  const ValueId x = g.input("x", kSquare);
  for (int i = 0; i < 4; ++i) g.output("y" + std::to_string(i), g.add(Op::transpose, {x}, kTurn));
  ASSERT_PLAN(plan, g.graph);
  EXPECT_EQ(plan.barriers, 2u) << "after the upload and before the readbacks";
  test::expect_every_barrier_needed(plan);
}

TEST(Plan, ViewsAreNeitherCopiedNorDispatched) {
  GraphMaker g;
  const ValueId x = g.input("x", kSquare);
  const ValueId flat = g.add(Op::reshape, {x}, {{"shape", Shape{kSide * kSide}}}, "flat");
  const ValueId back = g.add(Op::reshape, {flat}, {{"shape", kSquare}}, "back");
  g.output("y", g.add(Op::transpose, {back}, kTurn, "turn"));
  ASSERT_PLAN(plan, g.graph);
  EXPECT_EQ(plan.steps.size(), 3u);
  EXPECT_EQ(plan.nodes[0].steps, 0u);
  ASSERT_NE(find_value(plan, "flat"), nullptr);
  EXPECT_EQ(find_value(plan, "flat")->offset, find_value(plan, "x")->offset);
  EXPECT_EQ(find_value(plan, "back")->storage, find_value(plan, "x")->storage);
  EXPECT_NE(find_value(plan, "turn")->storage, find_value(plan, "x")->storage);
}

TEST(Plan, ViewOfAParameterIsResident) {
  GraphMaker g;
  const ValueId w = g.parameter("w", {kSide * kSide});
  g.output("y", g.add(Op::transpose, {g.add(Op::reshape, {w}, {{"shape", kSquare}}, "square")}, kTurn));
  ASSERT_PLAN(plan, g.graph);
  EXPECT_EQ(find_value(plan, "square")->space, Space::resident);
  EXPECT_EQ(plan.memory[MemoryClass::parameters], kSquareBytes);
  EXPECT_EQ(plan.transient_bytes, kSquareBytes);
}

TEST(Plan, DropsWhatNothingNeeds) {
  GraphMaker g;
  const ValueId x = g.input("x", kSquare);
  const ValueId unused = g.input("unused", kSquare);
  g.add(Op::transpose, {unused}, kTurn, "dead");
  g.output("y", g.add(Op::transpose, {x}, kTurn, "live"));
  ASSERT_PLAN(plan, g.graph);
  EXPECT_EQ(position(plan, "dead"), -1);
  EXPECT_EQ(position(plan, "live"), 0);
  ASSERT_EQ(plan.inputs.size(), 2u);
  EXPECT_TRUE(plan.inputs[0].used);
  EXPECT_FALSE(plan.inputs[1].used);
  EXPECT_EQ(plan.transient_bytes, 2 * kSquareBytes);
}

TEST(Plan, InPlaceAtTheLastUseOnly) {
  GraphMaker g;
  const ValueId x = g.input("x", kSquare);
  const ValueId a = g.add(Op::exp, {x}, {}, "a");
  const ValueId b = g.add(Op::exp, {a}, {}, "b");
  const ValueId c = g.add(Op::add, {a, b}, {}, "c");
  g.output("c", c);
  g.output("b", b);
  ASSERT_PLAN(plan, g.graph);
  const auto storage = [&](const char* name) { return find_value(plan, name)->storage; };
  EXPECT_EQ(storage("x"), storage("a"));
  EXPECT_NE(storage("a"), storage("b")) << "a is still needed by c";
  EXPECT_EQ(storage("a"), storage("c"));
  EXPECT_EQ(plan.transient_bytes, 2 * kSquareBytes);
  test::expect_every_barrier_needed(plan);

  ASSERT_PLAN(apart, g.graph, {}, {.in_place = false});
  EXPECT_EQ(apart.transient_bytes, 3 * kSquareBytes);
}

TEST(Plan, NeverInPlaceOverResidentsOutputsOrBroadcastOperands) {
  GraphMaker g;
  const ValueId w = g.parameter("w", kSquare);
  const ValueId x = g.input("x", {kSide});
  g.output("y", g.add(Op::exp, {w}, {}, "y"));
  const ValueId z = g.add(Op::add, {w, x}, {}, "z");
  g.output("z", z);
  g.output("u", g.add(Op::exp, {z}, {}, "u"));
  ASSERT_PLAN(plan, g.graph);
  EXPECT_EQ(find_value(plan, "y")->space, Space::transient);
  EXPECT_NE(find_value(plan, "z")->storage, find_value(plan, "x")->storage);
  EXPECT_NE(find_value(plan, "z")->storage, find_value(plan, "u")->storage);
}

TEST(Plan, NoInPlaceWhenAnOperandReadsTheSameBytesElsewhere) {
  GraphMaker g;
  const ValueId x = g.input("x", {1, 8});
  const ValueId a = g.add(Op::exp, {x}, {}, "a");
  // a as a column broadcasts against a as a row: writing over a would change what other elements read.
  const ValueId column = g.add(Op::reshape, {a}, {{"shape", Shape{8, 1}}}, "column");
  const ValueId y = g.add(Op::add, {a, column}, {}, "y");
  g.output("y", y);
  ASSERT_PLAN(plan, g.graph);
  EXPECT_NE(find_value(plan, "y")->storage, find_value(plan, "a")->storage);
}

TEST(Plan, MutationsRunAfterAllReaders) {
  GraphMaker g;
  const ValueId x = g.input("x", kSquare);
  const ValueId w = g.parameter("w", kSquare);
  g.act(Op::sgd_step, {w, x}, {}, "update");
  const ValueId view = g.add(Op::reshape, {w}, {{"shape", kSquare}}, "view");
  g.output("y", g.add(Op::transpose, {view}, kTurn, "reader"));
  ASSERT_PLAN(plan, g.graph);
  EXPECT_GT(position(plan, "update"), position(plan, "reader"));
  test::expect_every_barrier_needed(plan);
}

TEST(Plan, MutatorsOfOneValueKeepTheirOrder) {
  GraphMaker g;
  const ValueId x = g.input("x", kSquare);
  const ValueId acc = g.state("acc", kSquare);
  g.act(Op::accumulate, {acc, x}, {}, "first");
  g.act(Op::accumulate, {acc, g.add(Op::transpose, {x}, kTurn)}, {}, "second");
  g.act(Op::zero_state, {acc}, {}, "third");
  ASSERT_PLAN(plan, g.graph);
  EXPECT_LT(position(plan, "first"), position(plan, "second"));
  EXPECT_LT(position(plan, "second"), position(plan, "third"));
  EXPECT_EQ(plan.memory[MemoryClass::gradients], kSquareBytes) << "an accumulator holds gradients";
  test::expect_every_barrier_needed(plan);
}

TEST(Plan, WhatReadsAnUpdatedCacheRunsAfterTheUpdate) {
  const Shape shape = {1, 16, 4};
  GraphMaker g;
  const ValueId x = g.input("x", {1, 1, 4});
  const ValueId cache = g.state("cache", shape);
  const ValueId now = g.add(Op::cache_append, {cache, x}, {}, "append");
  g.output("after",
           g.add(Op::transpose, {g.add(Op::reshape, {now}, {{"shape", shape}})}, {{"perm", Ints{0, 2, 1}}}, "reader"));
  g.output("before", g.add(Op::neg, {cache}, {}, "early"));
  ASSERT_PLAN(plan, g.graph);
  EXPECT_GT(position(plan, "reader"), position(plan, "append"));
  EXPECT_LT(position(plan, "early"), position(plan, "append"));
  EXPECT_EQ(plan.residents_memory[MemoryClass::activations], 16 * 4 * sizeof(float)) << "a cache is no optimizer's";
  test::expect_every_barrier_needed(plan);
}

TEST(Plan, UpdatesRunAsSoonAsTheirGradientIsThere) {
  // Ten gradients, then ten updates: the updates move up, so that one gradient lives at a time.
  GraphMaker g;
  const ValueId x = g.input("x", kSquare);
  std::vector<ValueId> gradients;
  for (int i = 0; i < 10; ++i) gradients.push_back(g.add(Op::transpose, {x}, kTurn));
  for (int i = 0; i < 10; ++i) {
    g.act(Op::sgd_step, {g.parameter("w" + std::to_string(i), kSquare), gradients[i]});
  }
  ASSERT_PLAN(plan, g.graph, {}, {.arena_limit = 2 * kSquareBytes, .recompute = false});
  EXPECT_EQ(plan.transient_bytes, 2 * kSquareBytes);
  ASSERT_PLAN(apart, g.graph, {}, {.merge = false});
  EXPECT_EQ(apart.transient_bytes, 2 * kSquareBytes);
  ASSERT_PLAN(free, g.graph);
  EXPECT_EQ(free.transient_bytes, 2 * kSquareBytes) << "none waits for others where that takes memory";
  ASSERT_PLAN(given, g.graph, {}, {.reorder = false, .merge = false});
  EXPECT_EQ(given.transient_bytes, 11 * kSquareBytes);
}

TEST(Plan, WhatIsMadeFarAheadOfItsUseIsMadeLater) {
  GraphMaker g;
  const ValueId x = g.input("x", kSquare);
  std::vector<ValueId> early;
  for (int i = 0; i < 5; ++i) {
    early.push_back(g.add(Op::expand, {g.input("s" + std::to_string(i), {1})}, {{"shape", kSquare}}));
  }
  ValueId v = x;
  for (int i = 0; i < 5; ++i) v = g.add(Op::add, {g.add(Op::transpose, {v}, kTurn), early[i]});
  g.output("y", v);
  ASSERT_PLAN(given, g.graph, {}, {.reorder = false});
  ASSERT_PLAN(plan, g.graph);
  EXPECT_GE(given.transient_bytes, 6 * kSquareBytes);
  EXPECT_LT(plan.transient_bytes, 3 * kSquareBytes + 4096);
}

TEST(Plan, SavedValuesAreThoseThatBackwardReads) {
  GraphMaker g;
  const ValueId x = g.input("x", kSquare);
  const ValueId a = g.add(Op::transpose, {x}, kTurn, "a");
  const ValueId b = g.add(Op::transpose, {a}, kTurn, "b");
  g.output("b", b);
  const ValueId view = g.add(Op::reshape, {a}, {{"shape", Shape{kSide * kSide}}}, "view");
  g.b.set_scope("grad/", g.graph.find_node("b"));
  const ValueId d = g.add(Op::exp, {view}, {}, "d");
  g.output("d", g.add(Op::add, {d, d}, {}, "e"));
  ASSERT_PLAN(plan, g.graph);
  ASSERT_EQ(plan.saved.size(), 1u);
  EXPECT_EQ(plan.saved[0].name, "a");
  EXPECT_EQ(plan.saved[0].bytes, kSquareBytes);
  EXPECT_EQ(plan.saved[0].producer, "a");
  EXPECT_EQ(plan.saved[0].readers, std::vector<std::string>{"grad/d"});
  EXPECT_FALSE(plan.nodes[static_cast<std::size_t>(position(plan, "a"))].backward);
  EXPECT_TRUE(plan.nodes[static_cast<std::size_t>(position(plan, "grad/d"))].backward);
  EXPECT_EQ(find_value(plan, "grad/e")->memory_class, MemoryClass::gradients);
}

/// The message of planning `graph` on a device with these limits.
std::string refusal(const Graph& graph, const gpu::Target& target, Code code, const PlanOptions& options = {}) {
  const auto plan = checked_plan(graph, target, options);
  EXPECT_FALSE(plan.ok());
  if (plan.ok()) return {};
  EXPECT_EQ(plan.status().code(), code) << plan.status().message();
  return plan.status().message();
}

void expect_parts(const std::string& message, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << part << " in " << message;
}

TEST(PlanLimits, NameNodeValueSizeAndLimit) {
  gpu::Target target;
  target.caps.max_storage_buffer_range = 8192;
  GraphMaker whole;  // a reflecting pad reads its input whole, other than a transpose, which is cut
  whole.output("y", whole.add(Op::pad, {whole.input("x", kSquare)},
                              {{"pads", Ints{1, 0, 1, 0}}, {"mode", std::string("reflect")}}, "frame"));
  expect_parts(refusal(whole.graph, target, Code::unsupported), {"\"frame\"", "\"x\"", "16.00 KiB", "8.00 KiB"});
  GraphMaker g;
  g.output("y", g.add(Op::transpose, {g.parameter("x", kSquare)}, kTurn, "turn"));
  target = {};
  target.caps.max_storage_buffers_per_stage = 1;  // for two allocations
  expect_parts(refusal(g.graph, target, Code::unsupported), {"\"turn\"", "2 buffers", "allows 1"});
  target = {};
  target.caps.max_push_constants = 4;
  expect_parts(refusal(g.graph, target, Code::unsupported), {"\"turn\"", "push constants", "allows 4"});
  target = {};
  target.caps.max_workgroup_count = {1, 1, 1};
  expect_parts(refusal(g.graph, target, Code::unsupported), {"\"turn\"", "workgroups", "allows 1"});
}

TEST(PlanLimits, AllocationsAndBudget) {
  GraphMaker g;
  g.output("y", g.add(Op::transpose, {g.input("x", {256, 256})}, kTurn));
  gpu::Target target;
  target.caps.max_allocation = 128 << 10;
  expect_parts(refusal(g.graph, target, Code::out_of_memory), {"\"x\"", "256.00 KiB", "128.00 KiB"});
  EXPECT_TRUE(checked_plan(g.graph, {}, {.budget = 1 << 20}).ok()) << "two values and their staging are 1 MiB";
  expect_parts(refusal(g.graph, {}, Code::out_of_memory, {.budget = 1000}), {"1.00 MiB", "1000"});
  target.caps.max_allocation = 256 << 10;
  ASSERT_PLAN(plan, g.graph, target);
  EXPECT_EQ(plan.segment_bytes, 256u << 10);
  EXPECT_EQ(plan.transient_bytes, 512u << 10) << "each value in a segment of its own";
}

TEST(PlanLimits, SymbolsMustBeBoundAndSizesCountable) {
  GraphMaker g;
  g.output("y", g.add(Op::transpose, {g.input("x", {Dim::symbol("batch"), 4})}, kTurn));
  expect_parts(refusal(g.graph, {}, Code::invalid_argument), {"\"x\"", "batch"});
}

TEST(PlanLimits, ResidentsMustMatchTheGraph) {
  GraphMaker g;
  const ValueId w = g.parameter("w", kSquare);
  g.output("y", g.add(Op::transpose, {w}, kTurn));
  const gpu::Target target;
  const auto none = make_plan(g.graph, target, Residents(target.caps));
  ASSERT_FALSE(none.ok());
  expect_parts(none.status().message(), {"\"w\"", "residents"});

  GraphMaker other;
  other.parameter("w", {3});
  Residents residents(target.caps);
  ASSERT_TRUE(residents.add(other.graph).ok());
  EXPECT_FALSE(make_plan(g.graph, target, residents).ok());
  const Status clash = residents.add(g.graph);
  ASSERT_FALSE(clash.ok());
  expect_parts(clash.message(), {"\"w\"", "[3]", "[64, 64]"});
  EXPECT_EQ(residents.entries().size(), 1u) << "a refused graph leaves no trace";
}

TEST(PlanResidents, AreSharedByName) {
  const gpu::Target target;
  GraphMaker train;
  const ValueId w = train.parameter("w", {100});
  const ValueId acc = train.state("acc", {100});
  train.act(Op::accumulate, {acc, w});
  GraphMaker eval;
  eval.value("frozen", {3}, ValueKind::constant);
  eval.output("y", eval.add(Op::exp, {eval.value("w", {100}, ValueKind::constant)}));
  Residents residents(target.caps);
  ASSERT_TRUE(residents.add(train.graph).ok());
  ASSERT_TRUE(residents.add(eval.graph).ok());
  ASSERT_EQ(residents.entries().size(), 3u);
  EXPECT_EQ(residents.find("w")->memory_class, MemoryClass::parameters);
  EXPECT_EQ(residents.find("acc")->memory_class, MemoryClass::gradients);
  EXPECT_EQ(residents.find("frozen")->memory_class, MemoryClass::weights);
  EXPECT_EQ(residents.memory().total(), residents.bytes());
  const auto a = make_plan(train.graph, target, residents);
  const auto b = make_plan(eval.graph, target, residents);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(find_value(*a, "w")->offset, find_value(*b, "w")->offset);
}

TEST(PlanChecks, FindMemoryThatIsSharedTooSoon) {
  GraphMaker g;
  const ValueId x = g.input("x", kSquare);
  const ValueId a = g.add(Op::transpose, {x}, kTurn, "a");
  const ValueId b = g.add(Op::transpose, {a}, kTurn, "b");
  g.output("y", g.add(Op::add, {a, b}, {}, "y"));
  ASSERT_PLAN(plan, g.graph);
  Plan broken = plan;
  for (Step& step : broken.steps) {
    for (PlanBinding& binding : step.bindings) {
      if (binding.value == find_value(plan, "b")->value) binding.offset = find_value(plan, "a")->offset;
    }
  }
  EXPECT_FALSE(check_memory(broken).ok()) << "b would be written over a, which y still reads";
  broken = plan;
  broken.steps[1].bindings[0].offset += plan.transient_bytes;
  EXPECT_FALSE(check_memory(broken).ok());
  broken = plan;
  for (PlanValue& value : broken.values) value.offset = 0;
  EXPECT_FALSE(check_memory(broken).ok());
}

}  // namespace
}  // namespace graft::plan_make_test
