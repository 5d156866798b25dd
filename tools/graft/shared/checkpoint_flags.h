// The flags that say how a training run is kept.
#pragma once

#include <cstdint>
#include <string>

#include "graft/graft.h"
#include "tools/common/command.h"

namespace graft::cli {

struct CheckpointFlags {
  std::string folder;         ///< empty: nothing is kept
  std::uint64_t every = 100;  ///< steps between snapshots
  std::uint32_t keep = 4;
  bool resume = false;
  bool forget = false;  ///< as graft_checkpoint_options.forget
  bool with_changes = false;
  std::string journal = "step";
  std::string from;
  std::string on_mismatch = "stop";
  std::string warm_start;  ///< DIR or DIR@SNAPSHOT
};

void add_checkpoint_flags(CLI::App& app, CheckpointFlags& flags);

/// As refuse_idle_train_flags().
void refuse_idle_checkpoint_flags(const CLI::App& app, const CheckpointFlags& flags);

/// What the flags say; texts are theirs. Errors name the flag.
Result<graft_checkpoint_options> checkpoint_options(const CheckpointFlags& flags);

/// --warm-start: parameters from a snapshot of any folder.
Status warm_start(graft_context* context, const std::string& place, graft_trainer* trainer);

}  // namespace graft::cli
