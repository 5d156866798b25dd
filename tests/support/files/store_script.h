// A scripted run over a checkpoint store that remembers what was acknowledged when.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/checkpoint/store.h"

namespace graft::test {

/// What a store must give back: the head's streams and the steps since.
struct StoreState {
  std::uint64_t step = 0;  ///< of the head; 0: no snapshot
  std::map<std::string, std::vector<std::byte>> streams;
  std::vector<std::uint64_t> journal;  ///< steps
  std::vector<std::string> tags;       ///< of the head
  friend bool operator==(const StoreState&, const StoreState&) = default;
};

/// Reads all of it back through the store, checking every byte's hash on the way.
Result<StoreState> read_state(const checkpoint::Store& store);

/// Weights, two moments and a small stream as after `step` steps of training; `scale` multiplies the sizes.
std::map<std::string, std::vector<std::byte>> training_state(std::uint64_t step, std::size_t scale = 1);

/// put_snapshot of these streams with metadata; an even `step` takes the tag "even".
Result<checkpoint::PutReport> put(checkpoint::Store& store, std::uint64_t step,
                                  const std::map<std::string, std::vector<std::byte>>& streams);
checkpoint::JournalRecord step_record(std::uint64_t step);

inline constexpr std::uint64_t kScriptSteps = 12;
/// Trains from the store's state to `last` or one step further: a journal record per step; a snapshot every third,
/// every other one written beside the next step, and tagged afterwards; pruning and compaction every sixth. `done` is
/// called with the state after each call that succeeded; a failing call ends the script where `stop` says so, and is
/// otherwise tried once more, or, where steps have gone on meanwhile, left out.
Status run_script(checkpoint::Store& store, std::uint64_t last, bool stop,
                  const std::function<void(const StoreState&)>& done);

}  // namespace graft::test
