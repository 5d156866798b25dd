// The training loop.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "runtime/train/run/trainer.h"

namespace graft::train {

struct FitOptions {
  std::uint64_t steps = 0;  ///< stop when the trainer's state has done as many; 0: when the loader's epochs are over
  /// Looked at between steps: once it is true, no further step begins. May be set by a signal handler.
  const std::atomic<bool>* stop = nullptr;
  /// Look at it between the micro-batches of a step, too: the state can be saved there.
  bool stop_within_steps = false;
  /// Asked between steps: true ends the run as if it were done. Null: never.
  std::function<bool()> end;
  /// Called after each step, with what it gave; an error ends the run.
  std::function<Status(const StepResult&)> on_step;
  /// Called after the last step of each epoch, with the metrics of all of it (Trainer::state()).
  std::function<Status(const Trainer&)> on_epoch;
  /// Asked where a step fails that several workers take (Trainer::is_shared()): ok where they go on without the one
  /// that is gone, and the loader gives the step's batch again.
  std::function<Status(const Status& why)> go_on;
  /// Told of the time spent waiting for each batch, and in on_step and on_epoch (as `report`); may be null.
  RunObserver* observer = nullptr;
};

enum class FitEnd : std::uint8_t {
  done,     ///< all steps or epochs asked for
  stopped,  ///< by the flag, after a whole step or with stop_within_steps after a micro-batch
};

/// Trains on what the loader gives, from where it stands. The loader's batch must be TrainOptions::batch.
Result<FitEnd> fit(Trainer& trainer, data::Loader& loader, const FitOptions& options);

}  // namespace graft::train
