// A device that runs out of memory while training runs: the work is done again under a plan for less.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "runtime/train/run/planned_run.h"
#include "runtime/train/step/step_result.h"

namespace graft::train {

/// Decides what to do about refused memory. Its arguments must outlive it.
class Shortages {
 public:
  Shortages(const TrainingSetup& setup, const TrainingState& state, Execution& execution, PlannedRun& run)
      : setup_(setup), state_(state), execution_(execution), run_(run) {}

  /// After memory was refused (Execution::refused): ok where the attempt may be repeated, under a smaller plan or, up to
  /// a limit on `refusals`, the same one.
  Status answer(Status why, int& refusals);

  /// Before a micro-batch: between two steps, takes a smaller plan where the last step ended with difficulty, or where
  /// the driver allows no more than is held.
  Status before_micro_step();

  /// A step is half done.
  bool within_step() const { return state_.samples_done != 0 || execution_.is_unfinished(); }
  std::uint64_t count() const { return count_; }
  bool heap_overdrawn() const { return heap_overdrawn_; }
  void set_before_invalidation(std::function<void()> call) { before_invalidation_ = std::move(call); }
  /// Whoever uses an earlier capture lets it go.
  void tell_before_invalidation() const {
    if (before_invalidation_) before_invalidation_();
  }

 private:
  Status end_unfinished(Status why, int& refusals);
  Status go_on_with(TrainingPlan plan, const std::string& why);
  Status keep_to_heap();
  Result<std::optional<TrainingPlan>> smaller_plan() const {
    return plan_smaller(setup_, run_.plan(), run_.device_bytes(), within_step());
  }

  const TrainingSetup& setup_;
  const TrainingState& state_;
  Execution& execution_;
  PlannedRun& run_;
  bool shrink_at_boundary_ = false;  ///< a step ended under a plan that the device refuses
  bool heap_overdrawn_ = false;
  std::uint64_t count_ = 0;
  std::function<void()> before_invalidation_;
};

}  // namespace graft::train
