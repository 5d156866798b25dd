// A file of its own, so that an app that does not call it does not link the reference.
#include "graft/devices.h"
#include "runtime/c_api/c_handles.h"
#include "runtime/c_api/c_kernel_report.h"
#include "runtime/self_test/self_test.h"

using namespace graft;
using namespace graft::c_api;

namespace {

RememberedDevice* remembered(graft_context& context) { return static_cast<RememberedDevice*>(context.proof.get()); }

}  // namespace

graft_status graft_context_self_test(graft_context* context, graft_kernel_report report, void* user) {
  return guarded(context, [&]() -> Status {
    if (report == nullptr) return invalid("graft_context_self_test needs a function to tell.");
    GRAFT_TRY_ASSIGN(gpu::Device * device, device_of(*context));
    // A profile of its own, without a folder: what the context remembers is replaced once the test is over.
    const auto profile = DeviceProfile::open(*context->files, "", device->caps(), context->log);
    SelfTest test(*profile, context->log);
    const gpu::Advice before = device->target().advice;
    const Status tested = test.check_all(*device);
    device->set_advice(before);
    GRAFT_TRY(Status(tested));
    if (RememberedDevice* kept = remembered(*context)) {
      kept->profile().adopt_verdicts(*profile);
      kept->profile().save();
      device->set_advice(kept->profile().advice());
    }
    tell(*profile, report, user);
    return ok_status();
  });
}

graft_status graft_context_known_kernels(graft_context* context, graft_kernel_report report, void* user) {
  return guarded(context, [&]() -> Status {
    if (report == nullptr) return invalid("graft_context_known_kernels needs a function to tell.");
    RememberedDevice* const kept = remembered(*context);
    if (kept == nullptr) return invalid("This context has no cache: graft_context_open_cache.");
    tell(kept->profile(), report, user);
    return ok_status();
  });
}
