// Work over the numbers of a batch, in a few threads where there are many.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <thread>

#include "platform/os/threads.h"

namespace graft::data {

/// Elements [first, end).
struct ElementRange {
  std::uint64_t first = 0;
  std::uint64_t end = 0;
};

constexpr std::size_t kMostRanges = 4;  // more threads wait for memory

/// Calls work(i, range) for i below kMostRanges, with ranges that follow each other and are all of `count` elements.
/// Each is worked on in a thread of its own where it has megabytes: one thread takes milliseconds for a batch of
/// images, which a GPU waits for.
template <typename Work>
void in_ranges(std::uint64_t count, std::uint64_t element_bytes, const Work& work) {
  constexpr std::uint64_t kBytes = 2u << 20;  // to start a thread takes as long as to copy a tenth of that
  const std::uint64_t cores = std::clamp<std::uint64_t>(std::thread::hardware_concurrency(), 1, kMostRanges);
  const std::uint64_t ranges = std::clamp<std::uint64_t>(count * element_bytes / kBytes, 1, cores);
  if (ranges == 1) return work(std::size_t{0}, ElementRange{0, count});
  os::run_in_threads(static_cast<std::size_t>(ranges), [&](std::size_t i) {
    work(i, ElementRange{count * i / ranges, count * (i + 1) / ranges});
  });
}

}  // namespace graft::data
