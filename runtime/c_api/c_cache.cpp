// A file of its own, so that an app that does not call it does not link the reference.
#include "graft/cache.h"

#include "runtime/c_api/c_handles.h"
#include "runtime/self_test/self_test.h"

using namespace graft;
using namespace graft::c_api;

graft_status graft_context_open_cache(graft_context* context, const graft_cache_options* given) {
  return guarded(context, [&]() -> Status {
    GRAFT_TRY_ASSIGN(const graft_cache_options options, read_options(given, "graft_cache_options"));
    if (options.folder == nullptr || *options.folder == '\0') return invalid("A cache needs the name of a folder.");
    if (!context->device) GRAFT_TRY(device_of(*context).status());
    if (context->proof) return invalid("This context has a cache already.");
    GRAFT_TRY_ASSIGN(auto remembered, RememberedDevice::open(*context->files, options.folder, *context->device,
                                                             context->log, options.skip_self_test == 0));
    context->proof = std::move(remembered);
    return ok_status();
  });
}
