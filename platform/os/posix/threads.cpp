#include "platform/os/threads.h"

#include <pthread.h>

#include <memory>
#include <system_error>

namespace graft::os {
namespace {

// pthread_t is a number or a pointer. NOLINTBEGIN(performance-no-int-to-ptr)
pthread_t thread_of(std::uintptr_t handle) { return (pthread_t)handle; }       // NOLINT(google-readability-casting)
std::uintptr_t handle_of(pthread_t thread) { return (std::uintptr_t)thread; }  // NOLINT(google-readability-casting)
// NOLINTEND(performance-no-int-to-ptr)

void* run_thread(void* given) noexcept {
  const std::unique_ptr<std::function<void()>> work(static_cast<std::function<void()>*>(given));
  (*work)();
  return nullptr;
}

}  // namespace

void Thread::join() {
  ::pthread_join(thread_of(handle_), nullptr);
  is_joinable_ = false;
}

void Thread::detach() {
  ::pthread_detach(thread_of(handle_));
  is_joinable_ = false;
}

bool Thread::is_this_thread() const {
  return is_joinable_ && ::pthread_equal(thread_of(handle_), ::pthread_self()) != 0;
}

Result<Thread> start_thread(std::function<void()> work, const char* what) {
  auto given = std::make_unique<std::function<void()>>(std::move(work));
  pthread_t started{};
  const int refused = ::pthread_create(&started, nullptr, run_thread, given.get());
  if (refused != 0) {
    return error(Code::out_of_memory, "There is no thread ", what, ": the system gives none (",
                 std::generic_category().message(refused), ").");
  }
  static_cast<void>(given.release());  // the thread's now
  Thread thread;
  thread.handle_ = handle_of(started);
  thread.is_joinable_ = true;
  return thread;
}

}  // namespace graft::os
