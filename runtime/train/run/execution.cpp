#include "runtime/train/run/execution.h"

#include <utility>

namespace graft::train {

Status Execution::run(Program& program, const StepState& state) {
  const bool going_on = unfinished_ == &program;
  unfinished_ = nullptr;
  Status status = note(going_on ? program.resume() : program.run({}, state));
  // What was cancelled has written nothing that is kept: it is begun anew.
  if (!status.ok() && status.code() != Code::cancelled && program.unfinished()) unfinished_ = &program;
  return status;
}

Status Execution::note(Status status) {
  refused_ = refused_ || status.code() == Code::out_of_memory;
  return status;
}

Status Execution::settle() {
  if (unfinished_ == nullptr) return {};
  constexpr int kMostTries = 3;  // a shortage may pass
  Status settled;
  for (int i = 0; i < kMostTries; ++i) {
    settled = unfinished_->settle();
    if (settled.code() != Code::out_of_memory) break;
  }
  GRAFT_TRY(std::move(settled));
  unfinished_ = nullptr;
  return {};
}

}  // namespace graft::train
