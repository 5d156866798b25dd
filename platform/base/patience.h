// Limits on waiting that a process which stands still does not use up.
#pragma once

#include <algorithm>
#include <chrono>

namespace graft {

/// Calls wait(slice) until it returns true, or until the slices add up to `limit`. Each slice counts for its own
/// length, however long the process was stopped, or the machine suspended, meanwhile. Returns what the last call
/// returned.
template <typename Wait>
bool wait_in_slices(std::chrono::nanoseconds limit, const Wait& wait) {
  constexpr std::chrono::nanoseconds kSlice = std::chrono::milliseconds(250);
  for (;;) {
    const std::chrono::nanoseconds slice = std::clamp(limit, std::chrono::nanoseconds(0), kSlice);
    if (wait(slice)) return true;
    limit -= slice;
    if (limit <= std::chrono::nanoseconds(0)) return false;
  }
}

}  // namespace graft
