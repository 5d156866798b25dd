// How long a plan takes.
#pragma once

#include "platform/gpu/gpu.h"
#include "runtime/core/graph.h"
#include "runtime/plan/plan.h"
#include "tools/bench/bench_rows.h"
#include "tools/common/status.h"
#include "tools/common/stopwatch.h"

namespace graft::cli {

/// Device time of the whole plan but its copies, by timestamps around every dispatch; or processor time of all of it.
/// Floats are halves, integers zero.
Result<Timing> time_plan(gpu::Device& device, const Graph& graph, const Residents& residents, Plan plan, int repeat,
                         Clock clock);

}  // namespace graft::cli
