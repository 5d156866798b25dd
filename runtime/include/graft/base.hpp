// What the C++ API is built of: statuses, results, handles. Include graft/graft.hpp.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graft/defaults.hpp"
#include "graft/graft.h"
#include "graft/thrown.hpp"

namespace graft {
// The version is part of every symbol's name: the library's own classes have other names.
inline namespace v0 {

/// Success, or a code with one sentence.
class [[nodiscard]] Status {
 public:
  Status() = default;
  /// A failure, or with GRAFT_OK a success.
  Status(graft_status code, std::string message) : code_(code), message_(std::move(message)) {}
  /// Whether the call did what it was asked.
  bool ok() const { return code_ == GRAFT_OK; }
  /// GRAFT_OK, or the kind of failure.
  graft_status code() const { return code_; }
  /// One full sentence; empty where all went well.
  const std::string& message() const { return message_; }

 private:
  graft_status code_ = GRAFT_OK;
  std::string message_;
};

/// A T, or the Status that says why there is none. value(), * and -> require ok().
template <typename T>
class [[nodiscard]] Result {
 public:
  /// What was asked for.
  Result(T value) : value_(std::move(value)) {}  // NOLINT: implicit by design
  /// Why there is none.
  Result(Status status) : status_(std::move(status)) {}  // NOLINT
  /// Whether there is a value.
  bool ok() const { return value_.has_value(); }
  /// Why there is none; a success where there is one.
  const Status& status() const { return status_; }
  /// The value; requires ok().
  T& value() & { return *value_; }
  /// The value; requires ok().
  const T& value() const& { return *value_; }
  /// The value, moved out; requires ok().
  T&& value() && { return std::move(*value_); }
  /// The value; requires ok().
  T& operator*() & { return *value_; }
  /// The value; requires ok().
  const T& operator*() const& { return *value_; }
  /// The value, moved out; requires ok().
  T&& operator*() && { return std::move(*value_); }
  /// The value; requires ok().
  T* operator->() { return &*value_; }
  /// The value; requires ok().
  const T* operator->() const { return &*value_; }

 private:
  Status status_;
  std::optional<T> value_;
};

/// Name, element type and shape of a tensor: graft_tensor_info.
using TensorInfo = graft_tensor_info;
/// Bytes by class: graft_memory.
using Memory = graft_memory;
/// What a step gives back: graft_metrics.
using Metrics = graft_metrics;
/// What a run would take: graft_forecast.
using Forecast = graft_forecast;

/// A size for a named dimension, as in {"batch", 32}.
struct Binding {
  std::string name = {};
  std::int64_t size = 0;
};

/// As graft_parameter_group.
struct ParameterGroup {
  std::string pattern;  ///< of names: '*' any characters, '?' one; the first group that matches decides
  double learning_rate_scale = 1;
  std::optional<double> weight_decay = {};  ///< default: the trainer's
};

/// As graft_context_options; empty strings for the defaults. If `log` or `allocate` throws, the call that it is called
/// by throws the same; what `log` throws on graft's own threads is dropped.
struct ContextOptions {
  std::string device = {};
  std::string vulkan_library = {};
  std::string pipeline_cache = {};
  decltype(graft_context_options::allocate) allocate = nullptr;
  decltype(graft_context_options::deallocate) deallocate = nullptr;
  void* allocator_user = nullptr;
  decltype(graft_context_options::log) log = nullptr;
  void* log_user = nullptr;
  graft_log_level log_level = GRAFT_LOG_INFO;
  graft_matmul_precision matmul_precision = GRAFT_MATMUL_HIGHEST;
  graft_priority priority = GRAFT_PRIORITY_MEDIUM;
  void (*vulkan_get_instance_proc_addr)() = nullptr;  ///< of a Vulkan that is linked in; nothing is loaded then
  bool validate = false;                              ///< under the Vulkan validation layers, which the log tells of
};

namespace detail {

template <typename T, void (*Destroy)(T*)>
struct Deleter {
  void operator()(T* handle) const { Destroy(handle); }
};
template <typename T, void (*Destroy)(T*)>
using Handle = std::unique_ptr<T, Deleter<T, Destroy>>;

/// Throws what a function of the app's threw in the call.
inline Status to_status(graft_status code, const graft_context* context) {
  Thrown::rethrow(code, context);
  if (code == GRAFT_OK) return {};
  const std::string message = graft_message(context);  // "" where there was no memory for a context
  return Status(code, message.empty() ? graft_status_name(code) : message);
}

/// `object`, which owns what a call made, or why there is none.
template <typename T>
Result<T> made(graft_status code, const graft_context* context, T object) {
  Status status = to_status(code, context);
  if (!status.ok()) return status;
  return object;
}

/// A struct of C's interface with its size, and with its defaults if it has any.
template <typename Info>
Info sized() {
  Info info{};
  info.struct_size = sizeof info;
  if constexpr (requires { graft_init(&info); }) graft_init(&info);
  return info;
}

inline const char* or_null(const std::string& text) { return text.empty() ? nullptr : text.c_str(); }

/// `names` must outlive the result.
inline std::vector<const char*> raw_names(const std::vector<std::string>& names) {
  std::vector<const char*> raw;
  raw.reserve(names.size());
  for (const std::string& name : names) raw.push_back(name.c_str());
  return raw;
}

inline std::vector<graft_binding> raw_bindings(const std::vector<Binding>& bindings) {
  std::vector<graft_binding> raw;
  raw.reserve(bindings.size());
  for (const Binding& binding : bindings) raw.push_back({binding.name.c_str(), binding.size});
  return raw;
}

inline std::vector<graft_parameter_group> raw_groups(const std::vector<ParameterGroup>& groups) {
  std::vector<graft_parameter_group> raw;
  raw.reserve(groups.size());
  for (const ParameterGroup& group : groups) {
    raw.push_back({group.pattern.c_str(), group.learning_rate_scale, group.weight_decay.value_or(-1)});
  }
  return raw;
}

inline std::string joined(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ",") + name;
  return all;
}

/// A context's functions, which the library calls as long as it lives.
struct ContextCalls {
  explicit ContextCalls(const ContextOptions& given) : options(given) {}

  static void write_log(void* user, graft_log_level level, const char* message) {
    const ContextOptions& of = static_cast<ContextCalls*>(user)->options;
    (void)Thrown::caught(nullptr, 0, [&] { return of.log(of.log_user, level, message), 0; });
  }
  static void* allocate(void* user, std::size_t bytes, std::size_t alignment) {
    const ContextOptions& of = static_cast<ContextCalls*>(user)->options;
    return Thrown::caught(nullptr, static_cast<void*>(nullptr),
                          [&] { return of.allocate(of.allocator_user, bytes, alignment); });
  }
  static void deallocate(void* user, void* pointer, std::size_t bytes, std::size_t alignment) {
    const ContextOptions& of = static_cast<ContextCalls*>(user)->options;
    of.deallocate(of.allocator_user, pointer, bytes, alignment);
  }
  ContextOptions options;
};

/// `calls` must stay as long as the context.
inline graft_context_options raw_options(ContextCalls& calls) {
  const ContextOptions& options = calls.options;
  auto raw = sized<graft_context_options>();
  raw.device = or_null(options.device);
  raw.vulkan_library = or_null(options.vulkan_library);
  raw.vulkan_get_instance_proc_addr = options.vulkan_get_instance_proc_addr;
  raw.pipeline_cache = or_null(options.pipeline_cache);
  raw.allocate = options.allocate == nullptr ? nullptr : ContextCalls::allocate;
  raw.deallocate = options.deallocate == nullptr ? nullptr : ContextCalls::deallocate;
  raw.allocator_user = &calls;
  raw.log = options.log == nullptr ? nullptr : ContextCalls::write_log;
  raw.log_user = &calls;
  raw.log_level = options.log_level;
  raw.matmul_precision = options.matmul_precision;
  raw.priority = options.priority;
  raw.validate = options.validate ? 1 : 0;
  return raw;
}

/// A tensor by read(data, bytes, info), which with data = NULL tells its info alone. T must be its element type.
template <typename T, typename Read>
Result<std::vector<T>> read_tensor(const graft_context* context, Read read) {
  TensorInfo info{};
  Status told = to_status(read(nullptr, 0, &info), context);
  if (!told.ok()) return told;
  std::size_t count = 1;
  for (std::uint32_t i = 0; i < info.rank; ++i) count *= static_cast<std::size_t>(info.dims[i]);
  std::vector<T> out(count);
  Status done = to_status(read(out.data(), count * sizeof(T), nullptr), context);
  if (!done.ok()) return done;
  return out;
}

}  // namespace detail

}  // namespace v0
}  // namespace graft
