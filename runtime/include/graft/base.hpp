// What the C++ API is built of: statuses, results, handles. Include graft/graft.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
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

/// Name, element type and shape of a tensor.
using TensorInfo = graft_tensor_info;

/// A tensor where graft has it, valid as the call says that gives it.
struct TensorView {
  std::span<const std::byte> data;
  TensorInfo info{};
  /// Its elements; T: their type.
  template <typename T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(data.data()), data.size() / sizeof(T)};
  }
};

/// A size for a named dimension, as in {"batch", 32}.
struct Binding {
  std::string name = {};
  std::int64_t size = 0;
};

/// Options of the parameters whose name matches: TrainerOptions::groups.
struct ParameterGroup {
  std::string pattern;  ///< of names: '*' any characters, '?' one; the first group that matches decides
  double learning_rate_scale = 1;
  std::optional<double> weight_decay = {};  ///< default: the trainer's
};

/// How an input is given that the model takes as f32: x * scale + offset of bytes or halves.
struct InputFormat {
  std::string name = {};
  graft_element element = GRAFT_ELEMENT_U8;
  bool channels_last = false;      ///< [N, H, W, C] where the model takes [N, C, H, W]
  std::vector<float> scale = {};   ///< empty: 1; one number, or one for each channel
  std::vector<float> offset = {};  ///< the same; empty: 0
};

/// One turn of a conversation.
struct ChatMessage {
  std::string role;  ///< "system", "user" or "assistant"
  std::string text;
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

/// Owns a handle of C, made from `context`.
template <typename T, void (*Destroy)(T*)>
class Object {
 public:
  T* get() const { return handle_.get(); }             ///< for what only the C ABI has
  graft_context* context() const { return context_; }  ///< whose messages say what failed

 protected:
  Object(T* handle, graft_context* context) : handle_(handle), context_(context) {}
  Status status(graft_status code) const { return to_status(code, context_); }

 private:
  Handle<T, Destroy> handle_;
  graft_context* context_;
};

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

/// A text of C, which may be NULL.
inline std::string text(const char* from) { return from == nullptr ? std::string() : std::string(from); }
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

inline std::vector<graft_pair> raw_pairs(const std::map<std::string, std::string>& pairs) {
  std::vector<graft_pair> raw;
  for (const auto& [key, value] : pairs) raw.push_back({key.c_str(), value.c_str()});
  return raw;
}

/// `formats` must outlive the result.
inline std::vector<graft_input_format> raw_formats(const std::vector<InputFormat>& formats) {
  std::vector<graft_input_format> raw;
  raw.reserve(formats.size());
  for (const InputFormat& format : formats) {
    raw.push_back({format.name.c_str(), format.element, format.channels_last ? 1 : 0, format.scale.data(),
                   format.scale.size(), format.offset.data(), format.offset.size()});
  }
  return raw;
}

inline std::vector<graft_chat_message> raw_messages(std::span<const ChatMessage> messages) {
  std::vector<graft_chat_message> raw;
  for (const ChatMessage& message : messages) raw.push_back({message.role.c_str(), message.text.c_str()});
  return raw;
}

inline std::span<const std::byte> bytes_at(const void* data, std::size_t bytes) {
  return {static_cast<const std::byte*>(data), bytes};
}

/// Copies of `count` elements as Item has them.
template <typename Item, typename Raw>
std::vector<Item> items(const Raw* from, std::size_t count) {
  std::vector<Item> all;
  all.reserve(from == nullptr ? 0 : count);
  for (std::size_t i = 0; from != nullptr && i < count; ++i) {
    if constexpr (std::is_same_v<Item, Binding>) {
      all.push_back({from[i].name, from[i].size});
    } else {
      all.emplace_back(from[i]);
    }
  }
  return all;
}

/// The lines of a text.
inline std::vector<std::string> lines(const char* from) {
  std::vector<std::string> all;
  const std::string whole = text(from);
  for (std::size_t at = 0; at < whole.size();) {
    const std::size_t end = std::min(whole.find('\n', at), whole.size());
    all.push_back(whole.substr(at, end - at));
    at = end + 1;
  }
  return all;
}

inline std::string joined(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ",") + name;
  return all;
}

inline std::size_t elements(const TensorInfo& tensor) {
  std::size_t count = 1;
  for (std::uint32_t i = 0; i < tensor.rank; ++i) count *= static_cast<std::size_t>(tensor.dims[i]);
  return count;
}

/// A tensor by read(data, bytes, info), which with data = NULL tells its info alone. T must be its element type.
template <typename T, typename Read>
Result<std::vector<T>> read_tensor(const graft_context* context, Read read) {
  TensorInfo info{};
  Status told = to_status(read(nullptr, 0, &info), context);
  if (!told.ok()) return told;
  std::vector<T> out(elements(info));
  Status done = to_status(read(out.data(), out.size() * sizeof(T), nullptr), context);
  if (!done.ok()) return done;
  return out;
}

}  // namespace detail

}  // namespace v0
}  // namespace graft
