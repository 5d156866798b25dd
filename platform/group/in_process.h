// Workers that are threads of one process: several devices of a host, or several contexts on one.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "platform/group/group.h"

namespace graft::group {

/// What goes wrong on purpose, for tests: at the call of exchange() with this number (from 0) by this worker.
struct Fault {
  enum class Kind : std::uint8_t {
    drop,        ///< its parts never arrive
    delay,       ///< they arrive after `delay`
    corrupt,     ///< the first bit of what others take from it is another
    disconnect,  ///< it leaves instead
  };
  Kind kind = Kind::drop;
  std::size_t rank = 0;
  std::uint64_t call = 0;
  std::chrono::nanoseconds delay{};
};

/// The ends of one group, by rank: one for each thread. They may be destroyed in any order; one that is destroyed has
/// left.
std::vector<std::unique_ptr<Group>> in_process(std::size_t size, std::vector<Fault> faults = {});

}  // namespace graft::group
