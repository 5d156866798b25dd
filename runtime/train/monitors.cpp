#include "runtime/train/monitors.h"

#include <cmath>

namespace graft::train {

bool observe(MonitorState& state, const Metric& metric, double value, std::uint64_t step, const Threshold& threshold) {
  const bool first = state.seen == 0;
  ++state.seen;
  // As torch.optim.lr_scheduler.ReduceLROnPlateau has it.
  const bool larger = larger_is_better(metric);
  const double share = larger ? 1 + threshold.relative : 1 - threshold.relative;
  const double wanted = state.best * share + (larger ? threshold.absolute : -threshold.absolute);
  const bool better =
      !std::isnan(value) && (first || std::isnan(state.best) || (larger ? value > wanted : value < wanted));
  if (first || better) {
    state.best = value;
    state.best_step = step;
  }
  state.waited = first || better ? 0 : state.waited + 1;
  return better;
}

}  // namespace graft::train
