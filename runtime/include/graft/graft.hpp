// graft's C++ API: owning handles over the C ABI (graft.h), header only, so that one binary library serves every
// compiler. The rules of graft.h hold: one thread per context, tensors row-major in the source model's order.
//
//   auto context = graft::Context::create();
//   if (!context.ok()) return complain(context.status().message());
//   auto model = context->load("digits.graft");
//   ...
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graft/graft.h"

namespace graft {
// The version is part of every symbol's name: the library's own classes have other names.
inline namespace v0 {

/// Success, or a code with one sentence.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(graft_status code, std::string message) : code_(code), message_(std::move(message)) {}
  bool ok() const { return code_ == GRAFT_OK; }
  graft_status code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  graft_status code_ = GRAFT_OK;
  std::string message_;
};

/// A T, or the Status that says why there is none. value(), * and -> require ok().
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT: implicit by design
  Result(Status status) : status_(std::move(status)) {}  // NOLINT
  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() { return *value_; }
  T& operator*() { return *value_; }
  T* operator->() { return &*value_; }

 private:
  Status status_;
  std::optional<T> value_;
};

using TensorInfo = graft_tensor_info;
using Memory = graft_memory;
using Metrics = graft_metrics;
using TrainerOptions = graft_trainer_options;

namespace detail {

template <typename T, void (*Destroy)(T*)>
struct Deleter {
  void operator()(T* handle) const { Destroy(handle); }
};
template <typename T, void (*Destroy)(T*)>
using Handle = std::unique_ptr<T, Deleter<T, Destroy>>;

inline Status to_status(graft_status code, const graft_context* context) {
  return code == GRAFT_OK ? Status() : Status(code, graft_message(context));
}

template <typename Info>
Info sized() {
  Info info{};
  info.struct_size = sizeof info;
  return info;
}

}  // namespace detail

struct Binding {
  std::string name;
  std::int64_t size = 0;
};

struct SessionOptions {
  std::vector<Binding> bindings;  ///< every named dimension of the inputs
  std::uint64_t budget = 0;       ///< bytes of device memory; 0: no limit
  std::string of;                 ///< differentiate this value; empty: forward only
  std::vector<std::string> wrt;   ///< with respect to these
};

/// A model planned and recorded for one set of sizes.
class Session {
 public:
  /// Copies; the bytes stay from run to run.
  template <typename T>
  Status set_input(const std::string& name, std::span<const T> data) {
    return status(graft_session_set_input(handle_.get(), name.c_str(), data.data(), data.size_bytes()));
  }
  Status run() { return status(graft_session_run(handle_.get())); }

  /// Valid until the next run. T must be the output's element type (float or int32_t).
  template <typename T>
  Result<std::span<const T>> output(const std::string& name) {
    const void* data = nullptr;
    std::size_t bytes = 0;
    Status got = status(graft_session_output(handle_.get(), name.c_str(), &data, &bytes, nullptr));
    if (!got.ok()) return got;
    return std::span<const T>(static_cast<const T*>(data), bytes / sizeof(T));
  }
  /// The gradient with respect to one of SessionOptions::wrt.
  Result<std::span<const float>> gradient(const std::string& name) { return output<float>("grad:" + name); }

  Result<Memory> memory() const {
    Memory memory = detail::sized<Memory>();
    Status got = status(graft_session_memory(handle_.get(), &memory));
    if (!got.ok()) return got;
    return memory;
  }

 private:
  friend class Model;
  Session(graft_session* handle, graft_context* context) : handle_(handle), context_(context) {}
  Status status(graft_status code) const { return detail::to_status(code, context_); }
  detail::Handle<graft_session, graft_session_destroy> handle_;
  graft_context* context_;
};

/// Trains a model; one call, one optimizer step.
class Trainer {
 public:
  /// `inputs`: the model's inputs in order, each `samples` times its size per sample; `target`: int32 labels for cross
  /// entropy, else float values.
  Result<Metrics> train_step(const std::vector<const void*>& inputs, const void* target, std::uint32_t samples) {
    Metrics metrics = detail::sized<Metrics>();
    Status got = status(graft_train_step(handle_.get(), inputs.data(), inputs.size(), target, samples, &metrics));
    if (!got.ok()) return got;
    return metrics;
  }
  Result<Metrics> evaluate(const std::vector<const void*>& inputs, const void* target, std::uint32_t samples) {
    Metrics metrics = detail::sized<Metrics>();
    Status got = status(graft_evaluate(handle_.get(), inputs.data(), inputs.size(), target, samples, &metrics));
    if (!got.ok()) return got;
    return metrics;
  }
  Result<Memory> memory() const {
    Memory memory = detail::sized<Memory>();
    Status got = status(graft_trainer_memory(handle_.get(), &memory));
    if (!got.ok()) return got;
    return memory;
  }
  /// Copies the trained parameters into the model.
  Status store() { return status(graft_trainer_store(handle_.get())); }

 private:
  friend class Model;
  Trainer(graft_trainer* handle, graft_context* context) : handle_(handle), context_(context) {}
  Status status(graft_status code) const { return detail::to_status(code, context_); }
  detail::Handle<graft_trainer, graft_trainer_destroy> handle_;
  graft_context* context_;
};

/// A loaded model. Must outlive its sessions and trainers.
class Model {
 public:
  std::vector<TensorInfo> inputs() const { return tensors(GRAFT_INPUTS); }
  std::vector<TensorInfo> outputs() const { return tensors(GRAFT_OUTPUTS); }
  /// Keyed by fully qualified name (TensorInfo::name), in the file's order.
  std::vector<TensorInfo> named_parameters() const { return tensors(GRAFT_PARAMETERS); }
  Status save(const std::string& path) { return status(graft_model_save(handle_.get(), path.c_str())); }

  Result<Session> session(const SessionOptions& options = {}) {
    std::vector<graft_binding> bindings;
    for (const Binding& binding : options.bindings) bindings.push_back({binding.name.c_str(), binding.size});
    std::vector<const char*> wrt;
    for (const std::string& name : options.wrt) wrt.push_back(name.c_str());
    auto raw = detail::sized<graft_session_options>();
    raw.bindings = bindings.data();
    raw.binding_count = bindings.size();
    raw.budget = options.budget;
    raw.of = options.of.empty() ? nullptr : options.of.c_str();
    raw.wrt = wrt.data();
    raw.wrt_count = wrt.size();
    graft_session* session = nullptr;
    Status made = status(graft_session_create(handle_.get(), &raw, &session));
    if (!made.ok()) return made;
    return Session(session, context_);
  }

  /// struct_size is filled in.
  Result<Trainer> trainer(TrainerOptions options = {}) {
    options.struct_size = sizeof options;
    graft_trainer* trainer = nullptr;
    Status made = status(graft_trainer_create(handle_.get(), &options, &trainer));
    if (!made.ok()) return made;
    return Trainer(trainer, context_);
  }

 private:
  friend class Context;
  Model(graft_model* handle, graft_context* context) : handle_(handle), context_(context) {}
  Status status(graft_status code) const { return detail::to_status(code, context_); }
  std::vector<TensorInfo> tensors(graft_tensor_kind kind) const {
    std::vector<TensorInfo> list(graft_model_count(handle_.get(), kind));
    for (std::size_t i = 0; i < list.size(); ++i) (void)graft_model_tensor(handle_.get(), kind, i, &list[i]);
    return list;
  }
  detail::Handle<graft_model, graft_model_destroy> handle_;
  graft_context* context_;
};

/// A device. Must outlive everything made from it.
class Context {
 public:
  /// struct_size is filled in.
  static Result<Context> create(graft_context_options options = {}) {
    options.struct_size = sizeof options;
    graft_context* handle = nullptr;
    const graft_status code = graft_context_create(&options, &handle);
    Context context(handle);
    if (code != GRAFT_OK) return detail::to_status(code, handle);
    return context;
  }
  std::string device_name() const { return graft_device_name(handle_.get()); }
  Result<Model> load(const std::string& path) {
    graft_model* model = nullptr;
    Status loaded = detail::to_status(graft_model_load(handle_.get(), path.c_str(), &model), handle_.get());
    if (!loaded.ok()) return loaded;
    return Model(model, handle_.get());
  }

 private:
  explicit Context(graft_context* handle) : handle_(handle) {}
  detail::Handle<graft_context, graft_context_destroy> handle_;
};

}  // namespace v0
}  // namespace graft
