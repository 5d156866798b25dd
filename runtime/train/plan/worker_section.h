// What a worker of a run of several says of itself after each step: shown, and kept in checkpoints.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

namespace graft::train {

/// As it is sent and stored: numbers of 8 bytes, little-endian (CHECKPOINT_FORMAT.md lists them), no padding.
struct WorkerSection {
  std::uint64_t version = 1;
  std::array<char, 64> host = {};  ///< its machine's name, ended by zeros

  // Of the step.
  std::uint64_t step = 0;          ///< steps done with it
  std::uint64_t epoch = 0;         ///< from 0
  std::uint64_t place = 0;         ///< samples of the epoch before the step's batch
  std::uint64_t first_sample = 0;  ///< of the batch, that this worker has computed
  std::uint64_t samples = 0;       ///< and how many
  std::uint64_t seed = 0;          ///< its random numbers are those of the seed, the step before this one and the slot
  std::uint64_t first_slot = 0;
  std::uint64_t slots = 0;
  double loss_sum = 0;  ///< of these samples
  double weight = 0;    ///< what their loss is a mean over
  std::uint64_t computing_ns = 0;
  std::uint64_t waiting_ns = 0;  ///< for the others, and for what is sent

  // Since it joined the run.
  std::uint64_t all_steps = 0;
  std::uint64_t all_samples = 0;
  std::uint64_t all_computing_ns = 0;
  std::uint64_t all_waiting_ns = 0;

  double loss() const { return weight == 0 ? 0 : loss_sum / weight; }
};
static_assert(sizeof(WorkerSection) == 200 && std::is_trivially_copyable_v<WorkerSection>);

}  // namespace graft::train
