#include <algorithm>
#include <optional>

#include "runtime/plan/draft.h"
#include "runtime/plan/recompute_search.h"

namespace graft {
namespace {

/// A graph whose choices are being weighed.
class Weighing {
 public:
  static Result<Weighing> create(const Draft& draft, const PlanOptions& options) {
    GRAFT_TRY_ASSIGN(RecomputeGraph graph, RecomputeGraph::create(draft.graph, draft.order));
    return Weighing(draft, options, std::move(graph));
  }

  /// By rising work, with the peaks that they have once all orders have been tried.
  Result<std::vector<RecomputeChoice>> choices() {
    auto evaluate = evaluator();
    std::vector<RecomputeChoice> found = find_recompute_choices(evaluate);
    for (RecomputeChoice& choice : found) {
      GRAFT_TRY_ASSIGN(const Draft draft, arranged(choice));
      choice.cost.peak = peak(draft);
    }
    return found;
  }

  /// `choice` with as little computed again as `peak` allows.
  RecomputeChoice relaxed(const RecomputeChoice& choice, std::uint64_t peak) {
    auto evaluate = evaluator();
    return relax(evaluate, choice, peak);
  }

  /// Refers to the graph, which the next call changes.
  Result<Draft> arranged(const RecomputeChoice& choice) {
    graph_.drop(choice.dropped);
    Draft draft{graph_.graph(), base_.caps, base_.residents, graph_.joint_nodes()};
    GRAFT_TRY(arrange(draft, options_, graph_.order(), options_.tile_workspace ? 0 : kAnyWorkspace));
    return draft;
  }

  /// How many of the values that would otherwise be saved are computed again.
  std::uint32_t saved_dropped(const RecomputeChoice& choice) const {
    std::uint32_t count = 0;
    for (std::size_t c = 0; c < choice.dropped.size(); ++c) count += choice.dropped[c] != 0 && graph_.saved(c);
    return count;
  }

  Result<Plan> finish(const Draft& draft, const RecomputeChoice& choice) const {
    GRAFT_TRY_ASSIGN(Plan plan, finish_plan(draft, options_));
    plan.recomputed_flops = plan.flops;
    for (const NodeId id : base_.order) plan.recomputed_flops -= node_flops(base_.graph, base_.graph.node(id));
    std::vector<char> repeated(graph_.joint_nodes(), 0);
    for (const NodeId id : draft.order) {
      if (id.index >= draft.joint_nodes) repeated[graph_.original(id).index] = 1;
    }
    for (std::size_t c = 0; c < choice.dropped.size(); ++c) {
      const std::uint32_t v = graph_.candidates()[c];
      const Value& value = base_.graph.values()[v];
      if (choice.dropped[c] == 0 || repeated[value.producer.index] == 0) continue;
      const Node& node = base_.graph.node(value.producer);
      plan.recomputed.push_back({v, value.name, base_.bytes[v], node.name, node_flops(base_.graph, node)});
    }
    return plan;
  }

 private:
  Weighing(const Draft& draft, const PlanOptions& options, RecomputeGraph graph)
      : base_(draft), options_(options), graph_(std::move(graph)) {
    for (std::uint32_t n = 0; n < draft.graph.nodes().size(); ++n) {
      const Emission& emission = draft.emissions[n];
      NodeCost& cost = costs_.emplace_back();
      cost.flops = node_flops(draft.graph, draft.graph.node(NodeId{n}));
      for (const std::uint64_t b : emission.scratch) cost.scratch += b;
      for (const DispatchDesc& dispatch : emission.dispatches) {
        for (const Binding& binding : dispatch.bindings) cost.bytes += binding.slot.size;
      }
    }
  }

  RecomputeEvaluator evaluator() { return {graph_, base_.bytes, costs_, options_.in_place}; }

  const Draft& base_;
  const PlanOptions& options_;
  RecomputeGraph graph_;
  std::vector<NodeCost> costs_;
};

/// nullopt where its arena exceeds the limit.
Result<std::optional<Plan>> plan_within(Weighing& weighing, const PlanOptions& options, const RecomputeChoice& choice,
                                        std::uint64_t limit) {
  GRAFT_TRY_ASSIGN(const Draft least, weighing.arranged(choice));
  Draft roomy = least;
  GRAFT_TRY(tile_workspace(roomy, options, limit));
  // Offsets may be better with the least workspace, or where no update waits for another.
  for (const unsigned attempt : {0u, 1u, 2u, 3u}) {
    Draft draft = attempt < 2 ? roomy : least;
    const bool gathered = attempt % 2 == 0;
    if (gathered && options.merge) gather_updates(draft, options, peak(draft));
    lay_out(draft, limit);
    if (draft.arena.bytes > limit) continue;
    keep_operands(draft, options, limit);
    GRAFT_TRY_ASSIGN(Plan plan, weighing.finish(draft, choice));
    return std::optional(std::move(plan));
  }
  return std::optional<Plan>();
}

/// Of the cheapest choice that fits.
Result<std::optional<Plan>> first_within(Weighing& weighing, const PlanOptions& options,
                                         const std::vector<RecomputeChoice>& choices, std::uint64_t limit) {
  for (const RecomputeChoice& choice : choices) {
    if (choice.cost.peak > limit) continue;
    GRAFT_TRY_ASSIGN(std::optional<Plan> plan, plan_within(weighing, options, choice, limit));
    if (!plan) continue;
    // With less to do, where the limit leaves room for that. A choice must fit by itself first, so that what fits does
    // not depend on luck.
    GRAFT_TRY_ASSIGN(std::optional<Plan> relaxed,
                     plan_within(weighing, options, weighing.relaxed(choice, limit), limit));
    return relaxed ? std::move(relaxed) : std::move(plan);
  }
  return std::optional<Plan>();
}

Result<Plan> plan_least(Weighing& weighing, const PlanOptions& options, std::vector<RecomputeChoice> choices) {
  std::stable_sort(choices.begin(), choices.end(),
                   [](const RecomputeChoice& a, const RecomputeChoice& b) { return a.cost.peak < b.cost.peak; });
  const RecomputeChoice* best = nullptr;
  std::uint64_t least = 0;
  for (const RecomputeChoice& choice : choices) {
    if (best != nullptr && choice.cost.peak >= least) break;
    GRAFT_TRY_ASSIGN(Draft draft, weighing.arranged(choice));
    lay_out(draft, 0);
    if (best != nullptr && draft.arena.bytes >= least) continue;
    best = &choice;
    least = draft.arena.bytes;
  }
  GRAFT_TRY_ASSIGN(Draft draft, weighing.arranged(*best));
  lay_out(draft, 0);
  keep_operands(draft, options, 0);
  GRAFT_TRY_ASSIGN(Plan plan, weighing.finish(draft, *best));
  // Offsets are found by luck as well: what is called the least must be what no limit below it gets under.
  while (plan.transient_bytes > 0) {
    GRAFT_TRY_ASSIGN(std::optional<Plan> smaller, first_within(weighing, options, choices, plan.transient_bytes - 1));
    if (!smaller) break;
    plan = *std::move(smaller);
  }
  return plan;
}

}  // namespace

Result<Plan> plan_recomputing(const Draft& draft, const PlanOptions& options, std::uint64_t limit) {
  GRAFT_TRY_ASSIGN(Weighing weighing, Weighing::create(draft, options));
  GRAFT_TRY_ASSIGN(const std::vector<RecomputeChoice> choices, weighing.choices());
  if (options.least_memory) return plan_least(weighing, options, choices);
  GRAFT_TRY_ASSIGN(std::optional<Plan> plan, first_within(weighing, options, choices, limit));
  if (plan) return *std::move(plan);
  GRAFT_TRY_ASSIGN(const Plan least, plan_least(weighing, options, choices));
  return does_not_fit(least, options, limit);
}

Result<std::vector<RecomputePoint>> recompute_curve(const Graph& graph, const gpu::Caps& caps,
                                                    const Residents& residents, const PlanOptions& options) {
  Draft draft{graph, caps, residents, graph.nodes().size()};
  GRAFT_TRY(arrange(draft, options));
  GRAFT_TRY(tile_workspace(draft, options, 0));
  GRAFT_TRY_ASSIGN(Weighing weighing, Weighing::create(draft, options));
  GRAFT_TRY_ASSIGN(const std::vector<RecomputeChoice> choices, weighing.choices());
  std::vector<RecomputePoint> points;
  for (const RecomputeChoice& choice : choices) {
    // Other orders may have brought a choice below one that costs more.
    if (!points.empty() && choice.cost.peak >= points.back().peak) continue;
    points.push_back({choice.cost.peak, choice.cost.flops, choice.cost.bytes, weighing.saved_dropped(choice)});
  }
  return points;
}

}  // namespace graft
