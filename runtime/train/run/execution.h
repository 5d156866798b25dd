// Runs programs of a training run on a device that may refuse memory on the way.
#pragma once

#include "runtime/exec/program.h"

namespace graft::train {

/// Remembers the one program whose run failed on the way (its inputs and outputs are in use until the run has ended),
/// and whether the device refused memory since that was last answered.
class Execution {
 public:
  /// Runs a program, or ends the run of it that failed.
  Status run(Program& program, const StepState& state);
  /// `status`, of which it is noted whether the device refused memory.
  Status note(Status status);

  bool refused() const { return refused_; }
  void forget_refusal() { refused_ = false; }

  bool is_unfinished() const { return unfinished_ != nullptr; }
  /// The run that failed has begun to change what is kept: it cannot be begun anew.
  bool has_changed_residents() const { return unfinished_ != nullptr && unfinished_->wrote_residents(); }
  /// Waits for what was submitted of a run that is to be begun anew, and forgets it.
  Status settle();
  /// Of a device that is gone.
  void forget() { unfinished_ = nullptr; }

 private:
  Program* unfinished_ = nullptr;
  bool refused_ = false;
};

}  // namespace graft::train
