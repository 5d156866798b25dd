// Writes to closed connections.
#pragma once

#include <pthread.h>

#include <csignal>

namespace graft::gloo_group {

/// No write to a closed connection ends the process, whatever the app does with SIGPIPE. Threads that are started
/// meanwhile never see it.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~WithoutSigpipe() {
    const timespec now = {};
    while (!was_pending_ && sigtimedwait(&pipe_, nullptr, &now) == SIGPIPE) continue;
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t pipe_ = {};
  sigset_t before_ = {};
  bool was_pending_ = false;
};

}  // namespace graft::gloo_group
