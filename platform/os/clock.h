// Time: a monotonic clock for durations, the wall clock for file metadata only.
#pragma once

#include <chrono>
#include <cstdint>

namespace graft::os {

/// Nanoseconds from an arbitrary start; never goes back.
inline std::int64_t monotonic_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Milliseconds since 1970-01-01 UTC. May jump; never decides what is recovered or replayed.
inline std::int64_t wall_clock_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// Processor time of the calling thread, in seconds.
double thread_seconds();

/// Time since construction or restart().
class Stopwatch {
 public:
  void restart() { start_ = monotonic_ns(); }
  double seconds() const { return static_cast<double>(monotonic_ns() - start_) * 1e-9; }

 private:
  std::int64_t start_ = monotonic_ns();
};

}  // namespace graft::os
