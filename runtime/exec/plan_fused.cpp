#include "runtime/exec/plan_fused.h"

#include "runtime/passes/fuse.h"

namespace graft {

Result<Plan> plan_fused(const Graph& graph, const gpu::Target& target, const Residents& residents,
                        const PlanOptions& options) {
  if (!options.fuse) return make_plan(graph, target, residents, options);
  GRAFT_TRY_ASSIGN(const passes::Fused fused, passes::fuse(graph, target));
  return make_plan(fused.graph, target, residents, options);
}

Result<Graph> fused_graph(const Graph& graph, const gpu::Target& target, const PlanOptions& options) {
  if (!options.fuse) return Graph(graph);
  GRAFT_TRY_ASSIGN(passes::Fused fused, passes::fuse(graph, target));
  return std::move(fused.graph);
}

}  // namespace graft
