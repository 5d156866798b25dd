// What is planned for by the C ABI.
#pragma once

#include "graft/plan.h"
#include "runtime/c_api/c_handles.h"

namespace graft::c_api {

/// The context's device, or the one that the options name, with what they say of products.
Result<gpu::Target> planned_target(const graft_context& context, const graft_plan_options& options);

}  // namespace graft::c_api
