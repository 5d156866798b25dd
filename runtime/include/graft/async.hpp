// graft/async.h for C++: futures of runs and steps, and progress. Included by graft.hpp.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "graft/async.h"
#include "graft/session.hpp"
#include "graft/trainer.hpp"

namespace graft {
inline namespace v0 {

namespace detail {

/// The future of what `ask(done, user)` begins; `context` has the sentence where it does not begin.
template <typename Ask>
std::future<Status> ask_async(const graft_context* context, Ask ask) {
  auto promise = std::make_unique<std::promise<Status>>();
  std::future<Status> future = promise->get_future();
  const graft_done done = [](void* user, graft_status code, const char* message) {
    const std::unique_ptr<std::promise<Status>> told(static_cast<std::promise<Status>*>(user));
    told->set_value(Status(code, message));
  };
  const graft_status code = ask(done, promise.get());
  if (code == GRAFT_OK) {
    (void)promise.release();  // done's now
  } else {
    promise->set_value(to_status(code, context));
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

}  // namespace v0
}  // namespace graft
