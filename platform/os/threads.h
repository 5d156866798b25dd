// Threads where the system gives them: a limit on processes or address space is no reason to end one.
#pragma once

#include <cstddef>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "platform/base/status.h"

namespace graft::os {

/// Runs work(0) to work(count - 1), each in a thread of its own; those that get none run in the calling thread.
template <typename Work>
void run_in_threads(std::size_t count, const Work& work) {
  std::vector<std::thread> others;
  std::size_t next = 1;
  try {
    others.reserve(count);
    for (; next < count; ++next) others.emplace_back([&work, next] { work(next); });
  } catch (const std::exception&) {  // of a thread that could not be started, or its memory
  }
  if (count > 0) work(std::size_t{0});
  for (; next < count; ++next) work(next);
  for (std::thread& thread : others) thread.join();
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
