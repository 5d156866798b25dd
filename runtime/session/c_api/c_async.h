// Calls that a context's own thread makes.
#pragma once

#include <string>
#include <utility>

#include "runtime/session/c_api/c_handles.h"

namespace graft::c_api {

/// Has `body(handle)`, a Status, run as a call of its own on the context's thread and told to `done`. It does not wait
/// for the call in progress, so it leaves no message. The handle lives until then, though the app may destroy it.
template <typename Handle, typename Body>
graft_status ask(Handle* handle, graft_done done, void* user, Body body) {
  if (handle == nullptr || done == nullptr) return GRAFT_INVALID_ARGUMENT;
  graft_context* const context = handle->context;
  const bool in_callback = CallbackScope::active() || context->owner.load() == std::this_thread::get_id();
  if (in_callback) return GRAFT_INVALID_ARGUMENT;
  try {
    // In the order in which they have to go: the last may be the context, with the thread that this runs on.
    auto job = [context = Ref<graft_context>(context), of = Ref<Handle>(handle), done, user,
                body = std::move(body)]() mutable {
      std::string message;
      const graft_status status = guarded(context, [&] {
        Status result = body(*of);
        message = result.message();
        return result;
      });
      if (status != GRAFT_OK && message.empty()) message = graft_status_name(status);
      done(user, status, message.c_str());
      const CallScope<graft_context> call(*context);  // what goes with the handle is the device's
      of = nullptr;
    };
    return static_cast<graft_status>(context->worker.ask(std::move(job)).code());
  } catch (const std::bad_alloc&) {
    return GRAFT_OUT_OF_MEMORY;
  }
}

}  // namespace graft::c_api
