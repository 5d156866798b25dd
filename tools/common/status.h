// How what the tools share reports failure, and how they pass on that of any library under them: the classes of
// graft/base.hpp, and in the workbench those of graft's inner libraries, become this one.
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "tools/common/text.h"

namespace graft::cli {

/// As graft_status.
enum class Code : int {
  ok = 0,
  invalid_argument = 1,
  not_found = 2,
  io_error = 3,
  corrupt = 4,
  unsupported = 5,
  out_of_memory = 6,
  device_error = 7,
  device_lost = 8,
  timeout = 9,
  cancelled = 10,
  internal = 11,
};

/// A class of another library that says as much as Status.
template <typename T>
concept OtherStatus = requires(const T& status) {
  { status.ok() } -> std::same_as<bool>;
  { status.message() } -> std::convertible_to<std::string>;
  static_cast<int>(status.code());
};

/// Success, or a code with one sentence.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}
  template <OtherStatus Other>
  requires(!std::same_as<Other, Status>) Status(const Other& other)  // NOLINT: implicit, as in `return library_call();`
      : code_(static_cast<Code>(other.code())), message_(other.message()) {}
  /// The other way round, for what a library calls back.
  template <OtherStatus Other>
  requires(!std::same_as<Other, Status>) operator Other() const {  // NOLINT: likewise
    if (ok()) return Other();
    return Other(static_cast<decltype(Other().code())>(code_), message_);
  }

  bool ok() const { return code_ == Code::ok; }
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
  return {code, cat(parts...)};
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

/// Of another library: a T, or the status that says why there is none.
template <typename R, typename T>
concept OtherResult = requires(R& result) {
  { result.ok() } -> std::same_as<bool>;
  { result.status() } -> OtherStatus;
  { std::move(result.value()) } -> std::convertible_to<T>;
};

/// A T, or the Status that says why there is none. value(), * and -> require ok().
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT: implicit by design, as in `return value;`
  Result(Status status) : status_(std::move(status)) {}  // NOLINT: likewise `return status;`
  template <OtherStatus Other>
  Result(const Other& status) : status_(status) {}  // NOLINT
  template <typename Other>
  requires(OtherResult<Other, T> && !std::same_as<Other, Result>) Result(Other other)
      : status_(other.status()) {  // NOLINT
    if (other.ok()) value_.emplace(std::move(other.value()));
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const& { return status_; }
  Status status() && { return std::move(status_); }
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  /// By value, so that `for (x : f().value())` is safe.
  T value() && { return std::move(*value_); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T operator*() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  Status status_;
  std::optional<T> value_;
};

namespace detail {
template <OtherStatus Any>
Status status_of(const Any& status) {
  return status;
}
template <typename Any>
requires requires(const Any& result) {
  { result.status() } -> OtherStatus;
}
Status status_of(const Any& result) { return result.ok() ? Status() : Status(result.status()); }
}  // namespace detail

#define GRAFT_CLI_CONCAT_INNER(a, b) a##b
#define GRAFT_CLI_CONCAT(a, b) GRAFT_CLI_CONCAT_INNER(a, b)

/// Evaluates a Status or Result expression, of any library; returns its error from the enclosing function.
#define TRY(expr)                                                                                    \
  do {                                                                                               \
    if (::graft::cli::Status cli_status_ = ::graft::cli::detail::status_of(expr); !cli_status_.ok()) \
      return cli_status_;                                                                            \
  } while (false)

/// TRY_ASSIGN(auto file, open(path)): binds the value, or returns the error.
#define TRY_ASSIGN(lhs, expr) TRY_ASSIGN_IMPL(GRAFT_CLI_CONCAT(cli_result_, __LINE__), lhs, expr)
#define TRY_ASSIGN_IMPL(tmp, lhs, expr)                                            \
  auto tmp = (expr);                                          /* NOLINT: a name */ \
  if (!tmp.ok()) return ::graft::cli::detail::status_of(tmp); /* NOLINT: a name */ \
  lhs = std::move(tmp.value())                                /* NOLINT: a declaration */

}  // namespace graft::cli
