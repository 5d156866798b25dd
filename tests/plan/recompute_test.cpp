// ctest: slow
// Results computed again in the backward pass: less memory, the same bits, found for any network.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <random>

#include "runtime/autodiff/autodiff.h"
#include "runtime/core/liveness.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/plan/draft.h"
#include "runtime/plan/recompute/recompute_search.h"
#include "runtime/plan/storage.h"
#include "tests/support/networks.h"

namespace graft::plan_recompute_test {
namespace {

/// `depth` square layers with tanh, whose activations dwarf their parameters.
void build_chain(test::Network& net, std::int64_t batch, std::int64_t width, std::int64_t depth) {
  ValueId x = net.input("x", {batch, width});
  for (std::int64_t i = 0; i < depth; ++i) x = net.add(Op::tanh, {net.linear(x, width)});
  net.train(x);
}

/// One residual block with batch norm.
void build_residual(test::Network& net) {
  const ValueId x = net.relu(net.conv(net.input("x", {2, 16, 16, 3}), 8, 3));
  const ValueId y = net.batch_norm(net.conv(net.relu(net.batch_norm(net.conv(x, 8, 3))), 8, 3));
  net.train(net.linear(net.flatten(net.relu(net.b.add(x, y))), 10));
}

/// Adapters of low rank on a chain of rank 3: their gradients see their inputs as matrices.
void build_adapted_chain(test::Network& net) {
  ValueId x = net.input("x", {8, 32, 16});
  for (std::int64_t i = 0; i < 12; ++i) {
    const auto adapter = [&](const char* name, Shape shape) {
      net.parameters.push_back(net.parameter(cat(name, i), std::move(shape)));
      return net.parameters.back();
    };
    x = net.add(Op::tanh, {net.add(Op::lora, {x, x, adapter("a", {4, 16}), adapter("b", {16, 4})})});
  }
  net.train(net.b.reshape(x, {256, 16}));
}

/// Whose very first node is wanted again.
void build_from_the_first(test::Network& net) {
  const ValueId x = net.add(Op::tanh, {net.input("x", {64, 32})});
  net.train(net.linear(net.add(Op::tanh, {net.linear(net.b.mul(x, x), 32)}), 10));
}

struct Planned {
  test::Network net;
  gpu::Target target;
  Residents residents{target.caps};

  explicit Planned(const std::function<void(test::Network&)>& build) {
    build(net);
    EXPECT_TRUE(residents.add(net.graph).ok());
  }
  Result<Plan> plan(const PlanOptions& options) { return make_plan(net.graph, target, residents, options); }
  std::vector<RecomputePoint> curve() {
    auto points = recompute_curve(net.graph, target, residents);
    EXPECT_TRUE(points.ok()) << points.status().message();
    return points.ok() ? *points : std::vector<RecomputePoint>();
  }
};

TEST(PlanRecompute, ChainsGrowWithTheRootOfTheirDepth) {
  std::vector<double> least;
  for (const std::int64_t depth : {16, 64, 256}) {
    Planned p([&](test::Network& net) { build_chain(net, 256, 32, depth); });
    const auto plan = p.plan({.least_memory = true});
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    const auto free = p.plan({});
    ASSERT_TRUE(free.ok());
    RecordProperty("free_" + std::to_string(depth), std::to_string(free->transient_bytes));
    RecordProperty("least_" + std::to_string(depth), std::to_string(plan->transient_bytes));
    RecordProperty("extra_" + std::to_string(depth),
                   std::to_string(static_cast<double>(plan->recomputed_flops) / static_cast<double>(free->flops)));
    // No node runs more than twice: the forward pass is a third of a step.
    EXPECT_LT(plan->recomputed_flops, free->flops / 2);
    least.push_back(static_cast<double>(plan->transient_bytes));
  }
  // Four times the depth: twice the memory, with some room for the layer at work.
  EXPECT_LT(least[1], 2.2 * least[0]);
  EXPECT_LT(least[2], 2.2 * least[1]);
}

TEST(PlanRecompute, WhatTheBackwardPassViewsMayBeComputedAgain) {
  Planned p(build_adapted_chain);
  const auto free = p.plan({});
  const auto least = p.plan({.least_memory = true});
  ASSERT_TRUE(free.ok() && least.ok());
  // Of 12 layers' results every third or so stays, beside what one segment needs.
  EXPECT_LT(least->transient_bytes, free->transient_bytes * 2 / 3);
}

/// Peaks and work of every choice there is, none beaten by another.
std::vector<RecomputeCost> all_best(RecomputeEvaluator& evaluate) {
  const std::size_t n = evaluate.graph().candidates().size();
  std::vector<RecomputeCost> best;
  for (std::uint32_t bits = 0; bits < 1u << n; ++bits) {
    std::vector<char> dropped(n);
    for (std::size_t c = 0; c < n; ++c) dropped[c] = static_cast<char>(bits >> c & 1);
    const RecomputeCost cost = evaluate(dropped);
    const auto beaten = [&](const RecomputeCost& a, const RecomputeCost& b) {
      return b.peak <= a.peak && b.work <= a.work;
    };
    if (std::any_of(best.begin(), best.end(), [&](const RecomputeCost& b) { return beaten(cost, b); })) continue;
    std::erase_if(best, [&](const RecomputeCost& b) { return beaten(b, cost); });
    best.push_back(cost);
  }
  return best;
}

/// A network, what its nodes cost (with made-up scratch memory), and what a choice does to it.
struct Weighed {
  Planned p;
  Draft draft;
  std::optional<RecomputeGraph> graph;
  std::vector<NodeCost> costs;
  std::uint64_t step = 0;  ///< work of all nodes

  explicit Weighed(const std::function<void(test::Network&)>& build)
      : p(build), draft{p.net.graph, p.target, p.residents, p.net.graph.nodes().size()} {
    EXPECT_TRUE(arrange(draft, {}).ok());
    auto made = RecomputeGraph::create(p.net.graph, draft.order);
    EXPECT_TRUE(made.ok()) << made.status().message();
    graph.emplace(*std::move(made));
    for (std::uint32_t n = 0; n < draft.emissions.size(); ++n) {
      const auto& scratch = draft.emissions[n].scratch;
      const Node& node = p.net.graph.node(NodeId{n});
      const std::uint64_t moved = node.outputs.empty() ? 0 : 2 * draft.bytes[node.outputs[0].index];
      costs.push_back({node_flops(p.net.graph, node), moved, std::accumulate(scratch.begin(), scratch.end(), 0ull)});
      step += costs.back().work();
    }
  }
  Weighed(const Weighed&) = delete;
  Weighed& operator=(const Weighed&) = delete;

  /// Peak and cost of the graph that a choice makes, by the planner's own passes.
  std::pair<std::uint64_t, NodeCost> rewired(const std::vector<char>& dropped) {
    graph->drop(dropped);
    const std::vector<NodeId> order = graph->order();
    std::vector<std::uint64_t> bytes;
    for (std::uint32_t v = 0; v < graph->graph().values().size(); ++v) {
      bytes.push_back(draft.bytes[graph->original_value(v)]);
    }
    Storages storages = find_storages(graph->graph(), order, alias_roots(graph->graph()), bytes, true);
    NodeCost sum;
    for (std::uint32_t i = 0; i < order.size(); ++i) {
      const NodeCost& cost = costs[graph->original(order[i]).index];
      sum.flops += cost.flops;
      sum.bytes += cost.bytes;
      storages.blocks.push_back({cost.scratch, i + 1, i + 1});
    }
    const auto live = live_bytes(storages.blocks, static_cast<std::uint32_t>(order.size()) + 2);
    return {*std::max_element(live.begin(), live.end()), sum};
  }
};

TEST(PlanRecompute, CostsAreThoseOfTheRewiredGraph) {
  const std::function<void(test::Network&)> networks[] = {build_adapted_chain,
                                                          build_from_the_first,
                                                          build_residual,
                                                          [](test::Network& n) { test::build_lenet(n, 32); },
                                                          [](test::Network& n) { test::build_resnet(n, 2, 8); },
                                                          [](test::Network& n) { test::build_u_net(n, 2, 3); },
                                                          [](test::Network& n) { test::build_transformer(n, 2, 3); }};
  std::mt19937 random(7);
  for (const auto& build : networks) {
    Weighed w(build);
    for (NodeCost& cost : w.costs) cost.scratch += random() % 2 == 0 ? random() % 5000 : 0;
    RecomputeEvaluator evaluate(*w.graph, w.draft.bytes, w.costs, true);
    std::vector<char> dropped(w.graph->candidates().size(), 0);
    const NodeCost whole = w.rewired(dropped).second;
    for (int trial = 0; trial < 40; ++trial) {
      for (char& d : dropped) d = static_cast<char>(random() % 40 < static_cast<unsigned>(trial));
      const RecomputeCost cost = evaluate(dropped);
      const auto [peak, sum] = w.rewired(dropped);
      EXPECT_EQ(cost.peak, peak);
      EXPECT_EQ(cost.flops, sum.flops - whole.flops);
      EXPECT_EQ(cost.bytes, sum.bytes - whole.bytes);
      EXPECT_EQ(cost.work, sum.work() - whole.work());
    }
  }
}

/// The search against all choices of a small graph: for each of the best ones it has one that is as good within
/// `peak_room` and `work_room` (of the whole step).
void expect_near_optimum(const std::function<void(test::Network&)>& build, double peak_room, double work_room) {
  Weighed w(build);
  RecomputeEvaluator evaluate(*w.graph, w.draft.bytes, w.costs, true);
  ASSERT_LE(w.graph->candidates().size(), 16u);
  const auto found = find_recompute_choices(evaluate);
  const auto best = all_best(evaluate);
  EXPECT_GT(best.size(), 2u) << "the case is to have something to choose";
  for (const RecomputeCost& b : best) {
    const bool near = std::any_of(found.begin(), found.end(), [&](const RecomputeChoice& c) {
      return static_cast<double>(c.cost.peak) <= (1 + peak_room) * static_cast<double>(b.peak) &&
             static_cast<double>(c.cost.work) <= static_cast<double>(b.work) + work_room * static_cast<double>(w.step);
    });
    EXPECT_TRUE(near) << "nothing like " << b.peak << " bytes for " << b.work << " more work was found";
  }
}

TEST(PlanRecompute, SearchFindsTheOptimumOfSmallGraphs) {
  // The search leaves out what gains less than a thousandth of the peak, and may miss what takes three changes at once.
  constexpr double kPeakRoom = 0.002;
  constexpr double kWorkRoom = 0.001;
  expect_near_optimum([](test::Network& n) { test::build_lenet(n, 32); }, kPeakRoom, kWorkRoom);
  expect_near_optimum([](test::Network& n) { build_chain(n, 64, 16, 6); }, kPeakRoom, kWorkRoom);
  expect_near_optimum([](test::Network& n) { build_residual(n); }, kPeakRoom, kWorkRoom);
  expect_near_optimum(
      [](test::Network& n) {  // one long skip, of which the short way is dearer than the long
        const ValueId x = n.linear(n.input("x", {64, 16}), 32);
        ValueId y = x;
        for (int i = 0; i < 3; ++i) y = n.add(Op::tanh, {n.linear(y, 16 << i)});
        n.train(n.add(Op::concat, {y, n.add(Op::sigmoid, {x})}, {{"axis", std::int64_t{1}}}));
      },
      kPeakRoom, kWorkRoom);
}

struct Case {
  std::string name;
  std::function<void(test::Network&)> build;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class PlanRecomputeOf : public testing::TestWithParam<Case> {};

TEST_P(PlanRecomputeOf, EveryLimitOfTheCurveIsMet) {
  Planned p(GetParam().build);
  const auto curve = p.curve();
  ASSERT_GE(curve.size(), 2u);
  const auto free = test::checked_plan(p.net.graph, {}, {.merge = false, .fuse = false});  // whose updates do not wait
  ASSERT_TRUE(free.ok());
  EXPECT_EQ(curve.front().peak, free->lower_bound);
  EXPECT_EQ(curve.front().extra_flops, 0u);
  for (std::size_t i = 1; i < curve.size(); ++i) {
    EXPECT_LT(curve[i].peak, curve[i - 1].peak);
    EXPECT_GE(curve[i].extra_flops + 4 * curve[i].extra_bytes, curve[i - 1].extra_flops + 4 * curve[i - 1].extra_bytes);
  }
  const auto least = test::checked_plan(p.net.graph, {}, {.least_memory = true, .fuse = false});
  ASSERT_TRUE(least.ok()) << least.status().message();
  for (const int tenth : {0, 3, 9}) {
    const std::uint64_t range = free->transient_bytes - least->transient_bytes;
    PlanOptions options{.fuse = false};
    options.arena_limit = least->transient_bytes + range * static_cast<std::uint64_t>(tenth) / 10;
    const auto plan = test::checked_plan(p.net.graph, {}, options);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    EXPECT_LE(plan->transient_bytes, options.arena_limit);
    EXPECT_EQ(plan->flops, free->flops + plan->recomputed_flops);
    EXPECT_FALSE(plan->recomputed.empty());
  }
  PlanOptions options;
  options.arena_limit = least->transient_bytes - 1;
  const auto none = p.plan(options);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().code(), Code::out_of_memory);
}

INSTANTIATE_TEST_SUITE_P(, PlanRecomputeOf,
                         testing::Values(Case{"adapted_chain", build_adapted_chain},
                                         Case{"lenet", [](test::Network& n) { test::build_lenet(n, 32); }},
                                         Case{"chain", [](test::Network& n) { build_chain(n, 256, 32, 64); }},
                                         Case{"resnet", [](test::Network& n) { test::build_resnet(n, 8, 8); }},
                                         Case{"u_net", [](test::Network& n) { test::build_u_net(n, 4, 3); }},
                                         Case{"transformer",
                                              [](test::Network& n) { test::build_transformer(n, 4, 3); }}),
                         [](const testing::TestParamInfo<Case>& c) { return c.param.name; });

}  // namespace
}  // namespace graft::plan_recompute_test
