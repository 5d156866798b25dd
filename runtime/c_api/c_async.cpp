#include "runtime/c_api/c_async.h"

#include <algorithm>
#include <chrono>

using namespace graft;
using namespace graft::c_api;

namespace graft::c_api {

graft_status refuse(graft_context* context, const char* why) {
  return or_without_memory(GRAFT_OUT_OF_MEMORY, [&] {
    context->messages.own() = why;
    return GRAFT_INVALID_ARGUMENT;
  });
}

graft_status take_up(graft_task* task, graft_context* context) {
  if (task == nullptr) return refuse(context, "graft_task_done needs the task as its user.");
  if (&*task->context != context) return refuse(context, "The task was made from another context.");
  const std::lock_guard lock(task->mutex);
  using enum graft_task::State;
  if (task->state == waits || task->state == runs) {
    return refuse(context, "The task is not done with the last call that it was given to.");
  }
  task->state = waits;
  task->cancelled = false;
  task->message.clear();
  return GRAFT_OK;
}

void give_up(graft_task& task) {
  const std::lock_guard lock(task.mutex);
  task.state = graft_task::State::idle;
}

Running::Running(graft_task* task) : task_(task) {
  if (task_ == nullptr) return;
  const std::lock_guard lock(task_->mutex);
  cancelled_ = task_->cancelled;
  task_->state = graft_task::State::runs;
}

Running::~Running() {
  if (task_ == nullptr) return;
  const std::lock_guard lock(task_->mutex);
  task_->state = graft_task::State::waits;  // to be told: what cancels would reach another call
}

}  // namespace graft::c_api

graft_status graft_session_run_async(graft_session* session, graft_done done, void* user) {
  return ask(session, done, user, [](graft_session& of) { return of.session->run(); });
}

graft_status graft_task_create(graft_context* context, graft_task** task) {
  if (context == nullptr || task == nullptr) return GRAFT_INVALID_ARGUMENT;
  *task = new (std::nothrow) graft_task();
  if (*task == nullptr) return GRAFT_OUT_OF_MEMORY;
  (*task)->context = context;
  return GRAFT_OK;
}

void graft_task_destroy(graft_task* task) {
  if (task == nullptr) return;
  {
    const std::lock_guard lock(task->mutex);
    if (std::exchange(task->users.destroyed, true)) return;
  }
  release(task);
}

void graft_task_done(void* user, graft_status status, const char* message) {
  auto* const task = static_cast<graft_task*>(user);
  const std::lock_guard lock(task->mutex);
  task->state = graft_task::State::over;
  task->outcome = status;
  task->message = message;
  task->changed.notify_all();  // under the lock: whoever waits may destroy the task
}

graft_status graft_task_wait(graft_task* task, double timeout_ms, graft_status* outcome) {
  if (task == nullptr) return GRAFT_INVALID_ARGUMENT;
  graft_context& context = *task->context;
  if (outcome == nullptr) return refuse(&context, "graft_task_wait needs a place for the outcome.");
  if (timeout_ms != timeout_ms) return refuse(&context, "graft_task_wait was given NaN milliseconds.");
  using enum graft_task::State;
  std::unique_lock lock(task->mutex);
  const auto is_over = [&] { return task->state == over; };
  if (task->state == idle) return refuse(&context, "The task was given to no call, so that there is none to wait for.");
  if (CallScope<graft_context>::is_forked(context)) return GRAFT_INVALID_ARGUMENT;
  const bool never =
      CallbackScope::active() || context.owner.load() == std::this_thread::get_id() || context.worker.is_this_thread();
  if (!is_over() && never) {
    return refuse(&context, "A callback waited for a task that cannot be over before the callback returns.");
  }
  constexpr double kLongest = 1e12;  // 30 years, which a clock can hold
  if (timeout_ms < 0) {
    task->changed.wait(lock, is_over);
  } else if (!task->changed.wait_for(lock, std::chrono::duration<double, std::milli>(std::min(timeout_ms, kLongest)),
                                     is_over)) {
    (void)refuse(&context, "The call that the task was given to is not over yet.");
    return GRAFT_TIMEOUT;
  }
  *outcome = task->outcome;
  return GRAFT_OK;
}

const char* graft_task_message(graft_task* task) {
  if (task == nullptr) return "";
  const std::lock_guard lock(task->mutex);
  return task->state == graft_task::State::over ? task->message.c_str() : "";
}

void graft_task_cancel(graft_task* task) {
  if (task == nullptr) return;
  const std::lock_guard lock(task->mutex);
  task->cancelled = true;
  if (task->state == graft_task::State::runs) task->context->control.cancel_call();
}

graft_status graft_set_progress(graft_context* context, graft_progress progress, void* user) {
  return guarded(context, [&] {
    if (progress == nullptr) {
      context->control.set_progress({});
    } else {
      context->control.set_progress([progress, user](Stage stage, std::uint64_t done, std::uint64_t total) {
        progress(user, static_cast<graft_stage>(stage), done, total);
      });
    }
    return ok_status();
  });
}
