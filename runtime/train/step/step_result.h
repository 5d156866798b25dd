// What a step of training gives, and the state that a run is in between two steps.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <optional>

#include "runtime/data/loader.h"
#include "runtime/exec/program.h"
#include "runtime/train/step/options.h"

namespace graft::train {

/// Sums over samples; means are asked for. f64, so that an epoch of f32 sums loses nothing that shows.
struct Metrics {
  double loss_sum = 0;
  std::uint64_t count = 0;  ///< rows that count (cross entropy), or elements
  double weight = 0;  ///< what the loss is a mean over: rows or elements by their weights; samples of several terms
  double correct = 0;
  double top5 = 0;  ///< of preferences: reward margins
  bool has_correct = false;
  bool has_top5 = false;

  double loss() const { return weight == 0 ? 0 : loss_sum / weight; }
  double perplexity() const { return std::exp(loss()); }  ///< of cross entropy
  double accuracy() const { return count == 0 ? 0 : correct / static_cast<double>(count); }
  double top5_accuracy() const { return count == 0 ? 0 : top5 / static_cast<double>(count); }
  /// Of preferences: by how much the chosen text is rewarded more, a mean over samples.
  double reward_margin() const { return count == 0 ? 0 : top5 / static_cast<double>(count); }
  void add(const Metrics& other);
  friend bool operator==(const Metrics&, const Metrics&) = default;
};

struct StepResult {
  Metrics metrics;                      ///< of this batch, before the update
  double learning_rate = 0;             ///< of group 0
  std::optional<double> gradient_norm;  ///< where clip_norm is asked for: before it clips
  std::optional<double> loss_scale;     ///< where loss scaling applies: of the next step
  std::uint64_t skipped_steps = 0;      ///< of the whole run, since the loss or gradients overflowed
  bool skipped = false;                 ///< this step is one of them: its loss may be no number
  std::uint32_t submissions = 0;        ///< to the device, of all its micro-batches and of the update
};

/// So many steps left out in a row end a run. Overflowing gradients halve the loss scale each time: from any scale
/// below 2^50 it is below 1 by then, so a smaller one would not help.
inline constexpr std::uint64_t kMostSkipped = 50;

/// What a monitor of evaluations remembers (monitors.h).
struct MonitorState {
  double best = 0;
  std::uint64_t best_step = 0;
  std::uint64_t waited = 0;  ///< evaluations since the best
  std::uint64_t seen = 0;
  friend bool operator==(const MonitorState&, const MonitorState&) = default;
};
enum class Monitor : std::uint8_t { plateau, early_stop, best };
inline constexpr std::size_t kMonitors = 3;

/// With the residents' contents, the whole state of a run: the same state, data and options give the same bits.
struct TrainingState {
  std::uint64_t step = 0;  ///< optimizer steps done
  std::uint32_t seed = 0;
  data::Cursor cursor;      ///< of the training data, after the last whole step
  std::uint64_t epoch = 0;  ///< that epoch_metrics belongs to
  Metrics epoch_metrics;    ///< of the steps of this epoch whose loss is finite
  /// Where a step is half done: how many samples of the batch at `cursor` are in the accumulators, and their metrics.
  std::uint64_t samples_done = 0;
  Metrics step_metrics;
  std::array<MonitorState, kMonitors> monitors = {};
  std::uint64_t evaluated_at = 0;  ///< the step that the monitors saw last

  /// The step on `batch` is done.
  void end_step(const Metrics& metrics, const data::Batch& batch);
  friend bool operator==(const TrainingState&, const TrainingState&) = default;
};

/// Of a program's last run, without the count.
Metrics metrics_of(const Program& program);

/// What step `step` gave, whose last program has run: all but the submissions. An error where the run is not to go on
/// from it: the loss is not finite, or kMostSkipped steps in a row were left out.
Result<StepResult> step_result(const TrainOptions& options, std::uint64_t step, const Metrics& metrics,
                               const Program& last);

/// The learning rate of step `step`, of group 0.
double learning_rate_of(const TrainOptions& options, std::uint64_t step);

}  // namespace graft::train
