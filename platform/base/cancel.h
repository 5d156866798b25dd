// Work that takes long on the host tells now and then how far it is, and asks whether it shall end: planning,
// conversion.
#pragma once

#include <cstdint>
#include <functional>

#include "platform/base/status.h"

namespace graft {

/// As long as it lives, cancel_point() on this thread asks `cancelled`. The innermost counts.
class CancelScope {
 public:
  /// Told what cancel_point() was.
  using Cancelled = std::function<bool(std::uint64_t done, std::uint64_t total)>;

  explicit CancelScope(Cancelled cancelled) : cancelled_(std::move(cancelled)), outer_(current_) { current_ = this; }
  ~CancelScope() { current_ = outer_; }
  CancelScope(const CancelScope&) = delete;
  CancelScope& operator=(const CancelScope&) = delete;

  static bool is_cancelled(std::uint64_t done, std::uint64_t total) {
    return current_ != nullptr && current_->cancelled_ && current_->cancelled_(done, total);
  }

 private:
  inline static thread_local CancelScope* current_ = nullptr;
  Cancelled cancelled_;
  CancelScope* outer_;
};

/// cancelled where somebody asked for it. Where nothing is half done that would stay. So much of the work is done;
/// total 0: nobody knows.
inline Status cancel_point(std::uint64_t done = 0, std::uint64_t total = 0) {
  if (!CancelScope::is_cancelled(done, total)) return ok_status();
  return error(Code::cancelled, "The call was cancelled; nothing changed.");
}

}  // namespace graft
