// The time that a training run may take.
#pragma once

#include <chrono>
#include <optional>

namespace graft {

/// Counts from the first step of this trainer on: a resumed run has the whole time again.
class TimeLimit {
 public:
  TimeLimit() = default;
  /// `seconds`: 0 for no limit.
  explicit TimeLimit(double seconds) : limit_(seconds) {}

  void step_begins() {
    if (limit_.count() > 0 && !began_) began_ = Clock::now();
  }
  bool is_over() const { return began_ && Clock::now() - *began_ >= limit_; }

 private:
  using Clock = std::chrono::steady_clock;
  std::chrono::duration<double> limit_{0};
  std::optional<Clock::time_point> began_;
};

}  // namespace graft
