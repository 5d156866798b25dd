// What can go wrong with a checkpoint store, tried out: each function runs a script, does harm to it in every way that
// it knows, checks what the store makes of it with GoogleTest's assertions, and returns how many faults it tried.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/checkpoint/store.h"

namespace graft::test {

/// `images` legal images of storage after a power cut following each operation: each opens, verifies and holds exactly
/// what was acknowledged last or was under way; in some, training goes on.
std::size_t try_power_cuts(const checkpoint::StoreOptions& options, std::uint32_t seed, int images);

/// A second power cut, at every operation of the recovery from a first, `images` times each.
std::size_t try_second_power_cuts(const checkpoint::StoreOptions& options, std::uint32_t seed, int images);

/// Power cuts while the journal syncs with every third record only: what was synced is there, in order, and of the rest
/// no more than was appended.
std::size_t try_power_cuts_of_group_commits(checkpoint::StoreOptions options, std::uint32_t seed, int images);

/// Every file call fails once, and every one and all after it; writes whole or by half. The store goes on, or holds
/// the state before or after.
std::size_t try_failing_calls(const checkpoint::StoreOptions& options);

/// Every bit of a small store, one at a time: noticed or harmless, never wrong data.
std::size_t try_flipped_bits(const checkpoint::StoreOptions& options);

/// How many images after power cuts on a device that forgets syncs of names or of bytes hold a wrong state: the
/// simulator must notice what it is there to notice.
std::size_t count_wrong_images(const checkpoint::StoreOptions& options, bool forget_names, bool forget_bytes);

}  // namespace graft::test
