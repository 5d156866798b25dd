// Threads that read samples at once, for sources that allow it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <vector>

#include "platform/base/status.h"
#include "platform/os/threads.h"

namespace graft::data {

/// Threads: belongs to one thread, which takes part in the work.
class Readers {
 public:
  /// `threads` beside the caller; fewer where the system gives no more.
  explicit Readers(std::size_t threads);
  ~Readers();
  Readers(const Readers&) = delete;
  Readers& operator=(const Readers&) = delete;

  /// Calls read(i) for each i below `count`, in any order; returns when all have ended. `failed`: the least i whose
  /// call failed, whatever the number of threads; its status is returned.
  Status run(std::size_t count, const std::function<Status(std::size_t)>& read, std::size_t& failed);

 private:
  void work();
  void take_part();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<os::Thread> threads_;
  const std::function<Status(std::size_t)>* read_ = nullptr;
  std::size_t count_ = 0;
  std::size_t next_ = 0;
  std::size_t busy_ = 0;  ///< calls that are going on
  std::size_t failed_ = 0;
  Status status_;
  bool stopping_ = false;
};

}  // namespace graft::data
