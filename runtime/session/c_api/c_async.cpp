#include "runtime/session/c_api/c_async.h"

using namespace graft;
using namespace graft::c_api;

graft_status graft_session_run_async(graft_session* session, graft_done done, void* user) {
  return ask(session, done, user, [](graft_session& of) { return of.session->run(); });
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
