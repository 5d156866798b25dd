// graft train, for commands that take steps of a run again.
#pragma once

#include <string>

#include "tools/graft/training/train_arguments.h"

namespace graft::cli {

/// What a run was given, from the text that it stores with its snapshots.
Result<TrainArguments> train_arguments(const std::string& config);

/// All of `graft train`. A signal ends it after a whole step, and sets exit_status.
Status run_train(const TrainArguments& given);

}  // namespace graft::cli
