// Calls that a context's own thread makes.
#pragma once

#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "platform/base/exceptions.h"
#include "runtime/c_api/c_handles.h"

namespace graft::c_api {

/// The task that was given to be told; null where somebody else is.
inline graft_task* task_of(graft_done done, void* user) {
  return done == graft_task_done ? static_cast<graft_task*>(user) : nullptr;
}

/// invalid_argument, and `why` as graft_message() of this thread. Takes no lock of the context.
graft_status refuse(graft_context* context, const char* why);
/// Takes something up. invalid_argument where there is no task, it is of another context, or not done with the last.
graft_status take_up(graft_task* task, graft_context* context);
/// It will not come to it.
void give_up(graft_task& task);

/// What a task is given to runs as long as this lives, where graft_task_cancel reaches it.
class Running {
 public:
  explicit Running(graft_task* task);
  ~Running();
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  bool is_cancelled() const { return cancelled_; }  ///< before it ran

 private:
  graft_task* task_;
  bool cancelled_ = false;
};

/// Has `body(handle)`, a Status, run as a call of its own on the context's thread and told to `done`. It does not wait
/// for the call in progress. The handle lives until then, though the app may destroy it.
template <typename Handle, typename Body>
graft_status ask(Handle* handle, graft_done done, void* user, Body body) {
  if (handle == nullptr) return GRAFT_INVALID_ARGUMENT;
  graft_context* const context = handle->context;
  if (done == nullptr) return refuse(context, "A call that does not block needs a function that is told of its end.");
  if (CallScope<graft_context>::is_forked(*context)) return GRAFT_INVALID_ARGUMENT;
  if (CallbackScope::active() || context->owner.load() == std::this_thread::get_id()) {
    return refuse(context, "A callback called graft on the context that called it; nothing was done.");
  }
  graft_task* const task = task_of(done, user);
  if (done == graft_task_done) {
    if (const graft_status begun = take_up(task, context); begun != GRAFT_OK) return begun;
  }
  graft_status asked = GRAFT_OUT_OF_MEMORY;
  or_without_memory(0, [&] {
    // In the order in which they have to go: the last may be the context, with the thread that this runs on.
    auto job = [context = Ref<graft_context>(context), its = Ref<graft_task>(task), of = Ref<Handle>(handle), done,
                user, body = std::optional(std::move(body))]() mutable {
      std::string message;
      const graft_status status = guarded(context, [&]() -> Status {
        const auto run = [&]() -> Status {
          const Running running(its);
          return running.is_cancelled() ? error(Code::cancelled, "It was cancelled before it began.") : (*body)(*of);
        };
        Status result = run();
        message = result.message();
        // Before anybody is told: who then destroys the handle may take up at once what it held, as its checkpoints.
        body.reset();
        of = nullptr;
        return result;
      });
      if (status != GRAFT_OK && message.empty()) message = graft_status_name(status);
      done(user, status, message.c_str());
      const CallScope<graft_context> call(*context);  // after an exception: what goes with the handles is the device's
      body.reset();
      of = nullptr;
    };
    const Status status = context->worker.ask(std::move(job));
    if (!status.ok()) context->messages.own() = status.message();
    asked = static_cast<graft_status>(status.code());
    return 0;
  });
  if (asked != GRAFT_OK && task != nullptr) give_up(*task);
  return asked;
}

}  // namespace graft::c_api
