// The order of execution: never worse than the given one, held against the best of all orders where these can be
// searched, and gradients that are used up as soon as they are there.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "runtime/core/op_id.gen.h"
#include "runtime/plan/schedule.h"
#include "runtime/train/step/training_graph.h"
#include "tests/support/plan_checks.h"
#include "tests/support/tiny_training.h"

namespace graft::plan_order_test {
namespace {

using test::GraphMaker;

/// Products and sums that read any of what came before; what nobody reads is an output.
void build_random(GraphMaker& g, std::uint32_t seed, int nodes) {
  std::mt19937 random(seed);
  const auto pick = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  std::vector<ValueId> values = {g.input("x", {8, 16}), g.input("z", {8, 32})};
  std::vector<char> read(2, 0);
  int parameters = 0;
  const auto product = [&](std::int64_t width) {
    const std::size_t from = values.size() - 1 - std::min(pick(values.size()), pick(values.size()));
    read[from] = 1;
    const Shape shape = g.graph.value(values[from]).shape;
    const ValueId w = g.parameter(cat("w", parameters++), {shape[1], Dim(width)});
    return g.add(Op::matmul, {values[from], w});
  };
  while (static_cast<int>(g.graph.nodes().size()) < nodes) {
    const std::int64_t width = std::int64_t{4} << pick(6);
    const bool sum = static_cast<int>(g.graph.nodes().size()) + 3 <= nodes && pick(3) == 0;
    ValueId made = product(width);
    if (sum) made = g.add(Op::add, {made, product(width)});
    values.push_back(made);
    read.push_back(0);
  }
  for (std::size_t i = 2; i < values.size(); ++i) {
    if (read[i] == 0) g.output(cat("y", i), values[i]);
  }
}

/// The least peak of live bytes over all orders: by how many nodes, as a set, have run.
class BestOrder {
 public:
  explicit BestOrder(const Graph& graph) : graph_(graph), nodes_(graph.nodes().size()) {
    for (std::size_t v = 0; v < graph.values().size(); ++v) {
      const Value& value = graph.values()[v];
      if (value.kind != ValueKind::temporary && value.kind != ValueKind::input) continue;
      Live live{device_bytes(value), 0, 0, false};
      if (value.producer.valid()) live.made = 1u << value.producer.index;
      for (std::size_t n = 0; n < nodes_; ++n) {
        const auto& inputs = graph.nodes()[n].inputs;
        if (std::find(inputs.begin(), inputs.end(), ValueId{static_cast<std::uint32_t>(v)}) != inputs.end()) {
          live.read |= 1u << n;
        }
      }
      for (const Output& output : graph.outputs()) live.output = live.output || output.value.index == v;
      if (live.read != 0 || live.output) values_.push_back(live);
    }
  }

  std::uint64_t peak() {
    const std::uint32_t all = (1u << nodes_) - 1;
    std::vector<std::uint64_t> best(std::size_t{all} + 1, ~std::uint64_t{0});
    best[0] = bytes(0, 0);
    for (std::uint32_t done = 0; done < all; ++done) {
      if (best[done] == ~std::uint64_t{0}) continue;
      for (std::uint32_t n = 0; n < nodes_; ++n) {
        if ((done >> n & 1) != 0 || !ready(n, done)) continue;
        const std::uint32_t next = done | 1u << n;
        best[next] = std::min(best[next], std::max(best[done], bytes(done, 1u << n)));
      }
    }
    return std::max(best[all], bytes(all, 0));
  }

 private:
  struct Live {
    std::uint64_t bytes = 0;
    std::uint32_t made = 0;  ///< the node that makes it; 0 for inputs
    std::uint32_t read = 0;
    bool output = false;
  };

  bool ready(std::uint32_t n, std::uint32_t done) const {
    for (const ValueId v : graph_.nodes()[n].inputs) {
      const NodeId producer = graph_.value(v).producer;
      if (producer.valid() && (done >> producer.index & 1) == 0) return false;
    }
    return true;
  }

  /// Alive while `running` runs after `done`.
  std::uint64_t bytes(std::uint32_t done, std::uint32_t running) const {
    std::uint64_t sum = 0;
    for (const Live& v : values_) {
      const bool there = v.made == 0 || ((done | running) & v.made) != 0;
      const bool wanted = v.output || (v.read & ~done) != 0;
      sum += there && wanted ? v.bytes : 0;
    }
    return sum;
  }

  const Graph& graph_;
  std::size_t nodes_;
  std::vector<Live> values_;
};

TEST(PlanOrder, IsHeldAgainstTheBestOfAllOrders) {
  constexpr int kGraphs = 200;
  int best = 0;
  int better = 0;
  double worst = 1;
  double sum = 0;
  for (int seed = 0; seed < kGraphs; ++seed) {
    GraphMaker g;
    build_random(g, static_cast<std::uint32_t>(seed), 14);
    Residents residents{gpu::Caps{}};
    ASSERT_TRUE(residents.add(g.graph).ok());
    const auto given = make_plan(g.graph, {}, residents, {.reorder = false, .in_place = false});
    const auto chosen = make_plan(g.graph, {}, residents, {.in_place = false});
    ASSERT_TRUE(given.ok() && chosen.ok());
    const std::uint64_t optimum = BestOrder(g.graph).peak();
    EXPECT_LE(chosen->lower_bound, given->lower_bound) << "graph " << seed;
    ASSERT_GE(chosen->lower_bound, optimum) << "graph " << seed << ": no order can do better than the best";
    best += chosen->lower_bound == optimum;
    better += chosen->lower_bound < given->lower_bound;
    const double over = static_cast<double>(chosen->lower_bound) / static_cast<double>(optimum);
    worst = std::max(worst, over);
    sum += over;
  }
  RecordProperty("optimal", best);
  RecordProperty("better_than_given", better);
  RecordProperty("worst_over_optimum", std::to_string(worst));
  RecordProperty("mean_over_optimum", std::to_string(sum / kGraphs));
  EXPECT_GE(best, kGraphs / 2);
  EXPECT_GE(better, kGraphs / 3) << "the graphs are to be such that the order matters";
  EXPECT_LE(sum / kGraphs, 1.05);
  EXPECT_LE(worst, 2);
}

/// x -> `depth` linear layers of one width with tanh.
test::TinyModel deep_mlp(int depth, std::int64_t width) {
  test::TinyModel model;
  Builder b(model.graph);
  ValueId x = model.input("x", {width});
  for (int i = 0; i < depth; ++i) {
    x = b.node(Op::tanh, {b.node(Op::matmul, {x, model.weight(cat("w", i), {width, width}, 0.1)})});
  }
  model.graph.add_output("y", b.node(Op::matmul, {x, model.weight("head", {width, 4}, 0.1)}));
  EXPECT_TRUE(b.status().ok()) << b.status().message();
  return model;
}

struct Gradients {
  std::uint64_t most = 0;  ///< bytes that are alive together
  std::uint64_t all = 0;
  std::uint64_t arena = 0;
  std::uint64_t extra_flops = 0;
};

Gradients gradients_alive(bool in_backward, const PlanOptions& plan_options) {
  const test::TinyModel model = deep_mlp(12, 64);
  train::TrainOptions options;
  options.batch = 4;
  options.optimizer_in_backward = in_backward;
  const auto graph = train::build_training_graph(model.graph, 4, options, train::GradientUse::step);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  if (!graph.ok()) return {};
  Residents residents{gpu::Caps{}};
  EXPECT_TRUE(residents.add(graph->graph).ok());
  const auto plan = make_plan(graph->graph, {}, residents, plan_options);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  if (!plan.ok()) return {};
  std::map<std::uint32_t, const PlanValue*> by_storage;
  for (const PlanValue& value : plan->values) {
    const bool gradient = value.space == Space::transient && value.bytes == 64 * 64 * 4;
    if (gradient && value.root == value.value) by_storage.try_emplace(value.value, &value);
  }
  std::vector<std::uint64_t> alive(plan->nodes.size() + 1, 0);
  std::uint64_t all = 0;
  for (const auto& [v, value] : by_storage) {
    all += value->bytes;
    for (std::uint32_t t = value->first; t <= value->last; ++t) alive[t] += value->bytes;
  }
  return {*std::max_element(alive.begin(), alive.end()), all, plan->transient_bytes, plan->recomputed_flops};
}

TEST(PlanOrder, GradientsAreUsedUpAsSoonAsTheyAreThere) {
  const Gradients soon = gradients_alive(true, {.merge = false});
  EXPECT_GE(soon.all, 12u * 64 * 64 * 4);
  EXPECT_LE(soon.most, soon.all / 4) << "in the backward pass the optimizer takes each when it is complete";
  const Gradients together = gradients_alive(false, {.merge = false});
  EXPECT_GE(together.most, 12u * 64 * 64 * 4) << "whether the step is taken is known when all are there";
  // Some wait for others, so that one dispatch serves them; not where the memory that this takes is not there.
  const Gradients tight = gradients_alive(true, {.arena_limit = soon.arena});
  EXPECT_LE(tight.arena, soon.arena);
  EXPECT_EQ(tight.extra_flops, 0u) << "waiting goes before anything is computed again";
}

TEST(PlanOrder, AHashIsOfTheStateThatARunLeaves) {
  test::GraphMaker g;
  const ValueId moved = g.state("moved", {64}), twice = g.state("twice", {64}), kept = g.parameter("kept", {64});
  const ValueId x = g.input("x", {64});
  const ValueId hash = g.add(Op::state_hash, {moved, kept, twice}, {}, "hash");  // before what it has to wait for
  g.act(Op::accumulate, {moved, x}, {}, "first");
  g.act(Op::accumulate, {twice, x}, {}, "second");
  g.act(Op::accumulate, {twice, x}, {}, "third");
  g.output("hash", hash);
  const auto plan = test::checked_plan(g.graph);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  for (const char* const before : {"first", "second", "third"}) {
    EXPECT_GE(test::position(*plan, before), 0);
    EXPECT_LT(test::position(*plan, before), test::position(*plan, "hash")) << before;
  }
  test::expect_every_barrier_needed(*plan);
}

}  // namespace
}  // namespace graft::plan_order_test
