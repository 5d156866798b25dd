// A plan by layer: what each node of the forward pass costs, its backward pass included.
#pragma once

#include <string>
#include <vector>

#include "runtime/plan/plan.h"

namespace graft {

struct LayerCost {
  std::string name;
  std::string op;
  std::uint64_t saved_bytes = 0;  ///< of its results that are kept for backward
  std::uint64_t forward_flops = 0;
  std::uint64_t backward_flops = 0;  ///< of the nodes that serve it
  std::uint64_t moved_bytes = 0;     ///< read and written, both passes
  bool recomputed = false;           ///< it runs again in the backward pass; that run counts as backward
};

/// Of all dispatches.
struct PlanWork {
  std::uint64_t dispatches = 0;
  std::uint64_t moved = 0;  ///< bytes read and written
};
PlanWork work_of(const Plan& plan);

/// In the order of execution; views, which cost nothing, are left out.
std::vector<LayerCost> layer_costs(const Plan& plan);

}  // namespace graft
