#include "tools/common/progress.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "tools/common/terminal.h"

namespace graft::cli {
namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kRedraw{100};
constexpr std::chrono::seconds kPlainLine{5};
constexpr std::chrono::seconds kPatience{2};
constexpr std::size_t kBarWidth = 28, kLeastBar = 6;

/// Of drawing and of all output; again in the thread that has it, which draws before it writes.
std::recursive_mutex g_output;
Progress* g_shown = nullptr;  ///< whose bar is on the terminal

}  // namespace

std::unique_lock<std::recursive_mutex> Progress::end_shown() {
  std::unique_lock lock(g_output);
  if (g_shown != nullptr) g_shown->end_line();
  return lock;
}

std::string duration_text(double seconds) {
  std::array<char, 48> text{};
  if (seconds < 60) {
    std::snprintf(text.data(), text.size(), "%.1f s", seconds);
  } else {
    const long whole = std::lround(seconds);
    std::snprintf(text.data(), text.size(), "%ld min %02ld s", whole / 60, whole % 60);
  }
  return text.data();
}

WaitNotice::WaitNotice(std::string text) {
  thread_ = std::thread([this, text = std::move(text)] {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kPatience, [this] { return done_; })) to_stderr("%s\n", text.c_str());
  });
}

WaitNotice::~WaitNotice() {
  done();
  thread_.join();
}

void WaitNotice::done() {
  const std::lock_guard lock(mutex_);
  done_ = true;
  changed_.notify_all();
}

Progress::Progress(std::string what, std::uint64_t total, bool quiet)
    : what_(std::move(what)),
      total_(total),
      quiet_(quiet),
      terminal_(can_redraw(stderr)),
      start_(SteadyClock::now()),
      last_(start_ - kPlainLine) {}

void Progress::update(std::uint64_t done, const std::string& detail) {
  const std::lock_guard lock(g_output);
  done_ = done;
  detail_ = detail;
  stale_ = true;
  if (terminal_ && !quiet_ && g_shown != this) {
    if (g_shown != nullptr) g_shown->end_line();
    g_shown = this;
  }
  const auto now = SteadyClock::now();
  if (terminal_ ? now - last_ < kRedraw : now - last_ < kPlainLine) return;
  last_ = now;
  draw();
}

void Progress::draw() {
  if (quiet_) return;
  const double seconds = std::chrono::duration<double>(SteadyClock::now() - start_).count();
  const double rate = seconds > 0 ? static_cast<double>(done_) / seconds : 0;
  const std::string left =
      done_ > 0 && done_ < total_ ? ", " + duration_text(static_cast<double>(total_ - done_) / rate) + " left" : "";
  if (terminal_) {
    // The last column stays free: some terminals go to the next line once it is filled.
    const std::size_t width = terminal_width(stderr) - 1;
    const std::string text = std::to_string(done_) + "/" + std::to_string(total_) + "  " + detail_ + left;
    const std::size_t taken = columns_of(what_) + columns_of(text) + 2;
    const std::size_t bar = width > taken + kLeastBar ? std::min(kBarWidth, width - taken) : 0;
    const std::size_t filled = total_ ? bar * std::min(done_, total_) / total_ : 0;
    std::string line = what_ + " ";
    for (std::size_t i = 0; i < bar; ++i) line += i < filled ? "█" : "░";
    line += (bar > 0 ? " " : "") + text;
    std::fprintf(stderr, "\r\033[K%s", shortened(line, width).c_str());
  } else {
    std::fprintf(stderr, "%s %llu/%llu  %s (%s%s)\n", what_.c_str(), static_cast<unsigned long long>(done_),
                 static_cast<unsigned long long>(total_), detail_.c_str(), duration_text(seconds).c_str(),
                 left.c_str());
  }
  std::fflush(stderr);
  drawn_ = true;
  stale_ = false;
}

void Progress::end_line() {
  if (stale_) draw();
  if (drawn_ && terminal_ && !quiet_) std::fprintf(stderr, "\n");
  drawn_ = false;
  if (g_shown == this) g_shown = nullptr;
}

void Progress::finish() {
  const std::lock_guard lock(g_output);
  end_line();
}

}  // namespace graft::cli
