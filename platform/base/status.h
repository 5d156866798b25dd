// Status and Result<T>: how every fallible function in graft reports failure.
//
// A message is a full sentence that names the object, the actual value and the limit. Context is added
// on the way up: `return status.with_context("While planning node \"conv1\"")`.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
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
  Status(Code code, std::string message);  ///< `code` is not ok
  Status(const Status& other) : failure_(other.ok() ? nullptr : copied(other.failure_)) {}
  [[gnu::always_inline]] Status(Status&& other) noexcept : failure_(other.taken()) {}
  Status& operator=(const Status& other) { return *this = Status(other); }
  Status& operator=(Status&& other) noexcept {
    Status mine(std::move(other));
    std::swap(failure_, mine.failure_);
    return *this;
  }
  [[gnu::always_inline]] ~Status() {
    // Where the compiler knows, as behind a test of ok(), nothing is left of this; elsewhere it is one call.
    if (!__builtin_constant_p(owns()) || owns()) end();
  }

  [[gnu::always_inline]] bool ok() const { return failure_ == nullptr; }
  explicit operator bool() const { return ok(); }
  Code code() const { return ok() ? Code::ok : failed_code(); }
  const std::string& message() const;

  /// Prepends `context` as "context: message". No effect on success.
  Status with_context(const std::string& context) &&;

 private:
  struct Failure;
  struct Adopt {
    Failure* failure;
  };
  explicit Status(Adopt made) : failure_(made.failure) {}

  /// Where a failure was that has been moved on: still a failure, of which no more is known.
  static Failure* moved() { return reinterpret_cast<Failure*>(1); }  // NOLINT(performance-no-int-to-ptr)
  [[gnu::always_inline]] bool owns() const { return reinterpret_cast<std::uintptr_t>(failure_) > 1; }
  [[gnu::always_inline]] Failure* taken() {
    Failure* const failure = failure_;
    if (failure != nullptr) failure_ = moved();
    return failure;
  }
  [[gnu::cold]] static Failure* copied(const Failure* failure);
  void end() noexcept;
  Code failed_code() const;
  // In thousands of places: these take the parts as they are, and give their failure in a register.
  [[gnu::cold, gnu::returns_nonnull]] static Failure* failed(Code code, std::uint64_t kinds,
                                                             ...);  // NOLINT(cert-dcl50-cpp)

  template <typename... Parts>
  friend Status error(Code code, const Parts&... parts);

  Failure* failure_ = nullptr;
};

inline Status ok_status() { return {}; }

/// A failure with cat(parts...) as its sentence.
template <typename... Parts>
[[gnu::always_inline]] inline Status error(Code code, const Parts&... parts) {
  return Status(Status::Adopt{Status::failed(code, detail::parts_of<Parts...>(), detail::passed(parts)...)});
}
template <typename... Parts>
[[gnu::always_inline]] inline Status invalid(const Parts&... parts) {
  return error(Code::invalid_argument, parts...);
}
template <typename... Parts>
[[gnu::always_inline]] inline Status unsupported(const Parts&... parts) {
  return error(Code::unsupported, parts...);
}
template <typename... Parts>
[[gnu::always_inline]] inline Status corrupt(const Parts&... parts) {
  return error(Code::corrupt, parts...);
}
template <typename... Parts>
[[gnu::always_inline]] inline Status internal_error(const Parts&... parts) {
  return error(Code::internal, parts...);
}

namespace detail {
[[noreturn, gnu::cold]] void no_value();  ///< a bug: of a Result that failed a value was asked
[[noreturn, gnu::cold]] void no_error();  ///< a bug: a Result was made of a Status that is ok
}  // namespace detail

/// A T, or the Status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT: implicit by design, as in `return value;`
  [[gnu::always_inline]] Result(Status&& status) : status_(std::move(status)) {  // NOLINT: likewise `return status;`
    if (status_.ok()) detail::no_error();
  }
  Result(const Status& status) : Result(Status(status)) {}  // NOLINT: likewise
  Result(const Result& other) requires std::is_copy_constructible_v<T> : status_(other.status_) {
    if (ok()) std::construct_at(&value_, other.value_);
  }
  Result(Result&& other) noexcept(std::is_nothrow_move_constructible_v<T>) : status_(std::move(other.status_)) {
    if (ok()) std::construct_at(&value_, std::move(other.value_));
  }
  Result& operator=(Result other) noexcept(std::is_nothrow_move_constructible_v<T>) {
    if (ok()) std::destroy_at(&value_);
    status_ = std::move(other.status_);
    if (ok()) std::construct_at(&value_, std::move(other.value_));
    return *this;
  }
  ~Result() {
    if (ok()) std::destroy_at(&value_);
  }

  [[gnu::always_inline]] bool ok() const { return status_.ok(); }
  [[gnu::always_inline]] explicit operator bool() const { return ok(); }
  const Status& status() const& { return status_; }
  [[gnu::always_inline]] Status status() && { return std::move(status_); }

  /// Requires ok().
  [[gnu::always_inline]] T& value() & {
    if (!ok()) detail::no_value();
    return value_;
  }
  [[gnu::always_inline]] const T& value() const& {
    if (!ok()) detail::no_value();
    return value_;
  }
  /// By value, so that `for (x : f().value())` is safe.
  [[gnu::always_inline]] T value() && {
    if (!ok()) detail::no_value();
    return std::move(value_);
  }
  [[gnu::always_inline]] T& operator*() & { return value(); }
  [[gnu::always_inline]] const T& operator*() const& { return value(); }
  [[gnu::always_inline]] T operator*() && { return std::move(*this).value(); }
  [[gnu::always_inline]] T* operator->() { return &value(); }
  [[gnu::always_inline]] const T* operator->() const { return &value(); }

  Result with_context(const std::string& context) && {
    if (!ok()) return Result(std::move(status_).with_context(context));
    return std::move(*this);
  }

 private:
  Status status_;  // moved or not, it stays ok or does not: it tells whether there is a value
  union {
    T value_;
  };
};

namespace detail {
[[gnu::always_inline]] inline Status to_status(Status&& status) { return std::move(status); }
inline Status to_status(const Status& status) { return status; }
template <typename T>
[[gnu::always_inline]] inline Status to_status(Result<T>&& result) {
  return std::move(result).status();
}
template <typename T>
Status to_status(const Result<T>& result) {
  return result.status();
}
}  // namespace detail

#define GRAFT_CONCAT_INNER(a, b) a##b
#define GRAFT_CONCAT(a, b) GRAFT_CONCAT_INNER(a, b)

/// Evaluates a Status or Result expression; returns its error from the enclosing function.
#define GRAFT_TRY(expr)                                                                        \
  do {                                                                                         \
    if (auto&& graft_status_ = (expr); !graft_status_.ok()) [[unlikely]]                       \
      return ::graft::detail::to_status(std::forward<decltype(graft_status_)>(graft_status_)); \
  } while (false)

/// GRAFT_TRY_ASSIGN(auto file, open(path)): binds the value, or returns the error.
#define GRAFT_TRY_ASSIGN(lhs, expr) GRAFT_TRY_ASSIGN_IMPL(GRAFT_CONCAT(graft_result_, __LINE__), lhs, expr)
#define GRAFT_TRY_ASSIGN_IMPL(tmp, lhs, expr)            \
  auto tmp = (expr);                /* NOLINT: a name */ \
  if (!tmp.ok()) [[unlikely]]       /* NOLINT: a name */ \
    return std::move(tmp).status(); /* NOLINT: a name */ \
  lhs = std::move(tmp).value()      /* NOLINT: a declaration */

}  // namespace graft
