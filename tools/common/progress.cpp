#include "tools/common/progress.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace graft::cli {
namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kRedraw{100};
constexpr std::chrono::seconds kPlainLine{5};
constexpr std::chrono::seconds kPatience{2};
constexpr std::uint64_t kBarWidth = 28;

}  // namespace

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
    if (!changed_.wait_for(lock, kPatience, [this] { return done_; })) std::fprintf(stderr, "%s\n", text.c_str());
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
      terminal_(isatty(STDERR_FILENO) == 1),
      start_(SteadyClock::now()),
      last_(start_ - kPlainLine) {}

void Progress::update(std::uint64_t done, const std::string& detail) {
  done_ = done;
  detail_ = detail;
  stale_ = true;
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
    const std::uint64_t filled = total_ ? kBarWidth * std::min(done_, total_) / total_ : 0;
    std::string bar;
    for (std::uint64_t i = 0; i < kBarWidth; ++i) bar += i < filled ? "█" : "░";
    std::fprintf(stderr, "\r\033[K%s %s %llu/%llu  %s%s", what_.c_str(), bar.c_str(),
                 static_cast<unsigned long long>(done_), static_cast<unsigned long long>(total_), detail_.c_str(),
                 left.c_str());
  } else {
    std::fprintf(stderr, "%s %llu/%llu  %s (%s%s)\n", what_.c_str(), static_cast<unsigned long long>(done_),
                 static_cast<unsigned long long>(total_), detail_.c_str(), duration_text(seconds).c_str(),
                 left.c_str());
  }
  std::fflush(stderr);
  drawn_ = true;
  stale_ = false;
}

void Progress::finish() {
  if (stale_) draw();
  if (drawn_ && terminal_) std::fprintf(stderr, "\n");
  drawn_ = false;
}

}  // namespace graft::cli
