// Exceptions that an app's functions throw while graft calls them. C frames cannot be unwound, so the exception is
// kept, the function answers as if it had failed, and the call throws the exception when it is back. Included by
// base.hpp.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <iterator>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "graft/graft.h"

namespace graft {
inline namespace v0 {
namespace detail {

/// What was thrown and is not back with its call.
class Thrown {
 public:
  /// What body() returns; if it throws, `failed`. The call on `context` that fails by it, or the call that this thread
  /// is in, throws it.
  template <typename T, typename Body>
  static T caught(const graft_context* context, T failed, Body body) noexcept {
#if defined(__cpp_exceptions)
    try {
      return body();
    } catch (...) {
      keep(context, std::current_exception());
      return failed;
    }
#else
    (void)context, (void)failed;
    return body();
#endif
  }

  /// Throws what was thrown in the call that has ended with `code`. `context` may be null.
  static void rethrow(graft_status code, const graft_context* context) {
    if (count_.load(std::memory_order_acquire) == 0) return;
    const auto taken = take([&](const Entry& one) {
      if (one.thread == std::this_thread::get_id()) return true;
      return code != GRAFT_OK && context != nullptr && one.context == context;  // of graft's own threads
    });
#if defined(__cpp_exceptions)
    if (taken.empty()) return;
    // The call was cancelled by what threw, and was done before it looked.
    if (code == GRAFT_OK && context != nullptr && taken[0].context == context) {
      (void)graft_uncancel(const_cast<graft_context*>(context));
    }
    std::rethrow_exception(taken[0].what);
#endif
  }

  /// A new context lies here: what one before it left is of no call.
  static void forget(const graft_context* context) {
    (void)take([&](const Entry& one) { return one.context == context; });
  }

 private:
  struct Entry {
    const graft_context* context;
    std::thread::id thread;
    std::exception_ptr what;
  };

  /// Those that `wanted` is true of; they are kept no longer. An exception's destructor may wait for other locks, so
  /// that none is destroyed under this one.
  template <typename Wanted>
  static std::vector<Entry> take(Wanted wanted) {
    std::vector<Entry> taken;
    const std::lock_guard lock(mutex_);
    const auto middle = std::stable_partition(kept_.begin(), kept_.end(), [&](const Entry& e) { return !wanted(e); });
    taken.assign(std::make_move_iterator(middle), std::make_move_iterator(kept_.end()));
    kept_.erase(middle, kept_.end());
    count_.store(kept_.size(), std::memory_order_release);
    return taken;
  }

#if defined(__cpp_exceptions)
  static void keep(const graft_context* context, std::exception_ptr what) {
    constexpr std::size_t kMost = 64;  // of functions that no call waits for, as a log on graft's own threads
    try {
      const std::lock_guard lock(mutex_);
      if (kept_.size() >= kMost) return;
      kept_.push_back({context, std::this_thread::get_id(), std::move(what)});
      count_.store(kept_.size(), std::memory_order_release);
    } catch (...) {  // no memory: the call fails all the same, without the exception
    }
  }
#endif

  inline static std::mutex mutex_;
  inline static std::vector<Entry> kept_;
  inline static std::atomic<std::size_t> count_{0};
};

}  // namespace detail
}  // namespace v0
}  // namespace graft
