#include "platform/gloo/pulse.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <system_error>

namespace graft::gloo_group {
namespace {

/// What is said that is no rank.
constexpr std::uint32_t kAlive = UINT32_MAX;
/// Beats within a silence, and the longest time between two.
constexpr int kBeats = 8;
constexpr std::chrono::milliseconds kLongest{250};

}  // namespace

Pulse::Pulse(std::vector<Line> lines, std::chrono::milliseconds silence, Looks looks)
    : silence_(silence), looks_(std::move(looks)) {
  for (const Line& line : lines) heard_.push_back({line, Clock::now(), {}, false});
}

Result<std::unique_ptr<Pulse>> Pulse::start(std::vector<Line> lines, std::chrono::milliseconds silence, Looks looks) {
  std::unique_ptr<Pulse> made(new Pulse(std::move(lines), silence, std::move(looks)));
  if (pipe2(made->wakes_, O_CLOEXEC) != 0) return failure("There is no pipe");
  sigset_t all, before;
  sigfillset(&all);  // the app's signals are for its own threads
  pthread_sigmask(SIG_BLOCK, &all, &before);
  Status started;
  try {
    made->thread_ = std::thread([pulse = made.get()] { pulse->beat(); });
  } catch (const std::system_error& failed) {
    started = error(Code::out_of_memory, "No thread could be started: ", failed.what(), ".");
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  GRAFT_TRY(std::move(started));
  return made;
}

Pulse::~Pulse() {
  if (wakes_[1] >= 0) ::close(wakes_[1]);
  if (thread_.joinable()) thread_.join();
  if (wakes_[0] >= 0) ::close(wakes_[0]);
}

void Pulse::beat() {
  const auto interval = std::clamp(silence_ / kBeats, std::chrono::milliseconds(1), kLongest);
  auto next = Clock::now(), before = next;
  for (;;) {
    pollfd wake = {wakes_[0], POLLIN, 0};
    if (poll(&wake, 1, milliseconds_to(next)) > 0) return;
    const auto now = Clock::now();
    if (now < next) continue;
    std::optional<std::uint32_t> silent;
    {
      const std::lock_guard lock(mutex_);
      say(kAlive);
      for (Heard& heard : heard_) {
        listen(heard);
        // It was this process that stood still.
        if (now - next > silence_ / 2) heard.last = now;
      }
      silent = look();
    }
    next = now + interval;
    // A longer time is one in which it stood still.
    looks_(silent.has_value(), std::min<Clock::duration>(now - before, 2 * interval));
    before = now;
  }
}

void Pulse::say(std::uint32_t word) {
  for (const Heard& heard : heard_) {
    // What does not fit any more is not missed: whoever is there has not read for long.
    static_cast<void>(send(heard.line.socket, &word, sizeof word, MSG_NOSIGNAL | MSG_DONTWAIT));
  }
}

void Pulse::listen(Heard& heard) {
  std::array<unsigned char, 256> bytes;
  while (!heard.closed) {
    const ssize_t got = recv(heard.line.socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    heard.closed = got <= 0;
    if (heard.closed) return;
    heard.last = Clock::now();
    heard.begun.insert(heard.begun.end(), bytes.begin(), bytes.begin() + got);
    std::uint32_t word = kAlive;
    while (heard.begun.size() >= sizeof word) {
      std::memcpy(&word, heard.begun.data(), sizeof word);
      heard.begun.erase(heard.begun.begin(), heard.begun.begin() + sizeof word);
      if (word != kAlive) told_ = word;
    }
  }
}

std::optional<std::uint32_t> Pulse::look() {
  if (told_) return told_;
  for (const Heard& heard : heard_) {
    if (!heard.closed && Clock::now() - heard.last > silence_) return heard.line.rank;
  }
  return std::nullopt;
}

std::optional<std::uint32_t> Pulse::silent() {
  const std::lock_guard lock(mutex_);
  for (Heard& heard : heard_) listen(heard);
  return look();
}

void Pulse::tell(std::uint32_t silent) {
  const std::lock_guard lock(mutex_);
  say(silent);
}

}  // namespace graft::gloo_group
