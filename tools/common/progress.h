// Progress on stderr: a bar that redraws itself on a terminal, a plain line now and then otherwise.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace graft::cli {

/// The last one that was updated is on the terminal. What is written meanwhile (terminal.h) ends its line first, and
/// the next update begins another.
class Progress {
 public:
  /// `total` steps of `what` ("step", "batch"); quiet shows nothing.
  Progress(std::string what, std::uint64_t total, bool quiet);
  ~Progress() { finish(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `detail` follows the bar ("loss 0.123"). Redraws at most ten times a second.
  void update(std::uint64_t done, const std::string& detail);
  /// Shows the last state and ends the line. Idempotent.
  void finish();

  /// Ends the line of the bar that is on the terminal, and keeps others from drawing until the lock goes.
  [[nodiscard]] static std::unique_lock<std::recursive_mutex> end_shown();

 private:
  void draw();
  void end_line();
  std::string what_;
  std::uint64_t total_;
  std::uint64_t done_ = 0;
  std::string detail_;
  bool quiet_;
  bool terminal_;  ///< that redraws
  bool drawn_ = false;
  bool stale_ = false;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point last_;
};

/// A line on stderr for a user who waits: it comes after two seconds, unless done() came first.
class WaitNotice {
 public:
  explicit WaitNotice(std::string text);
  ~WaitNotice();
  WaitNotice(const WaitNotice&) = delete;
  WaitNotice& operator=(const WaitNotice&) = delete;
  void done();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;
};

/// "1.2 s", "3 min 04 s".
std::string duration_text(double seconds);

}  // namespace graft::cli
