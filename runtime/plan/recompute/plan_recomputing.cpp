#include <algorithm>
#include <limits>
#include <optional>

#include "runtime/plan/draft.h"
#include "runtime/plan/recompute/recompute_search.h"

namespace graft {
namespace {

/// Orders other than the search's seldom take more than a part of this size off a peak.
constexpr std::uint64_t kOrderGain = 8;
/// How many choices are relaxed to find the cheapest plan within a limit.
constexpr std::size_t kRelaxed = 12;

struct Weighed {
  RecomputeChoice choice;
  std::optional<std::uint64_t> peak;  ///< with all orders tried
};

/// A graph whose choices are being weighed.
class Weighing {
 public:
  static Result<Weighing> create(const Draft& draft, const PlanOptions& options) {
    GRAFT_TRY_ASSIGN(RecomputeGraph graph, RecomputeGraph::create(draft.graph, draft.order));
    return Weighing(draft, options, std::move(graph));
  }

  /// By rising work.
  std::vector<Weighed> choices() {
    std::vector<Weighed> all;
    for (RecomputeChoice& choice : find_recompute_choices(evaluator())) all.push_back({std::move(choice), {}});
    return all;
  }

  /// With all orders tried; they are tried once.
  Result<std::uint64_t> peak_of(Weighed& weighed) {
    if (!weighed.peak) {
      GRAFT_TRY_ASSIGN(const Draft draft, arranged(weighed.choice));
      weighed.peak = peak(draft);
    }
    return *weighed.peak;
  }

  /// Of `choices` each with as little computed again as a peak of `peak` (under the order that the search knows)
  /// allows, the one of least work.
  RecomputeChoice relaxed(const std::vector<const RecomputeChoice*>& choices, std::uint64_t peak) {
    if (classes_.empty()) classes_ = find_recompute_classes(graph_);
    RecomputeChoice best = *choices.front();
    for (const RecomputeChoice* choice : choices) {
      RecomputeChoice other = relax(evaluator(), classes_, *choice, peak);
      if (other.cost.work < best.cost.work) best = std::move(other);
    }
    return best;
  }

  /// Refers to the graph, which the next call changes.
  Result<Draft> arranged(const RecomputeChoice& choice) {
    graph_.drop(choice.dropped);
    Draft draft{graph_.graph(), base_.target, base_.residents, graph_.joint_nodes()};
    GRAFT_TRY(arrange(draft, options_, graph_.order(), options_.tile_workspace ? 0 : kAnyWorkspace));
    return draft;
  }

  /// Offsets in an arena of at most `limit`; false where none were found. What was looked for in vain is not again.
  bool lay_out_within(Draft& draft, std::uint64_t limit) {
    const std::vector<Block>& blocks = draft.storages.blocks;
    if (least_arena(blocks, draft.residents.alignment()) > limit) return false;
    for (const Known& known : known_) {
      if (known.bytes > limit && known.blocks == blocks) return false;
    }
    // However small the limit, the search ends where little can be gained: so that the least plan, too, is what it
    // finds within any limit that this one keeps to.
    lay_out(draft, std::max(limit, good_arena(draft)));
    if (draft.arena.bytes > limit) known_.push_back({blocks, draft.arena.bytes});
    return draft.arena.bytes <= limit;
  }

  /// Offsets in the smallest arena that is looked for.
  void lay_out_in_least(Draft& draft) {
    lay_out(draft, good_arena(draft));
    known_.push_back({draft.storages.blocks, draft.arena.bytes});
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

  /// The smallest arena that was found for these blocks.
  struct Known {
    std::vector<Block> blocks;
    std::uint64_t bytes = 0;
  };

  RecomputeEvaluator& evaluator() {
    if (!evaluate_) evaluate_.emplace(graph_, base_.bytes, costs_, options_.in_place);
    return *evaluate_;
  }

  const Draft& base_;
  const PlanOptions& options_;
  RecomputeGraph graph_;
  std::vector<NodeCost> costs_;
  std::optional<RecomputeEvaluator> evaluate_;  ///< once it is asked for: it refers to the graph
  RecomputeClasses classes_;
  std::vector<Known> known_;
};

/// Ways to arrange a choice, the least wasteful first: offsets may be better with the least workspace, or where no
/// update waits for another.
Result<std::vector<Draft>> ways(Weighing& weighing, const PlanOptions& options, const RecomputeChoice& choice,
                                std::uint64_t limit) {
  GRAFT_TRY_ASSIGN(const Draft least, weighing.arranged(choice));
  Draft roomy = least;
  GRAFT_TRY(tile_workspace(roomy, options, limit));
  std::vector<Draft> all;
  for (const Draft* start : {static_cast<const Draft*>(&roomy), &least}) {
    for (const bool gathered : {true, false}) {
      Draft draft = *start;
      if (gathered && options.merge) gather_updates(draft, options, peak(draft));
      const bool same = std::any_of(all.begin(), all.end(),
                                    [&](const Draft& d) { return d.storages.blocks == draft.storages.blocks; });
      if (!same) all.push_back(std::move(draft));
    }
  }
  return all;
}

/// nullopt where its arena exceeds the limit.
Result<std::optional<Plan>> plan_within(Weighing& weighing, const PlanOptions& options, const RecomputeChoice& choice,
                                        std::uint64_t limit) {
  GRAFT_TRY_ASSIGN(std::vector<Draft> drafts, ways(weighing, options, choice, limit));
  for (Draft& draft : drafts) {
    if (!weighing.lay_out_within(draft, limit)) continue;
    GRAFT_TRY_ASSIGN(Plan plan, weighing.finish(draft, choice));
    return std::optional(std::move(plan));
  }
  return std::optional<Plan>();
}

/// With less to do than `plan`, which is of `weighed[fits]`, where the limit leaves room for that.
Result<Plan> with_less_again(Weighing& weighing, const PlanOptions& options, const std::vector<Weighed>& weighed,
                             std::size_t fits, std::uint64_t limit, Plan plan) {
  std::vector<const RecomputeChoice*> within = {&weighed[fits].choice};
  for (std::size_t i = 0; i < weighed.size() && within.size() < kRelaxed; ++i) {
    if (i != fits && weighed[i].choice.cost.peak <= limit) within.push_back(&weighed[i].choice);
  }
  const RecomputeChoice& first = weighed[fits].choice;
  // Other orders may take off a peak what they took off this one; offsets may add to it.
  const std::uint64_t gain = first.cost.peak - std::min(first.cost.peak, weighed[fits].peak.value_or(0));
  for (const std::uint64_t peak : {limit + gain, limit, limit - limit / 32}) {
    const RecomputeChoice choice = weighing.relaxed(within, peak);
    if (choice.cost.work >= first.cost.work) continue;
    GRAFT_TRY_ASSIGN(std::optional<Plan> relaxed, plan_within(weighing, options, choice, limit));
    if (relaxed) return *std::move(relaxed);
  }
  return plan;
}

/// Of the cheapest choice that fits. A choice must fit by itself, so that what fits does not depend on luck; `relaxed`:
/// then some of what it computes again may be kept.
Result<std::optional<Plan>> first_within(Weighing& weighing, const PlanOptions& options, std::vector<Weighed>& weighed,
                                         std::uint64_t limit, bool relaxed) {
  for (std::size_t i = 0; i < weighed.size(); ++i) {
    if (weighed[i].choice.cost.peak > limit + limit / kOrderGain) continue;
    GRAFT_TRY_ASSIGN(const std::uint64_t peak, weighing.peak_of(weighed[i]));
    if (peak > limit) continue;
    GRAFT_TRY_ASSIGN(std::optional<Plan> plan, plan_within(weighing, options, weighed[i].choice, limit));
    if (!plan) continue;
    if (!relaxed) return plan;
    GRAFT_TRY_ASSIGN(plan, with_less_again(weighing, options, weighed, i, limit, *std::move(plan)));
    return plan;
  }
  return std::optional<Plan>();
}

Result<Plan> plan_least(Weighing& weighing, const PlanOptions& options, std::vector<Weighed>& weighed) {
  const std::uint64_t lowest = weighed.back().choice.cost.peak;
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  const RecomputeChoice* best = nullptr;
  std::size_t best_way = 0;
  for (std::size_t i = weighed.size(); i-- > 0;) {
    if (weighed[i].choice.cost.peak > lowest + lowest / kOrderGain) break;
    GRAFT_TRY_ASSIGN(const std::uint64_t peak, weighing.peak_of(weighed[i]));
    if (peak >= least) continue;
    GRAFT_TRY_ASSIGN(std::vector<Draft> drafts, ways(weighing, options, weighed[i].choice, 0));
    for (std::size_t way = 0; way < drafts.size(); ++way) {
      if (graft::peak(drafts[way]) >= least) continue;
      weighing.lay_out_in_least(drafts[way]);
      if (drafts[way].arena.bytes >= least) continue;
      least = drafts[way].arena.bytes;
      best = &weighed[i].choice;
      best_way = way;
    }
  }
  GRAFT_TRY_ASSIGN(std::vector<Draft> drafts, ways(weighing, options, *best, 0));
  Draft& draft = drafts[best_way];
  lay_out(draft, least);
  GRAFT_TRY_ASSIGN(Plan plan, weighing.finish(draft, *best));
  // Offsets are found by luck as well: what is called the least must be what no limit below it gets under.
  while (plan.transient_bytes > 0) {
    GRAFT_TRY_ASSIGN(std::optional<Plan> smaller,
                     first_within(weighing, options, weighed, plan.transient_bytes - 1, false));
    if (!smaller) break;
    plan = *std::move(smaller);
  }
  return plan;
}

Result<std::vector<RecomputePoint>> curve(const Graph& graph, const gpu::Target& target, const Residents& residents,
                                          const PlanOptions& options, bool all_orders) {
  Draft draft{graph, target, residents, graph.nodes().size()};
  GRAFT_TRY(arrange(draft, options));
  GRAFT_TRY(tile_workspace(draft, options, 0));
  GRAFT_TRY_ASSIGN(Weighing weighing, Weighing::create(draft, options));
  std::vector<RecomputePoint> points;
  for (Weighed& weighed : weighing.choices()) {
    const RecomputeCost& cost = weighed.choice.cost;
    if (!all_orders) weighed.peak = cost.peak;
    GRAFT_TRY_ASSIGN(const std::uint64_t peak, weighing.peak_of(weighed));
    // Other orders may have brought a choice below one that costs more.
    if (!points.empty() && peak >= points.back().peak) continue;
    points.push_back({peak, cost.flops, cost.bytes, weighing.saved_dropped(weighed.choice)});
  }
  return points;
}

}  // namespace

Result<Plan> plan_recomputing(const Draft& draft, const PlanOptions& options, std::uint64_t limit) {
  GRAFT_TRY_ASSIGN(Weighing weighing, Weighing::create(draft, options));
  std::vector<Weighed> weighed = weighing.choices();
  if (options.least_memory) return plan_least(weighing, options, weighed);
  GRAFT_TRY_ASSIGN(std::optional<Plan> plan, first_within(weighing, options, weighed, limit, true));
  if (plan) return *std::move(plan);
  GRAFT_TRY_ASSIGN(Plan least, plan_least(weighing, options, weighed));
  if (least.transient_bytes <= limit) return least;
  return does_not_fit(least, options, limit);
}

Result<std::vector<RecomputePoint>> recompute_curve(const Graph& graph, const gpu::Target& target,
                                                    const Residents& residents, const PlanOptions& options) {
  return curve(graph, target, residents, options, true);
}

Result<std::vector<RecomputePoint>> recompute_estimate(const Graph& graph, const gpu::Target& target,
                                                       const Residents& residents, const PlanOptions& options) {
  return curve(graph, target, residents, options, false);
}

}  // namespace graft
