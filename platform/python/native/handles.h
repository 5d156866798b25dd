// What Python holds of graft's objects: each keeps the one that it was made from, so that they may be collected in any
// order, and every call takes the context's lock, because a context belongs to one thread at a time.
#pragma once

#include <pybind11/pybind11.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "graft/cache.hpp"
#include "graft/graft.hpp"

namespace graft::python {

namespace py = pybind11;

/// Throws the exception of graft._errors that the status stands for.
[[noreturn]] void raise(const Status& status);

/// As long as it lives, Ctrl-C cancels the call in progress on a context, and is told to the interpreter as well. Only
/// one lives at a time.
class Interrupt {
 public:
  /// Whether this is the main thread and Ctrl-C raises KeyboardInterrupt there; with the interpreter's lock.
  static bool is_wanted();
  /// Null: nothing is done. `came`: whether there was a Ctrl-C, once it is destroyed.
  Interrupt(graft_context* context, bool& came);
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

 private:
  graft_context* context_;
  bool& came_;
};

class ContextHandle {
 public:
  ContextHandle() = default;
  ContextHandle(const ContextHandle&) = delete;
  ContextHandle& operator=(const ContextHandle&) = delete;
  ~ContextHandle();

  /// `log` gets (level, message), on threads that call graft: see deliver_log(). None: nothing is logged.
  void open(ContextOptions options, py::object log);
  graft::Context& context() { return *context_; }

  /// Whether this thread is inside a call, in a callback.
  bool busy_here() const { return holder_.load() == std::this_thread::get_id(); }

  /// Runs `work` (returning Status or a Result) without the interpreter's lock and with the context's.
  /// Ctrl-C ends it, where it is the interpreter's own that raises KeyboardInterrupt.
  template <typename Work>
  auto call(Work&& work) {
    if (busy_here()) throw std::runtime_error("A callback must not call graft with the context that calls it.");
    const bool interruptible = Interrupt::is_wanted();
    bool interrupted = false;
    const LogDelivery delivery(*this);
    auto result = [&] {
      py::gil_scoped_release released;
      const std::lock_guard lock(mutex_);
      const Holding holding(*this);
      const Interrupt interrupt(interruptible && context_ ? context_->get() : nullptr, interrupted);
      return work();
    }();
    if (interrupted && PyErr_CheckSignals() != 0) throw py::error_already_set();
    return result;
  }

  /// `told` gets (stage, done, total) on threads that call graft; False ends the call, and what it raises ends the call
  /// and is raised by it. None: nobody is told.
  void set_progress(py::object told);

  /// What graft's own threads may use is there as long as the context is.
  void keep(std::shared_ptr<void> used) { kept_.push_back(std::move(used)); }

  /// Destroys what `destroy` holds: now, or after the call that this thread is in.
  void retire(std::function<void()> destroy);

 private:
  /// As long as it lives, this thread holds the context.
  class Holding {
   public:
    explicit Holding(ContextHandle& of) : of_(of) { of_.holder_ = std::this_thread::get_id(); }
    ~Holding() {
      of_.destroy_retired();
      of_.holder_ = std::thread::id();
    }

   private:
    ContextHandle& of_;
  };
  /// What was logged in a call is delivered when it ends, which has the interpreter's lock.
  class LogDelivery {
   public:
    explicit LogDelivery(ContextHandle& of) : of_(of) {}
    ~LogDelivery() { of_.deliver_log(); }

   private:
    ContextHandle& of_;
  };

  static void take_log(void* user, graft_log_level level, const char* message);
  void deliver_log();
  void destroy_retired();

  std::mutex mutex_;                     // one thread at a time
  std::atomic<std::thread::id> holder_;  // of it
  std::vector<std::function<void()>> retired_;
  std::mutex log_mutex_;
  std::vector<std::pair<int, std::string>> log_lines_;
  std::vector<std::shared_ptr<void>> kept_;
  std::optional<py::object> log_;
  std::optional<py::object> told_;
  std::optional<graft::Context> context_;
  std::unique_ptr<graft::Progress> progress_;
};

/// The value of a Result, or its exception.
template <typename T>
T value_of(Result<T> result) {
  if (!result.ok()) raise(result.status());
  return std::move(result.value());
}
inline void check(const Status& status) {
  if (!status.ok()) raise(status);
}

/// An object of Python that goes with the interpreter's lock, whoever lets go of it.
class Kept {
 public:
  explicit Kept(py::object object) : object_(std::move(object)) {}
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;
  ~Kept() {
    const py::gil_scoped_acquire acquired;
    object_ = py::object();
  }
  const py::object& get() const { return object_; }

 private:
  py::object object_;
};

/// A cipher whose methods seal(associated, plain) and open(associated, sealed) give bytes, or raise.
class PyCipher : public graft::Cipher {
 public:
  PyCipher(std::size_t overhead, py::object cipher) : overhead_(overhead), cipher_(std::move(cipher)) {}
  std::size_t overhead() const override { return overhead_; }
  bool seal(std::span<const std::byte> associated, std::span<const std::byte> plain,
            std::span<std::byte> out) override {
    return turned("seal", associated, plain, out);
  }
  bool open(std::span<const std::byte> associated, std::span<const std::byte> sealed,
            std::span<std::byte> out) override {
    return turned("open", associated, sealed, out);
  }

 private:
  bool turned(const char* method, std::span<const std::byte> associated, std::span<const std::byte> in,
              std::span<std::byte> out);
  std::size_t overhead_;
  Kept cipher_;
};

/// A graft object and what must outlive it.
template <typename Object, typename Parent>
class Owned {
 public:
  Owned(std::shared_ptr<ContextHandle> context, std::shared_ptr<Parent> parent, Object object)
      : context_(std::move(context)),
        parent_(std::move(parent)),
        object_(std::make_shared<Object>(std::move(object))) {}
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    context_->retire([parent = std::move(parent_), object = std::move(object_)]() mutable {
      object.reset();
      parent.reset();
    });
  }

  Object& operator*() { return *object_; }
  Object* operator->() { return object_.get(); }
  const std::shared_ptr<ContextHandle>& context() const { return context_; }
  const std::shared_ptr<Parent>& parent() const { return parent_; }

  /// Calls `work` with the object, under the context's lock; throws what it returns of errors.
  template <typename Work>
  auto ask(Work&& work) {
    const std::shared_ptr<ContextHandle> context = context_;
    return value_of(context->call([&] { return work(*object_); }));
  }
  template <typename Work>
  void tell(Work&& work) {
    const std::shared_ptr<ContextHandle> context = context_;
    check(context->call([&]() -> Status { return work(*object_); }));
  }

 private:
  std::shared_ptr<ContextHandle> context_;
  std::shared_ptr<Parent> parent_;
  std::shared_ptr<Object> object_;
};

using ModelHandle = Owned<graft::Model, ContextHandle>;
using SessionHandle = Owned<graft::Session, ModelHandle>;
using TrainerHandle = Owned<graft::Trainer, ModelHandle>;
using GeneratorHandle = Owned<graft::Generator, ModelHandle>;
using EmbedderHandle = Owned<graft::Embedder, ModelHandle>;
using ImportanceHandle = Owned<graft::Importance, ModelHandle>;
using TokenizerHandle = Owned<graft::Tokenizer, ModelHandle>;
using StoreHandle = Owned<graft::Store, ContextHandle>;

// What each file adds to the module.
void add_options(py::module_& module);
void add_context(py::module_& module);
void add_session(py::module_& module);
void add_trainer(py::module_& module);
void add_generator(py::module_& module);
void add_data(py::module_& module);
void add_delta(py::module_& module);
void add_inspection(py::module_& module);
void add_group(py::module_& module);

}  // namespace graft::python
