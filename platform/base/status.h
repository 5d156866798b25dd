// Status and Result<T>: how every fallible function in graft reports failure.
//
// A message is a full sentence that names the object, the actual value and the limit. Context is added
// on the way up: `return status.with_context("While planning node \"conv1\"")`.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "platform/base/check.h"
#include "platform/base/text.h"

namespace graft {

enum class Code : int {
  ok = 0,
  invalid_argument = 1,  ///< the caller asked for something that cannot be
  not_found = 2,         ///< a named thing (file, value, device, driver) is absent
  io_error = 3,          ///< the operating system refused a read, write, sync or map
  corrupt = 4,           ///< a file's bytes contradict its format or checksum
  unsupported = 5,       ///< well-formed, but graft or this device cannot do it
  out_of_memory = 6,     ///< host or device memory, or a budget, does not suffice
  device_error = 7,      ///< a GPU call failed
  device_lost = 8,       ///< the GPU is gone; only a new device can go on
  timeout = 9,           ///< a bounded wait ran out
  cancelled = 10,        ///< stopped on request
  internal = 11,         ///< a bug in graft
};

/// The code's name, as in "invalid_argument".
const char* code_name(Code code);

/// Success, or a code with one sentence. Cheap to move; success holds no allocation.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) { GRAFT_DCHECK(code != Code::ok); }

  bool ok() const { return code_ == Code::ok; }
  explicit operator bool() const { return ok(); }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

  /// Prepends `context` as "context: message". No effect on success.
  Status with_context(const std::string& context) && {
    if (!ok()) message_ = context + ": " + message_;
    return std::move(*this);
  }

 private:
  Code code_ = Code::ok;
  std::string message_;
};

inline Status ok_status() { return {}; }

template <typename... Parts>
Status error(Code code, const Parts&... parts) {
  return Status(code, cat(parts...));
}
template <typename... Parts>
Status invalid(const Parts&... parts) {
  return error(Code::invalid_argument, parts...);
}
template <typename... Parts>
Status unsupported(const Parts&... parts) {
  return error(Code::unsupported, parts...);
}
template <typename... Parts>
Status corrupt(const Parts&... parts) {
  return error(Code::corrupt, parts...);
}
template <typename... Parts>
Status internal_error(const Parts&... parts) {
  return error(Code::internal, parts...);
}

/// A T, or the Status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT: implicit by design, as in `return value;`
  Result(Status status) : status_(std::move(status)) {  // NOLINT: likewise `return status;`
    GRAFT_CHECK(!status_.ok());
  }

  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Status& status() const& { return status_; }
  Status status() && { return std::move(status_); }

  /// Requires ok().
  T& value() & {
    GRAFT_CHECK(ok());
    return *value_;
  }
  const T& value() const& {
    GRAFT_CHECK(ok());
    return *value_;
  }
  /// By value, so that `for (x : f().value())` is safe.
  T value() && {
    GRAFT_CHECK(ok());
    return std::move(*value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  Result with_context(const std::string& context) && {
    if (!ok()) return Result(std::move(status_).with_context(context));
    return std::move(*this);
  }

 private:
  Status status_;
  std::optional<T> value_;
};

namespace detail {
inline Status to_status(Status status) { return status; }
template <typename T>
Status to_status(Result<T>&& result) {
  return result.ok() ? Status() : std::move(result).status();
}
}  // namespace detail

#define GRAFT_CONCAT_INNER(a, b) a##b
#define GRAFT_CONCAT(a, b) GRAFT_CONCAT_INNER(a, b)

/// Evaluates a Status or Result expression; returns its error from the enclosing function.
#define GRAFT_TRY(expr)                                                                                              \
  do {                                                                                                               \
    if (::graft::Status graft_status_ = ::graft::detail::to_status(expr); !graft_status_.ok()) return graft_status_; \
  } while (false)

/// GRAFT_TRY_ASSIGN(auto file, open(path)): binds the value, or returns the error.
#define GRAFT_TRY_ASSIGN(lhs, expr) GRAFT_TRY_ASSIGN_IMPL(GRAFT_CONCAT(graft_result_, __LINE__), lhs, expr)
#define GRAFT_TRY_ASSIGN_IMPL(tmp, lhs, expr)                         \
  auto tmp = (expr);                             /* NOLINT: a name */ \
  if (!tmp.ok()) return std::move(tmp).status(); /* NOLINT: a name */ \
  lhs = std::move(tmp).value()                   /* NOLINT: a declaration */

}  // namespace graft
