// What people and apps do with the folder of a run beside resuming it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/checkpoint/store.h"
#include "runtime/model/model.h"

namespace graft {

/// Puts a snapshot's parameters and running statistics into the model that was trained; how many tensors these are. On
/// failure the model is as it was. invalid_argument: the snapshot holds nothing of this model, or in another size.
Result<std::size_t> restore_to_model(const checkpoint::Store& store, std::uint64_t number, Model& model);

/// Of parameters, running statistics and the optimizer's state: 32 hexadecimal digits, the same for the same bits.
std::string state_hash_of(const checkpoint::Manifest& snapshot);

struct PrunedStore {
  std::vector<std::uint64_t> removed;  ///< snapshots
  std::uint64_t freed_bytes = 0;
};
/// Deletes all but the newest `keep` snapshots, those with a tag and the one that training goes on from, and rewrites
/// what is mostly waste then.
Result<PrunedStore> prune_store(checkpoint::Store& store, std::size_t keep);

}  // namespace graft
