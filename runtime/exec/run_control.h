// How the calls on a context use the device: an app's wishes, read before each submission.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

namespace graft {

/// What a call is at, and what is counted there.
enum class Stage : std::uint8_t {
  kernels,  ///< that were compiled
  samples,  ///< of a step or an evaluation
  prompt,   ///< tokens in the caches
  answer,   ///< tokens that were generated
  plan,     ///< steps of planning
};

/// Threads: set_*() and cancel*() from any, cancel() also from signal handlers; used(), rest() and report() on the
/// device's.
class RunControl {
 public:
  using Clock = std::chrono::steady_clock;
  using Progress = std::function<void(Stage stage, std::uint64_t done, std::uint64_t total)>;

  /// The call in progress ends before its next submission, and a rest ends within kLongestNap. If no call looks at it
  /// any more, it stays for the next one that does.
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  /// The same for the call in progress alone.
  void cancel_call() { call_cancelled_.store(true, std::memory_order_relaxed); }
  /// A call begins: cancel_call() before it was meant for another one.
  void begin_call() { call_cancelled_.store(false, std::memory_order_relaxed); }
  /// A call ended by cancel(), or nobody wants it any more. Returns whether it was pending.
  bool forget_cancel() { return cancelled_.exchange(false, std::memory_order_relaxed); }
  bool is_cancelled() const {
    return cancelled_.load(std::memory_order_relaxed) || call_cancelled_.load(std::memory_order_relaxed);
  }

  /// The longest time that the device shall work without a place where others may get it; 0: as programs are made.
  void set_slice(std::chrono::nanoseconds slice) { slice_.store(slice.count(), std::memory_order_relaxed); }
  std::chrono::nanoseconds slice() const { return std::chrono::nanoseconds(slice_.load(std::memory_order_relaxed)); }

  /// The share of time in which the device may work, above 0 and up to 1.
  void set_duty(double share);
  double duty() const { return duty_.load(std::memory_order_relaxed); }

  /// Told how far a call is, on its thread; empty: nobody. Not while a call is in progress.
  void set_progress(Progress progress) { progress_ = std::move(progress); }
  void report(Stage stage, std::uint64_t done, std::uint64_t total) const {
    if (progress_) progress_(stage, done, total);
  }

  /// The device worked for so long, until now.
  void used(std::chrono::nanoseconds took);
  /// Sleeps until the device may work again: as long as the last work asks for by now's duty, or until cancelled.
  void rest();

  /// Of what used() was told: how often, and the time that this share of it kept to, to a tenth.
  std::uint64_t submissions() const { return submissions_; }
  std::chrono::nanoseconds quantile(double share) const;

 private:
  static constexpr std::chrono::milliseconds kLongestNap{10};  ///< a signal handler cannot wake a rest

  std::atomic<bool> cancelled_ = false;
  std::atomic<bool> call_cancelled_ = false;
  std::atomic<std::int64_t> slice_ = 0;
  std::atomic<double> duty_ = 1;
  std::uint64_t submissions_ = 0;
  std::array<std::uint64_t, 160> histogram_{};  ///< each a tenth longer than the one before
  std::chrono::nanoseconds took_{0};            ///< of the last work
  Clock::time_point done_{};                    ///< when it ended
  Progress progress_;
  std::mutex mutex_;  ///< for changed_ alone
  std::condition_variable changed_;
};

}  // namespace graft
