// Help for tests of plans: small graphs in one line, and a plan as text.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "runtime/core/build.h"
#include "runtime/plan/hazards.h"
#include "runtime/plan/plan.h"

namespace graft::test {

/// A graph under construction, with a builder of its own.
struct GraphMaker {
  Graph graph;
  Builder b{graph};
  GraphMaker() = default;
  GraphMaker(const GraphMaker&) = delete;
  GraphMaker& operator=(const GraphMaker&) = delete;

  ValueId value(std::string_view name, Shape shape, ValueKind kind, DType dtype = DType::f32) {
    auto id = graph.add_value(std::string(name), dtype, std::move(shape), kind);
    EXPECT_TRUE(id.ok()) << id.status().message();
    return id.ok() ? *id : kNoValue;
  }
  ValueId input(std::string_view name, Shape shape) { return value(name, std::move(shape), ValueKind::input); }
  ValueId parameter(std::string_view name, Shape shape) { return value(name, std::move(shape), ValueKind::parameter); }
  ValueId state(std::string_view name, Shape shape) { return value(name, std::move(shape), ValueKind::state); }
  ValueId add(Op op, std::vector<ValueId> inputs, Attrs attrs = {}, std::string_view name = {}) {
    const ValueId v = b.node(op, std::move(inputs), std::move(attrs), name);
    EXPECT_TRUE(b.status().ok()) << b.status().message();
    return v;
  }
  /// A node without outputs.
  void act(Op op, std::vector<ValueId> inputs, Attrs attrs = {}, std::string_view name = {}) {
    b.nodes(op, std::move(inputs), std::move(attrs), name);
    EXPECT_TRUE(b.status().ok()) << b.status().message();
  }
  void output(std::string_view name, ValueId v) { graph.add_output(std::string(name), v); }
};

/// Everything in a plan as text: equal plans, equal text.
std::string plan_text(const Plan& plan);

/// Plans the graph with residents of its own, passes the plan through both checks, and compares a second planning.
Result<Plan> checked_plan(const Graph& graph, const gpu::Target& target = {}, const PlanOptions& options = {});

/// Takes away each barrier of the plan in turn: check_hazards() must find every one missing.
void expect_every_barrier_needed(const Plan& plan);

std::size_t dispatches(const Plan& plan);

/// nullptr when the plan has no such value.
const PlanValue* find_value(const Plan& plan, std::string_view name);
/// Position in Plan::nodes; -1 when it is not there.
int position(const Plan& plan, std::string_view node);

}  // namespace graft::test
