// What computing forward results again would save, for those who weigh it against something else.
#pragma once

#include <vector>

#include "runtime/plan/plan.h"

namespace graft {

/// recompute_curve() under one order only: of others, which take most of its time, peaks may be lower.
Result<std::vector<RecomputePoint>> recompute_estimate(const Graph& graph, const gpu::Target& target,
                                                       const Residents& residents, const PlanOptions& options);

}  // namespace graft
