// What the journal of a checkpoint store holds of a step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/checkpoint/store.h"
#include "runtime/train/plan/worker_section.h"

namespace graft {

inline constexpr std::uint32_t kStepRecord = 1;  ///< JournalRecord::kind

/// What a step gave, to the bit: an exact replay gives the same. Where several workers took it, their sections stand
/// behind it, which no replay compares.
struct StepRecord {
  std::uint64_t loss_bits = 0;
  std::uint64_t count = 0;
  std::uint64_t learning_rate_bits = 0;
  std::uint64_t position = 0;  ///< in the data, after the step
  std::uint64_t state_hash = 0;
};

/// The streams of a snapshot that hold sections: worker r's is in the section r + 1 of the store.
inline constexpr std::string_view kWorkerStream = "worker_section";

/// By rank; empty where one worker took the step.
Result<std::vector<train::WorkerSection>> parse_sections(std::span<const std::byte> bytes);
/// Of a snapshot, which one worker may have made.
Result<std::vector<train::WorkerSection>> sections_of(const checkpoint::Store& store, std::uint64_t number);
/// Of the last journalled step.
Result<std::vector<train::WorkerSection>> journalled_sections(const checkpoint::Store& store);

}  // namespace graft
