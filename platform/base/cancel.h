// Work that takes long on the host asks now and then whether it shall end: planning, conversion.
#pragma once

#include <functional>

#include "platform/base/status.h"

namespace graft {

/// As long as it lives, cancel_point() on this thread asks `cancelled`. The innermost counts.
class CancelScope {
 public:
  explicit CancelScope(std::function<bool()> cancelled) : cancelled_(std::move(cancelled)), outer_(current_) {
    current_ = this;
  }
  ~CancelScope() { current_ = outer_; }
  CancelScope(const CancelScope&) = delete;
  CancelScope& operator=(const CancelScope&) = delete;

  static bool is_cancelled() { return current_ != nullptr && current_->cancelled_ && current_->cancelled_(); }

 private:
  inline static thread_local CancelScope* current_ = nullptr;
  std::function<bool()> cancelled_;
  CancelScope* outer_;
};

/// cancelled where somebody asked for it. Where nothing is half done that would stay.
inline Status cancel_point() {
  if (!CancelScope::is_cancelled()) return ok_status();
  return error(Code::cancelled, "The call was cancelled; nothing changed.");
}

}  // namespace graft
