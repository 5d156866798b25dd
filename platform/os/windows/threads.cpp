#include "platform/os/threads.h"

#include <windows.h>

#include <process.h>

#include <cerrno>
#include <memory>
#include <system_error>

namespace graft::os {
namespace {

HANDLE thread_of(std::uintptr_t handle) { return reinterpret_cast<HANDLE>(handle); }

unsigned __stdcall run_thread(void* given) noexcept {
  const std::unique_ptr<std::function<void()>> work(static_cast<std::function<void()>*>(given));
  (*work)();
  return 0;
}

}  // namespace

void Thread::join() {
  ::WaitForSingleObject(thread_of(handle_), INFINITE);
  detach();
}

void Thread::detach() {
  ::CloseHandle(thread_of(handle_));
  is_joinable_ = false;
}

bool Thread::is_this_thread() const {
  return is_joinable_ && ::GetThreadId(thread_of(handle_)) == ::GetCurrentThreadId();
}

Result<Thread> start_thread(std::function<void()> work, const char* what) {
  auto given = std::make_unique<std::function<void()>>(std::move(work));
  const std::uintptr_t started = ::_beginthreadex(nullptr, 0, run_thread, given.get(), 0, nullptr);
  if (started == 0) {
    return error(Code::out_of_memory, "There is no thread ", what, ": the system gives none (",
                 std::generic_category().message(errno), ").");
  }
  static_cast<void>(given.release());  // the thread's now
  Thread thread;
  thread.handle_ = started;
  thread.is_joinable_ = true;
  return thread;
}

}  // namespace graft::os
