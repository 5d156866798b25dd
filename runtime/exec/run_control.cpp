#include "runtime/exec/run_control.h"

#include <algorithm>
#include <cmath>

namespace graft {
namespace {

constexpr double kFirstNs = 10e3, kGrowth = 1.1;  // of the histogram: up to 40 s

}  // namespace

void RunControl::set_duty(double share) {
  {
    const std::lock_guard lock(mutex_);
    duty_.store(share, std::memory_order_relaxed);
  }
  changed_.notify_all();
}

void RunControl::used(std::chrono::nanoseconds took) {
  ++submissions_;
  const double at = std::log(std::max(static_cast<double>(took.count()), kFirstNs) / kFirstNs) / std::log(kGrowth);
  ++histogram_[std::min(static_cast<std::size_t>(std::ceil(at)), histogram_.size() - 1)];
  took_ = took;
  done_ = Clock::now();
}

void RunControl::rest() {
  const auto until = [&] {
    const double idle = static_cast<double>(took_.count()) * (1 / duty() - 1);
    return done_ + std::chrono::nanoseconds(static_cast<std::int64_t>(idle));
  };
  if (Clock::now() >= until()) return;
  std::unique_lock lock(mutex_);
  while (!is_cancelled() && Clock::now() < until()) {
    changed_.wait_until(lock, std::min(until(), Clock::now() + kLongestNap));
  }
}

std::chrono::nanoseconds RunControl::quantile(double share) const {
  std::size_t i = 0;
  for (std::uint64_t sum = histogram_[0]; static_cast<double>(sum) < share * static_cast<double>(submissions_);) {
    sum += histogram_[++i];
  }
  return std::chrono::nanoseconds(static_cast<std::int64_t>(kFirstNs * std::pow(kGrowth, static_cast<double>(i))));
}

}  // namespace graft
