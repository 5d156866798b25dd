// Whether the others still run, whatever they do: a process that is stopped, or behind a cut line, falls silent.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "platform/gloo/wire.h"

namespace graft::gloo_group {

/// Says several times within `silence` to whoever is at the other end of a line that this process runs, and listens for
/// the same: worker 0 to all, the others to worker 0. A thread of its own does so while the worker computes, evaluates
/// or waits. One that runs but never comes is not found here.
///
/// Threads: any.
class Pulse {
 public:
  /// A connection on which nothing else is said meanwhile.
  struct Line {
    std::uint32_t rank = 0;
    int socket = -1;  ///< outlives the pulse
  };
  /// `looks` is called from the thread with every beat: whether somebody is silent, and for how long this process has
  /// run since the beat before.
  using Looks = std::function<void(bool silent, Clock::duration ran)>;
  static Result<std::unique_ptr<Pulse>> start(std::vector<Line> lines, std::chrono::milliseconds silence, Looks looks);
  ~Pulse();
  Pulse(const Pulse&) = delete;
  Pulse& operator=(const Pulse&) = delete;

  /// Who has said nothing for so long, or of whom worker 0 has said so.
  std::optional<std::uint32_t> silent();
  /// Worker 0, before it goes on without that one: so that the others give it the same name.
  void tell(std::uint32_t silent);

  std::chrono::milliseconds silence() const { return silence_; }

 private:
  struct Heard {
    Line line;
    Clock::time_point last;
    std::vector<unsigned char> begun;  ///< of a word that has not come whole
    bool closed = false;               ///< by the other end: whoever uses the group sees that
  };
  Pulse(std::vector<Line> lines, std::chrono::milliseconds silence, Looks looks);
  void beat();
  void listen(Heard& heard);
  void say(std::uint32_t word);
  std::optional<std::uint32_t> look();

  const std::chrono::milliseconds silence_;
  const Looks looks_;
  std::mutex mutex_;
  std::vector<Heard> heard_;
  std::optional<std::uint32_t> told_;
  int wakes_[2] = {-1, -1};  ///< a pipe: its end of writing is closed to end the thread
  std::thread thread_;
};

}  // namespace graft::gloo_group
