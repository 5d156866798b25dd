#include <algorithm>
#include <numeric>

#include "runtime/plan/draft.h"

namespace graft {
namespace {

std::uint64_t scratch_of(const Emission& emission) {
  return std::accumulate(emission.scratch.begin(), emission.scratch.end(), std::uint64_t{0});
}

}  // namespace

Status tile_workspace(Draft& d, const PlanOptions& options, std::uint64_t limit) {
  if (!options.tile_workspace) return ok_status();
  bool changed = false;
  for (std::uint32_t p = 0; p < d.order.size(); ++p) {
    const NodeId id = d.order[p];
    const Emission& emission = d.emissions[id.index];
    const std::uint64_t scratch = scratch_of(emission);
    const std::uint64_t others = d.live[p + 1] - scratch;
    const std::uint64_t left = limit > others ? limit - others : 0;
    if (scratch + emission.withheld == 0 || (emission.withheld == 0 && scratch <= left)) continue;
    GRAFT_TRY(emit_nodes(d, {id}, left));
    // What an op asks for first may leave too little for what follows.
    if (scratch_of(emission) > left && left != 0) GRAFT_TRY(emit_nodes(d, {id}, 0));
    changed = changed || scratch_of(emission) != scratch;
  }
  if (changed) use_order(d, std::move(d.order), options.in_place);
  return ok_status();
}

}  // namespace graft
