// What a run makes of its evaluations: a learning rate that falls where they get no better, an early end.
#pragma once

#include "runtime/train/metrics.h"
#include "runtime/train/step_result.h"

namespace graft::train {

/// How much better than the best a value must be to count as better.
struct Threshold {
  double relative = 0;
  double absolute = 0;
};

/// Notes a value; true where it is better than all before it. NaN never is.
bool observe(MonitorState& state, const Metric& metric, double value, std::uint64_t step, const Threshold& threshold);

}  // namespace graft::train
