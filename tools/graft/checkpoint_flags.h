// The flags that say how a training run is kept.
#pragma once

#include <string>

#include "runtime/session/checkpoint/checkpointing.h"
#include "tools/common/command.h"

namespace graft::cli {

struct CheckpointFlags {
  CheckpointOptions options{.every = 100};
  std::string journal = "step";
  std::string from;
  std::string on_mismatch = "stop";
  std::string warm_start;  ///< DIR or DIR@SNAPSHOT
};

void add_checkpoint_flags(CLI::App& app, CheckpointFlags& flags);

/// As refuse_idle_train_flags().
void refuse_idle_checkpoint_flags(const CLI::App& app, const CheckpointFlags& flags);

/// Errors name the flag.
Result<CheckpointOptions> checkpoint_options(const CheckpointFlags& flags);

/// --warm-start: parameters from a snapshot of any folder.
Status warm_start(const std::string& place, train::Trainer& trainer);

}  // namespace graft::cli
