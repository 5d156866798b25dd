// Opening contexts, by whichever entry point.
#pragma once

#include <functional>

#include "platform/vulkan/vulkan_device.h"
#include "runtime/c_api/c_handles.h"

namespace graft::c_api {

/// graft_context_create(), where `choose` may say more of the device.
graft_status create_context(const graft_context_options* options, graft_context** context,
                            const std::function<Status(vulkan::DeviceOptions&)>& choose);

}  // namespace graft::c_api
