#include "runtime/train/run/monitors.h"

#include <algorithm>
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

namespace {

double value_of(const std::vector<MetricValue>& values, const Metric& metric) {
  const auto found = std::ranges::find(values, metric.name, &MetricValue::name);
  return found == values.end() ? std::nan("") : found->value;
}

}  // namespace

Result<Verdict> observe(Trainer& trainer, const Watch& watch, const std::vector<MetricValue>& values) {
  Verdict verdict;
  TrainingState& state = trainer.state();
  const auto of = [&](Monitor monitor) -> MonitorState& { return state.monitors[static_cast<std::size_t>(monitor)]; };
  state.evaluated_at = state.step;
  if (watch.plateau) {
    MonitorState& its = of(Monitor::plateau);
    observe(its, *watch.plateau, value_of(values, *watch.plateau), state.step, {.relative = 1e-4});
    if (its.waited > watch.patience) {
      its.waited = 0;
      verdict.learning_rate = trainer.options().optimizer.learning_rate * watch.factor;
      GRAFT_TRY(trainer.set_learning_rate(*verdict.learning_rate));
    }
  }
  if (watch.early_stop) {
    MonitorState& its = of(Monitor::early_stop);
    const Watch::EarlyStop& stop = *watch.early_stop;
    observe(its, stop.metric, value_of(values, stop.metric), state.step, {.absolute = stop.min_delta});
    verdict.stop = its.waited >= stop.patience;
  }
  if (watch.best) {
    verdict.best = observe(of(Monitor::best), *watch.best, value_of(values, *watch.best), state.step, {});
  }
  return verdict;
}

}  // namespace graft::train
