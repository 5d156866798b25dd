// Threads where the system gives them: a limit on processes or address space is no reason to end one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "platform/base/check.h"
#include "platform/base/exceptions.h"
#include "platform/base/status.h"

namespace graft::os {

/// As std::thread, but that the system refuses one is an error, with or without exceptions.
class Thread {
 public:
  Thread() = default;  ///< none
  Thread(Thread&& other) noexcept : handle_(other.handle_), is_joinable_(std::exchange(other.is_joinable_, false)) {}
  Thread& operator=(Thread&& other) noexcept {
    GRAFT_CHECK(!is_joinable_);
    handle_ = other.handle_;
    is_joinable_ = std::exchange(other.is_joinable_, false);
    return *this;
  }
  ~Thread() { GRAFT_CHECK(!is_joinable_); }

  bool joinable() const { return is_joinable_; }
  void join();    ///< requires joinable()
  void detach();  ///< likewise
  /// Whether it is joinable and asks this.
  bool is_this_thread() const;

 private:
  friend Result<Thread> start_thread(std::function<void()> work, const char* what);

  std::uintptr_t handle_ = 0;  ///< the system's
  bool is_joinable_ = false;
};

/// out_of_memory where the system gives no thread. `what` it is for completes "There is no thread ...". `work` must not
/// throw.
Result<Thread> start_thread(std::function<void()> work, const char* what);

/// Runs work(0) to work(count - 1), each in a thread of its own; those that get none run in the calling thread. An
/// exception that one of them throws is thrown here, after all have ended; the first of several.
template <typename Work>
void run_in_threads(std::size_t count, const Work& work) {
  std::mutex mutex;
  std::exception_ptr thrown;
  const auto kept = [&](std::size_t i) noexcept {
    catching([&] { work(i); },
             [&](Thrown) {
               const std::lock_guard lock(mutex);
               if (thrown == nullptr) thrown = std::current_exception();
             });
  };
  std::vector<Thread> others;
  std::size_t next = 1;
  const auto start = [&] {
    others.reserve(count);
    for (; next < count; ++next) {
      Result<Thread> thread = start_thread([&kept, next] { kept(next); }, "");
      if (!thread.ok()) return;
      others.push_back(std::move(thread).value());
    }
  };
  catching(start, [](Thrown) {});  // of memory for a thread
  if (count > 0) kept(0);
  for (; next < count; ++next) kept(next);
  for (Thread& thread : others) thread.join();
  if constexpr (kHasExceptions) {
    if (thrown != nullptr) std::rethrow_exception(thrown);
  }
}

}  // namespace graft::os
