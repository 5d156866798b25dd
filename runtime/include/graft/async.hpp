// graft/async.h for C++: futures of runs and steps, tasks that can be cancelled, progress. Included by graft.hpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "graft/data.hpp"
#include "graft/generate.hpp"
#include "graft/session.hpp"
#include "graft/task_calls.hpp"
#include "graft/trainer.hpp"

namespace graft {
inline namespace v0 {

namespace detail {

/// Who waits for the end of a call.
struct Promised {
  explicit Promised(const graft_context* of) : context(of) {}
  /// The promise becomes `ended`, or what a function of the app's threw in the call.
  void keep(graft_status code, const char* message) noexcept {
#if defined(__cpp_exceptions)
    try {
      Thrown::rethrow(code, context);
      promise.set_value(Status(code, message));
    } catch (...) {
      promise.set_exception(std::current_exception());
    }
#else
    promise.set_value(Status(code, message));
#endif
  }
  const graft_context* context;
  std::shared_ptr<void> kept = {};  ///< what the call needs until then
  std::promise<Status> promise = {};
};

/// The future of the call that `ask(done, user)` begins. If a function of the app's throws in the call, get() throws
/// it.
template <typename Ask>
std::future<Status> ask_async(const graft_context* context, Ask ask, std::shared_ptr<void> kept = nullptr) {
  auto promised = std::make_unique<Promised>(context);
  promised->kept = std::move(kept);
  std::future<Status> future = promised->promise.get_future();
  const graft_done done = [](void* user, graft_status code, const char* message) {
    const std::unique_ptr<Promised> told(static_cast<Promised*>(user));
    told->keep(code, message);
  };
  const graft_status code = ask(done, promised.get());
  if (code == GRAFT_OK) {
    (void)promised.release();  // done's now
  } else {
    promised->promise.set_value(to_status(code, context));
  }
  return future;
}

}  // namespace detail

/// See graft_session_run_async; the outputs are there when the future is ready.
inline std::future<Status> run_async(Session& session) {
  return detail::ask_async(session.context(), [&](graft_done done, void* user) {
    return graft_session_run_async(session.get(), done, user);
  });
}

/// See graft_train_step_async: the samples and `metrics` stay where they are until the future is ready.
inline std::future<Status> train_step_async(Trainer& trainer, const std::vector<const void*>& inputs,
                                            const void* target, std::uint32_t samples, Metrics& metrics) {
  metrics.struct_size = sizeof metrics;
  return detail::ask_async(trainer.context(), [&](graft_done done, void* user) {
    return graft_train_step_async(trainer.get(), inputs.data(), inputs.size(), target, samples, &metrics, done, user);
  });
}

/// See graft_train_next_async: `more` and `metrics` stay where they are until the future is ready.
inline std::future<Status> train_next_async(Trainer& trainer, Loader& loader, int& more, Metrics& metrics) {
  metrics.struct_size = sizeof metrics;
  return detail::ask_async(trainer.context(), [&](graft_done done, void* user) {
    return graft_train_next_async(trainer.get(), loader.get(), &more, &metrics, done, user);
  });
}

/// One thing at a time that was asked for, to wait for and to cancel alone: see graft_task. Task::create(context) makes
/// it.
class Task : public detail::TaskCalls {
 public:
  using TaskCalls::TaskCalls;
  /// See graft_session_run_async.
  Status run(Session& session) { return status(graft_session_run_async(session.get(), graft_task_done, get())); }
  /// See graft_train_step_async.
  Status train_step(Trainer& trainer, const std::vector<const void*>& inputs, const void* target, std::uint32_t samples,
                    Metrics& metrics) {
    metrics.struct_size = sizeof metrics;
    return status(graft_train_step_async(trainer.get(), inputs.data(), inputs.size(), target, samples, &metrics,
                                         graft_task_done, get()));
  }
  /// See graft_train_next_async.
  Status train_next(Trainer& trainer, Loader& loader, int& more, Metrics& metrics) {
    metrics.struct_size = sizeof metrics;
    return status(graft_train_next_async(trainer.get(), loader.get(), &more, &metrics, graft_task_done, get()));
  }
  /// How the call ended, once it is over; GRAFT_TIMEOUT if it is not over by then. Throws what a function of the app's
  /// threw in the call.
  template <typename Rep, typename Period>
  Status wait(std::chrono::duration<Rep, Period> timeout) {
    return ended(std::chrono::duration<double, std::milli>(timeout).count());
  }
  Status wait() { return ended(-1); }  ///< without a limit

 private:
  Status ended(double timeout_ms) {
    graft_status outcome = GRAFT_OK;
    Status waited = status(graft_task_wait(get(), timeout_ms, &outcome));
    if (!waited.ok()) return waited;
    detail::Thrown::rethrow(outcome, context());
    return Status(outcome, message());
  }
};

/// See graft_generate_async: what the functions of `options` refer to must stay; Generator::last() has the text.
inline std::future<Status> generate_async(Generator& generator, const std::string& prompt,
                                          const GenerateOptions& options) {
  auto raw = std::make_shared<detail::SubmittedTexts::Text>(options);
  return detail::ask_async(
      generator.context(),
      [&](graft_done done, void* user) {
        return graft_generate_async(generator.get(), prompt.c_str(), raw->raw.get(), done, user);
      },
      raw);
}

/// As long as it lives, a function is told how far calls on a context are: see graft_progress. If the function throws,
/// the call ends as by graft_cancel and throws the same.
class Progress {
 public:
  /// false: as graft_cancel.
  using Told = std::function<bool(graft_stage stage, std::uint64_t done, std::uint64_t total)>;

  /// The context outlives it. Not in a callback.
  Progress(graft_context* context, Told told) : context_(context), told_(std::move(told)) {
    (void)graft_set_progress(context_, tell, this);
  }
  ~Progress() { (void)graft_set_progress(context_, nullptr, nullptr); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

 private:
  static void tell(void* user, graft_stage stage, std::uint64_t done, std::uint64_t total) {
    const auto* const progress = static_cast<const Progress*>(user);
    const auto told = [&] { return progress->told_(stage, done, total); };
    if (!detail::Thrown::caught(progress->context_, false, told)) graft_cancel(progress->context_);
  }
  graft_context* context_;
  Told told_;
};

}  // namespace v0
}  // namespace graft
