// The thread on which a context does what it was asked for without waiting.
#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include "platform/base/status.h"
#include "platform/os/threads.h"

namespace graft::c_api {

/// Does jobs one after another, in the order in which they were asked for. Threads: ask() from any.
class Worker {
 public:
  Worker() = default;
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  /// Nothing may wait. On its own thread, whose last job it then was, it does not wait for it.
  ~Worker();

  /// out_of_memory where the system gives no thread: the first job starts it. Jobs must not throw.
  Status ask(std::function<void()> job);
  /// Whether a job is asking.
  bool is_this_thread() const {
    const std::lock_guard starting(starting_);
    return thread_.is_this_thread();
  }

 private:
  struct Queue;
  mutable std::mutex starting_;
  std::shared_ptr<Queue> queue_;
  os::Thread thread_;
};

}  // namespace graft::c_api
