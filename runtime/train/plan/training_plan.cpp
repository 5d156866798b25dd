#include "runtime/train/plan/training_plan.h"

#include <algorithm>
#include <functional>
#include <set>

#include "platform/base/checked.h"
#include "platform/base/stable_sort.h"
#include "runtime/core/features.h"
#include "runtime/exec/capture.h"
#include "runtime/exec/memory.h"
#include "runtime/passes/fuse.h"
#include "runtime/train/plan/training_draft.h"

namespace graft::train {
namespace {

std::string while_planning(std::string_view what, std::int64_t samples) {
  return cat("While planning ", what, " with ", samples, samples == 1 ? " sample" : " samples", " at once");
}

/// Of a TrainingGraph or an EvaluationGraph.
template <typename G>
Result<SizedPlan> make_sized(const G& graph, std::int64_t samples, const Residents& residents,
                             const gpu::Target& target, const PlanOptions& options) {
  SizedPlan sized{samples, graph.loss, graph.rules, graph.packed, {}};
  GRAFT_TRY_ASSIGN(sized.plan, make_plan(graph.graph, target, residents, options));
  return sized;
}

/// In the form that is planned; ids of the loss follow it.
Status fuse_graph(Graph& graph, LossNodes* loss, const gpu::Target& target, const PlanOptions& options) {
  if (!options.fuse) return ok_status();
  GRAFT_TRY_ASSIGN(passes::Fused fused, passes::fuse(graph, target));
  if (loss != nullptr) loss->follow([&](ValueId id) { return fused.values[id.index]; });
  graph = std::move(fused.graph);
  return ok_status();
}

GradientUse use_of(const TrainingPlan& plan) {
  if (kHasGroups && plan.slots) return GradientUse::slot;
  return plan.accumulates ? GradientUse::accumulate : GradientUse::step;
}

/// Once all residents are known.
Status fuse_graphs(TrainingGraphs& graphs, const gpu::Target& target, const PlanOptions& options) {
  for (TrainingGraph& graph : graphs.training) GRAFT_TRY(fuse_graph(graph.graph, &graph.loss, target, options));
  for (EvaluationGraph& graph : graphs.evaluation) GRAFT_TRY(fuse_graph(graph.graph, &graph.loss, target, options));
  return graphs.update ? fuse_graph(*graphs.update, nullptr, target, options) : ok_status();
}

/// The largest tensor first, each to whoever has least.
void deal_tensors(std::uint32_t workers, TrainingGraph& graph) {
  const auto size_of = [&](const TrainedTensor* tensor) {
    return graph.graph.value(graph.graph.find_value(tensor->name)).shape.elements();
  };
  std::vector<TrainedTensor*> tensors;
  for (TrainedTensor& tensor : graph.tensors) tensors.push_back(&tensor);
  graft::stable_sort(tensors, [&](const TrainedTensor* a, const TrainedTensor* b) { return size_of(a) > size_of(b); });
  std::vector<std::uint64_t> loads(workers, 0);
  for (TrainedTensor* const tensor : tensors) {
    const auto least = std::ranges::min_element(loads);
    tensor->owner = static_cast<std::uint32_t>(least - loads.begin());
    *least += size_of(tensor);
  }
}

/// The update of one of several workers that share the optimizer's state out.
Status add_shard(const TrainOptions& options, const OptimizerShard& shard, TrainingPlan& out, TrainingGraphs& graphs) {
  if (options.optimizer.ema > 0 || options.optimizer.proximal > 0) {
    return unsupported("Running means of parameters and proximal terms are not shared out among workers: leave out ",
                       "either them or the sharding of the optimizer.");
  }
  for (TrainingGraph& graph : graphs.training) deal_tensors(shard.workers, graph);
  GRAFT_TRY_ASSIGN(graphs.update, build_update_graph(graphs.training.front(), options, shard.rank));
  GRAFT_TRY(out.residents.add(*graphs.update));
  GRAFT_TRY_ASSIGN(const Graph whole, build_update_graph(graphs.training.front(), options));
  Residents all = out.residents;
  GRAFT_TRY(all.add(whole));
  for (const TrainedTensor& tensor : graphs.training.front().tensors) {
    for (const std::string& name : tensor.optimizer_state) {
      const Resident* const resident = all.find(name);
      if (tensor.owner != shard.rank && resident != nullptr) out.elsewhere.push_back({tensor.owner, *resident});
    }
  }
  return ok_status();
}

/// The training graphs come first: they decide what residents are counted as.
Status add_training_graphs(const Graph& model, const TrainOptions& options, const PlanRequest& request,
                           TrainingPlan& out, TrainingGraphs& graphs) {
  if (graphs.sizes.empty()) {
    return invalid("The ", *request.samples, " samples make no full batch of ", options.batch,
                   ", and batches that are not full are left out.");
  }
  for (const std::int64_t samples : graphs.sizes) {
    auto graph = build_training_graph(model, samples, options, use_of(out));
    if (!graph.ok()) return std::move(graph).status().with_context(while_planning("training", samples));
    graphs.training.push_back(std::move(graph).value());
    GRAFT_TRY(out.residents.add(graphs.training.back().graph));
  }
  if (!out.accumulates) return {};
  if (kHasGroups && request.shard) return add_shard(options, *request.shard, out, graphs);
  GRAFT_TRY_ASSIGN(graphs.update, build_update_graph(graphs.training.front(), options));
  return out.residents.add(*graphs.update);
}

Status add_evaluation_graphs(const Graph& model, const TrainOptions& options, TrainingPlan& out,
                             TrainingGraphs& graphs) {
  for (const std::int64_t samples : graphs.evaluation_sizes) {
    auto graph = build_evaluation_graph(model, samples, options, graphs.training.empty() ? nullptr : &out.residents);
    if (!graph.ok()) return std::move(graph).status().with_context(while_planning("evaluation", samples));
    graphs.evaluation.push_back(std::move(graph).value());
    GRAFT_TRY(out.residents.add(graphs.evaluation.back().graph));
  }
  return {};
}

Result<SizedPlan> plan_statistics(const TrainingGraph& slot, std::int64_t samples, const Residents& residents,
                                  const gpu::Target& target) {
  GRAFT_TRY_ASSIGN(const Graph graph, build_statistics_graph(slot));
  SizedPlan sized{samples, {}, {}, {}};
  GRAFT_TRY_ASSIGN(sized.plan, make_plan(graph, target, residents, {}));
  return sized;
}

/// Once all residents are known.
Status add_plans(const TrainingGraphs& graphs, const PlanRequest& request, const gpu::Target& target,
                 TrainingPlan& out) {
  PlanOptions free = request.plan;  // budgets are for the whole run: see plan_training
  free.budget = 0;
  for (std::size_t i = 0; i < graphs.sizes.size(); ++i) {
    const TrainingGraph& graph = graphs.training[i];
    auto sized = make_sized(graph, graphs.sizes[i], out.residents, target, free);
    if (!sized.ok()) return std::move(sized).status().with_context(while_planning("training", graphs.sizes[i]));
    out.training.push_back(std::move(sized).value());
  }
  if (graphs.update) {
    Graph update = *graphs.update;
    // What workers agree upon before the next step; where the optimizer's state is shared out, others move parameters.
    if (kHasGroups && request.slots && !request.shard) GRAFT_TRY(add_hash(update, out.residents));
    GRAFT_TRY_ASSIGN(out.update, make_plan(update, target, out.residents, free));
  }
  for (std::size_t i = 0; kHasGroups && out.slots && i < graphs.sizes.size(); ++i) {
    if (graphs.training[i].statistics.empty()) break;
    GRAFT_TRY_ASSIGN(SizedPlan sized, plan_statistics(graphs.training[i], graphs.sizes[i], out.residents, target));
    out.statistics.push_back(std::move(sized));
  }
  out.captures = request.checkpoints;
  if (request.checkpoints || request.slots) {
    Graph hash;
    GRAFT_TRY(add_hash(hash, out.residents));
    GRAFT_TRY_ASSIGN(out.hash, make_plan(hash, target, out.residents, free));
  }
  for (std::size_t i = 0; i < graphs.evaluation_sizes.size(); ++i) {
    const std::int64_t samples = graphs.evaluation_sizes[i];
    const EvaluationGraph& graph = graphs.evaluation[i];
    auto sized = make_sized(graph, samples, out.residents, target, free);
    if (!sized.ok()) return std::move(sized).status().with_context(while_planning("evaluation", samples));
    out.evaluation.push_back(std::move(sized).value());
  }
  return {};
}

}  // namespace

std::vector<const Plan*> TrainingPlan::plans() const {
  std::vector<const Plan*> all;
  for (const SizedPlan& sized : training) all.push_back(&sized.plan);
  if (update) all.push_back(&*update);
  if (hash) all.push_back(&*hash);
  for (const SizedPlan& sized : statistics) all.push_back(&sized.plan);
  for (const SizedPlan& sized : evaluation) all.push_back(&sized.plan);
  return all;
}

const LossConstant* TrainingPlan::find_constant(std::string_view name) const {
  for (const auto* plans : {&training, &evaluation}) {
    for (const SizedPlan& sized : *plans) {
      for (const LossConstant& constant : sized.loss.constants) {
        if (constant.name == name) return &constant;
      }
    }
  }
  return nullptr;
}

MemoryByClass TrainingPlan::memory() const {
  MemoryByClass memory = Memory::planned(residents, plans());
  if (captures) memory[MemoryClass::staging] += Capture::planned_bytes(residents);
  if (slots) memory[MemoryClass::staging] += Capture::planned_bytes(residents, Capture::What::gradients);
  if (keeps_statistics) memory[MemoryClass::staging] += Capture::planned_bytes(residents, Capture::What::statistics);
  return memory;
}

std::vector<std::int64_t> micro_sizes(std::int64_t batch, std::int64_t micro, std::optional<std::uint64_t> total,
                                      bool drop_last) {
  std::set<std::int64_t, std::greater<>> sizes;
  const auto add = [&](std::int64_t samples) {
    if (samples >= micro) sizes.insert(micro);
    if (samples % micro != 0) sizes.insert(samples % micro);
  };
  if (!total || *total >= static_cast<std::uint64_t>(batch)) add(batch);
  if (total && !drop_last) add(static_cast<std::int64_t>(*total % static_cast<std::uint64_t>(batch)));
  return {sizes.begin(), sizes.end()};
}

std::uint64_t TrainingPlan::arena_bytes() const {
  std::uint64_t bytes = 0;
  for (const Plan* plan : plans()) bytes = std::max(bytes, plan->transient_bytes);
  return bytes;
}

Result<TrainingDraft> draft_training(const Graph& model, const TrainOptions& options, const PlanRequest& request,
                                     const gpu::Target& target, std::int64_t micro, const ResidentOptions& residents) {
  TrainingDraft out{{micro, micro < options.batch || request.slots, request.slots, Residents(target.caps, residents)},
                    {}};
  TrainingGraphs& graphs = out.graphs;
  if (request.training) {
    graphs.sizes = micro_sizes(options.batch, micro, request.samples, request.drop_last);
    GRAFT_TRY(add_training_graphs(model, options, request, out.plan, graphs));
  }
  if (request.evaluation) {
    graphs.evaluation_sizes = micro_sizes(micro, micro, request.evaluation_samples, false);
    GRAFT_TRY(add_evaluation_graphs(model, options, out.plan, graphs));
  }
  GRAFT_TRY(fuse_graphs(graphs, target, request.plan));
  GRAFT_TRY(add_plans(graphs, request, target, out.plan));
  if (request.training) {
    const TrainingGraph& first = graphs.training.front();
    out.plan.tensors = first.tensors;
    out.plan.untrained = first.untrained;
    out.plan.note = first.note;
    // Steps that loss scaling leaves out move them, as in PyTorch.
    out.plan.keeps_statistics = (request.slots || !loss_scaling_of(options)) &&
                                Capture::planned_bytes(out.plan.residents, Capture::What::statistics) != 0;
    out.plan.precision = first.precision;
  }
  return out;
}

Result<SizedPlan> plan_micro_batch(const Graph& model, const TrainOptions& options, const TrainingPlan& plan,
                                   std::int64_t samples, const gpu::Target& target, const PlanOptions& plan_options) {
  GRAFT_TRY_ASSIGN(TrainingGraph graph, build_training_graph(model, samples, options, use_of(plan)));
  GRAFT_TRY(fuse_graph(graph.graph, &graph.loss, target, plan_options));
  PlanOptions limited = plan_options;
  limited.budget = 0;
  limited.arena_limit = plan.arena_bytes();
  return make_sized(graph, samples, plan.residents, target, limited);
}

Result<SizedPlan> plan_slot_statistics(const Graph& model, const TrainOptions& options, const TrainingPlan& plan,
                                       std::int64_t samples, const gpu::Target& target) {
  GRAFT_TRY_ASSIGN(const TrainingGraph slot, build_training_graph(model, samples, options, use_of(plan)));
  return plan_statistics(slot, samples, plan.residents, target);
}

Result<SizedPlan> plan_evaluation(const Graph& model, const TrainOptions& options, const Residents& residents,
                                  std::int64_t samples, const gpu::Target& target, const PlanOptions& plan_options) {
  GRAFT_TRY_ASSIGN(EvaluationGraph graph, build_evaluation_graph(model, samples, options, &residents));
  GRAFT_TRY(fuse_graph(graph.graph, &graph.loss, target, plan_options));
  return make_sized(graph, samples, residents, target, plan_options);
}

}  // namespace graft::train
