// Time as a benchmark wants it: what passed, or what this process took of the processors.
#pragma once

#include <algorithm>
#include <chrono>
#include <ctime>
#include <thread>

namespace graft::cli {

enum class Clock {
  wall,
  /// Processor time of this process, divided by the number of cores. For CPU devices on machines that others use too:
  /// it does not count how long those held the cores, and it does not count idle cores either.
  processor,
};

class Stopwatch {
 public:
  explicit Stopwatch(Clock clock) : clock_(clock) {}
  double seconds() const {
    if (clock_ == Clock::wall) return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    const auto cores = std::max(std::thread::hardware_concurrency(), 1u);
    return static_cast<double>(std::clock() - processor_start_) / CLOCKS_PER_SEC / cores;
  }

 private:
  Clock clock_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::clock_t processor_start_ = std::clock();
};

}  // namespace graft::cli
