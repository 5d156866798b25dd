// Stops this process for a while, as a suspended machine does.
#pragma once

#ifndef _WIN32
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <ctime>

namespace graft::test {

/// After `after`, for `time`, by a child process. The destructor waits for it.
class Freeze {
 public:
  Freeze(std::chrono::nanoseconds after, std::chrono::nanoseconds time) {
    const pid_t parent = getpid();
    child_ = fork();
    if (child_ != 0) return;
    sleep_for(after);
    kill(parent, SIGSTOP);
    sleep_for(time);
    kill(parent, SIGCONT);
    _exit(0);
  }
  ~Freeze() {
    if (child_ > 0) waitpid(child_, nullptr, 0);
  }
  Freeze(const Freeze&) = delete;
  Freeze& operator=(const Freeze&) = delete;

 private:
  static void sleep_for(std::chrono::nanoseconds time) {
    timespec left = {time.count() / 1'000'000'000, time.count() % 1'000'000'000};
    while (nanosleep(&left, &left) != 0) continue;
  }
  pid_t child_ = -1;
};

}  // namespace graft::test
#endif
