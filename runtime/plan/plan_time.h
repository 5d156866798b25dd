// How long a plan takes: of each dispatch the larger of arithmetic and memory, and the handing out. See
// runtime/ops/time_model.h for what is in it and what is not.
#pragma once

#include <cstdint>
#include <vector>

#include "platform/gpu/figures.h"
#include "runtime/plan/plan.h"

namespace graft {

/// Sums in seconds. Of a dispatch that memory takes longer than its arithmetic, all but the handing out is `memory`.
struct TimeEstimate {
  double arithmetic = 0;
  double memory = 0;
  double dispatching = 0;  ///< with barriers and the submission

  double seconds() const { return arithmetic + memory + dispatching; }
  void add(const TimeEstimate& other, double times = 1);
};

struct PlanTime {
  TimeEstimate all;
  std::vector<TimeEstimate> nodes;  ///< of Plan::nodes; copies belong to none
};

/// `target`: the one that the plan was made for.
PlanTime estimate_plan(const Plan& plan, const gpu::Target& target, const gpu::Speed& speed);

/// The rate of arithmetic at which a product of size^3 runs with the variant that is chosen for the target, as a share
/// of Speed::f32_flops: what turns a measured product into the peak that Speed wants.
double product_share(const gpu::Target& target, std::uint64_t size, const gpu::Speed& speed);

}  // namespace graft
