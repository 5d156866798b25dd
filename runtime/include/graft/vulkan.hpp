// graft/vulkan.h for C++: a context on the caller's own VkDevice.
#pragma once

#include "graft/graft.hpp"
#include "graft/vulkan.h"

namespace graft {
inline namespace v0 {

/// See graft_context_create_vulkan; struct_size need not be set. The device outlives the context and all made from it.
inline Result<Context> create_context(graft_vulkan_device device, const ContextOptions& options = {}) {
  device.struct_size = sizeof device;
  return Context::create(options, [&](const graft_context_options* raw, graft_context** context) {
    return graft_context_create_vulkan(raw, &device, context);
  });
}

/// What to enable on a physical device for graft's fastest kernels: see graft_vulkan_wanted.
using VulkanWanted = std::unique_ptr<const graft_vulkan_wanted_device, decltype(&graft_vulkan_wanted_destroy)>;
inline Result<VulkanWanted> vulkan_wanted(graft_vulkan_device device) {
  device.struct_size = sizeof device;
  const graft_vulkan_wanted_device* wanted = nullptr;
  const graft_status code = graft_vulkan_wanted(&device, &wanted);
  if (code != GRAFT_OK) return Status(code, graft_status_name(code));
  return VulkanWanted(wanted, graft_vulkan_wanted_destroy);
}

}  // namespace v0
}  // namespace graft
