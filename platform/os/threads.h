// Threads where the system gives them: a limit on processes or address space is no reason to end one.
#pragma once

#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "platform/base/status.h"

namespace graft::os {

/// Runs work(0) to work(count - 1), each in a thread of its own; those that get none run in the calling thread. An
/// exception that one of them throws is thrown here, after all have ended; the first of several.
template <typename Work>
void run_in_threads(std::size_t count, const Work& work) {
  std::mutex mutex;
  std::exception_ptr thrown;
  const auto kept = [&](std::size_t i) noexcept {
    try {
      work(i);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (thrown == nullptr) thrown = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  std::size_t next = 1;
  try {
    others.reserve(count);
    for (; next < count; ++next) others.emplace_back([&kept, next] { kept(next); });
  } catch (const std::exception&) {  // of a thread that could not be started, or its memory
  }
  if (count > 0) kept(0);
  for (; next < count; ++next) kept(next);
  for (std::thread& thread : others) thread.join();
  if (thrown != nullptr) std::rethrow_exception(thrown);
}

/// out_of_memory where the system gives no thread. `what` it is for completes "There is no thread ...".
template <typename Work>
Result<std::thread> start_thread(Work work, const char* what) {
  try {
    return std::thread(std::move(work));
  } catch (const std::exception& refused) {
    return error(Code::out_of_memory, "There is no thread ", what, ": the system gives none (", refused.what(), ").");
  }
}

}  // namespace graft::os
