// How calls of the C ABI meet: handles that are counted, one call at a time in a context, callbacks that may not call.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "graft/graft.h"
#include "platform/os/process.h"

namespace graft::c_api {

/// Counts who needs an object: the app until it destroys the handle, and each object that was made from it. So an app
/// may destroy in any order, as garbage collectors do.
struct Users {
  std::atomic<std::uint32_t> count{1};
  bool destroyed = false;  ///< the app has given its handle up

  Users() = default;
  Users(const Users&) = delete;
  Users& operator=(const Users&) = delete;
};

template <typename Handle>
void release(Handle* handle) {
  if (handle != nullptr && handle->users.count.fetch_sub(1) == 1) delete handle;
}

/// What an object holds of the one that it was made from.
template <typename Handle>
class Ref {
 public:
  Ref(Handle* handle = nullptr) : handle_(handle) {
    if (handle_ != nullptr) ++handle_->users.count;
  }
  Ref(const Ref& other) : Ref(other.handle_) {}
  Ref& operator=(Ref other) {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Ref() { release(handle_); }
  operator Handle*() const { return handle_; }
  Handle* operator->() const { return handle_; }
  Handle& operator*() const { return *handle_; }

 private:
  Handle* handle_;
};

/// The sentence of each thread's last failure. A thread's own stays where it is until its next failure, whatever other
/// threads do.
class Messages {
 public:
  /// "" if this thread had no failure.
  const char* get() const {
    if (number_ == 0) return "";
    const std::lock_guard lock(mutex_);
    if (first_.thread == number_) return first_.sentence.c_str();
    const auto found = of_.find(std::this_thread::get_id());
    return found == of_.end() || found->second.thread != number_ ? "" : found->second.sentence.c_str();
  }
  /// This thread's, for which there is room from now on: a short literal can be assigned without memory.
  std::string& own() {
    const std::lock_guard lock(mutex_);
    static std::atomic<std::uint64_t> threads{0};
    if (number_ == 0) number_ = ++threads;
    if (first_.thread == 0) first_.thread = number_;
    if (first_.thread == number_) return first_.sentence;
    Entry& entry = of_[std::this_thread::get_id()];
    if (std::exchange(entry.thread, number_) != number_) entry.sentence.clear();
    return entry.sentence;
  }

 private:
  struct Entry {
    std::uint64_t thread = 0;  ///< its number: the system uses ids again
    std::string sentence;
  };
  // No thread_local string: its destructor would keep the library loaded after dlclose().
  inline static thread_local std::uint64_t number_ = 0;
  mutable std::mutex mutex_;
  Entry first_;                          ///< of the thread that made the context, which takes no memory
  std::map<std::thread::id, Entry> of_;  ///< of the others
};

/// As long as it lives, this thread is in a callback that may run on any of graft's threads: calls of graft are
/// refused.
class CallbackScope {
 public:
  CallbackScope() { ++depth_; }
  ~CallbackScope() { --depth_; }
  CallbackScope(const CallbackScope&) = delete;
  CallbackScope& operator=(const CallbackScope&) = delete;
  static bool active() { return depth_ != 0; }

 private:
  inline static thread_local unsigned depth_ = 0;
};

/// One call at a time in a context: a second thread waits. A call from within a callback would wait for itself, and a
/// forked child for threads that it does not have: both are refused.
template <typename Context>
class CallScope {
 public:
  explicit CallScope(Context& context)
      : context_(context),
        nested_(context.owner.load() == std::this_thread::get_id()),
        forked_(is_forked(context)),
        entered_(!nested_ && !forked_ && !CallbackScope::active()) {
    if (!entered_) return;
    context_.mutex.lock();
    context_.owner = std::this_thread::get_id();
  }
  ~CallScope() {
    if (!entered_) return;
    context_.owner = std::thread::id();
    context_.mutex.unlock();
  }
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;
  bool entered() const { return entered_; }
  bool nested() const { return nested_; }  ///< in a call of this thread, whose message may be set
  bool forked() const { return forked_; }  ///< the context is that of the parent process
  static bool is_forked(const Context& context) { return context.process != os::process_id(); }

 private:
  Context& context_;
  bool nested_;
  bool forked_;
  bool entered_;
};

/// The app gives its handle up. Within a callback, where the object is in use, and in a forked child nothing is done.
template <typename Context, typename Handle>
void destroy(Context* of, Handle* handle) {
  const Ref<Context> context(of);  // goes after the call
  const CallScope<Context> call(*context);
  if (!call.entered() || std::exchange(handle->users.destroyed, true)) return;
  release(handle);
}

}  // namespace graft::c_api
