#include "platform/python/native/handles.h"

#include <csignal>
#include <cstring>

namespace graft::python {
namespace {

// Of the Interrupt that lives; read in the signal's handler.
std::atomic<graft_context*> g_interruptible = nullptr;
std::atomic<bool> g_interrupted = false;
void (*g_handler_before)(int) = SIG_DFL;

void on_interrupt(int signal) {
  if (graft_context* const context = g_interruptible.load()) {
    g_interrupted = true;
    graft_cancel(context);
  }
  if (g_handler_before != SIG_DFL && g_handler_before != SIG_IGN) g_handler_before(signal);
}

}  // namespace

bool Interrupt::is_wanted() {
  static const unsigned long main_thread =
      py::module_::import("threading").attr("main_thread")().attr("ident").cast<unsigned long>();
  if (PyThread_get_thread_ident() != main_thread) return false;
  // Modules that are imported stay: these are never freed.
  static const auto* const signals = new py::module_(py::module_::import("signal"));
  static const auto* const raises = new py::object(signals->attr("default_int_handler"));
  return signals->attr("getsignal")(SIGINT).is(*raises);
}

Interrupt::Interrupt(graft_context* context, bool& came) : context_(context), came_(came) {
  if (context_ == nullptr) return;
  g_interrupted = false;
  g_interruptible = context_;
  g_handler_before = PyOS_setsig(SIGINT, on_interrupt);
}

Interrupt::~Interrupt() {
  if (context_ == nullptr) return;
  // A callback may have set another handler, which stays.
  if (PyOS_getsig(SIGINT) == on_interrupt) PyOS_setsig(SIGINT, g_handler_before);
  g_interruptible = nullptr;
  came_ = g_interrupted;
  if (came_) (void)graft_uncancel(context_);
}

void raise(const Status& status) {
  const py::object made =
      py::module_::import("graft._errors").attr("error_of")(static_cast<int>(status.code()), status.message());
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
  throw py::error_already_set();
}

ContextHandle::~ContextHandle() {
  // graft's own threads may end here; none of them waits for the interpreter.
  py::gil_scoped_release released;
  progress_.reset();
  context_.reset();
}

void ContextHandle::set_progress(py::object told) {
  check(call([&] {
    progress_.reset();
    return Status();
  }));
  told_ = std::move(told);
  if (told_->is_none()) return;
  check(call([&] {
    progress_ = std::make_unique<graft::Progress>(
        context_->get(), [this](graft_stage stage, std::uint64_t done, std::uint64_t total) {
          const py::gil_scoped_acquire acquired;
          if (PyErr_CheckSignals() != 0) throw py::error_already_set();
          return !(*told_)(static_cast<int>(stage), done, total).is(py::bool_(false));
        });
    return Status();
  }));
}

bool PyCipher::turned(const char* method, std::span<const std::byte> associated, std::span<const std::byte> in,
                      std::span<std::byte> out) {
  const py::gil_scoped_acquire acquired;
  const auto bytes = [](std::span<const std::byte> from) {
    return py::bytes(reinterpret_cast<const char*>(from.data()), from.size());
  };
  try {
    const auto made = cipher_.get().attr(method)(bytes(associated), bytes(in)).cast<py::bytes>();
    const std::string_view turned = made;
    if (turned.size() != out.size()) return false;
    std::memcpy(out.data(), turned.data(), turned.size());
    return true;
  } catch (py::error_already_set& error) {
    error.discard_as_unraisable("a checkpoint's cipher");
    return false;
  }
}

void ContextHandle::open(ContextOptions options, py::object log) {
  if (!log.is_none()) {
    log_ = std::move(log);
    options.log = take_log;
    options.log_user = this;
  }
  auto made = call([&] { return graft::Context::create(options); });
  context_.emplace(value_of(std::move(made)));
}

void ContextHandle::retire(std::function<void()> destroy) {
  if (busy_here()) {
    retired_.push_back(std::move(destroy));
    return;
  }
  py::gil_scoped_release released;
  const std::lock_guard lock(mutex_);
  const Holding holding(*this);
  destroy();
}

void ContextHandle::destroy_retired() {
  // What goes may let go of what it was made from, which then stands here as well.
  while (!retired_.empty()) {
    const auto destroy = std::move(retired_.back());
    retired_.pop_back();
    destroy();
  }
}

// Any thread, with or without the interpreter's lock: the line waits for a thread that has it.
void ContextHandle::take_log(void* user, graft_log_level level, const char* message) {
  auto& self = *static_cast<ContextHandle*>(user);
  const std::lock_guard lock(self.log_mutex_);
  self.log_lines_.emplace_back(level, message);
}

void ContextHandle::deliver_log() {
  std::vector<std::pair<int, std::string>> lines;
  {
    const std::lock_guard lock(log_mutex_);
    lines.swap(log_lines_);
  }
  for (const auto& [level, message] : lines) {
    try {
      (*log_)(level, message);
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable("graft's log");
    }
  }
}

}  // namespace graft::python
