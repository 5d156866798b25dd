// What a run makes of its evaluations: a learning rate that falls where they get no better, an early end.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/train/run/metrics.h"
#include "runtime/train/run/trainer.h"

namespace graft::train {

/// How much better than the best a value must be to count as better.
struct Threshold {
  double relative = 0;
  double absolute = 0;
};

/// Notes a value; true where it is better than all before it. NaN never is.
bool observe(MonitorState& state, const Metric& metric, double value, std::uint64_t step, const Threshold& threshold);

/// What evaluations are watched for.
struct Watch {
  struct EarlyStop {
    Metric metric;
    std::uint64_t patience = 1;  ///< evaluations in a row that are no better
    double min_delta = 0;
  };
  std::optional<Metric> plateau;  ///< the learning rate falls where it gets no better
  std::uint64_t patience = 10;    ///< of the plateau: evaluations that may be no better
  double factor = 0.1;            ///< of the learning rate
  std::optional<EarlyStop> early_stop;
  std::optional<Metric> best;

  bool watches() const { return plateau || early_stop || best; }
};

/// What became of an evaluation.
struct Verdict {
  bool stop = false;
  bool best = false;
  std::optional<double> learning_rate;  ///< a new one, which the trainer has
};
/// Looks at the values of an evaluation of the state as it is. What it notes is part of the run's state.
Result<Verdict> observe(Trainer& trainer, const Watch& watch, const std::vector<MetricValue>& values);

}  // namespace graft::train
