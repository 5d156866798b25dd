// From a graph to the plan of its fused form.
#pragma once

#include "runtime/plan/plan.h"

namespace graft {

/// passes::fuse(), where PlanOptions::fuse says so, and make_plan(). Ids in the plan are those of the fused graph; who
/// needs to know them fuses by himself.
Result<Plan> plan_fused(const Graph& graph, const gpu::Target& target, const Residents& residents,
                        const PlanOptions& options = {});

/// The graph to plan: fused, where PlanOptions::fuse says so.
Result<Graph> fused_graph(const Graph& graph, const gpu::Target& target, const PlanOptions& options = {});

}  // namespace graft
