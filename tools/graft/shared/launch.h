// Which of several processes this one is, as whoever started it says by the environment.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "tools/common/status.h"

namespace graft::cli {

struct Launch {
  std::string by;  ///< as in "torchrun (RANK, WORLD_SIZE)"
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  std::uint32_t local_rank = 0;  ///< among those of this machine
  std::string address;           ///< worker 0's
  std::uint16_t port = 0;
};

/// A variable's value; null: it is not set.
using Environment = std::function<const char*(const char* name)>;

/// nullopt: nobody said so, or one worker. Asked in this order, the first that answers counts: GRAFT_RANK and
/// GRAFT_WORLD_SIZE; torchrun's RANK and WORLD_SIZE; Open MPI's; PMI's; Slurm's, of a step (srun); TF_CONFIG;
/// SageMaker's SM_HOSTS. An error where a later one disagrees, where the words make no sense, or where nobody says
/// where worker 0 is.
Result<std::optional<Launch>> launched_as(const Environment& environment);

}  // namespace graft::cli
