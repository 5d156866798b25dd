// Plan, run, read: a graph used once. For tests and tools; a session keeps its programs.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "platform/gpu/gpu.h"
#include "runtime/core/graph.h"
#include "runtime/plan/plan.h"

namespace graft {

/// Raw bytes by name: elements in row-major order, in their dtype's size on the device.
using Tensors = std::map<std::string, std::vector<std::byte>, std::less<>>;

struct RunOnceResult {
  Tensors outputs;    ///< by output name
  Tensors residents;  ///< parameters and state after the run, by value name
};

struct RunOnceOptions {
  std::chrono::nanoseconds timeout = std::chrono::seconds(60);
  PlanOptions plan = {};
  /// Passes the plan through check_hazards() and check_memory() first.
  bool check_plan = false;
};

/// Runs a bound graph. `feeds` holds every input, constant, parameter and state by value name; others are ignored.
/// Errors are those of make_plan() and Program::run(), or invalid_argument where a feed is absent or of a wrong size.
Result<RunOnceResult> run_once(gpu::Device& device, const Graph& graph, const Tensors& feeds,
                               const StepState& state = {}, const RunOnceOptions& options = {});

}  // namespace graft
