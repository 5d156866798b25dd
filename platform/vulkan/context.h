// What everything made from one device shares. Internal to platform/vulkan.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "platform/vulkan/api.h"
#include "platform/vulkan/instance.h"

namespace graft::vulkan {

struct Context {
  std::unique_ptr<Instance> instance;
  PhysicalDevice physical;
  DeviceFunctions fn;
  VkDevice device = VK_NULL_HANDLE;
  VkQueue queue = VK_NULL_HANDLE;
  CallFaults* faults = nullptr;
  LogSink log;
  std::uint32_t compile_threads = 1;
  bool hides_memory = false;         ///< of the device from the host (DeviceOptions::assume_discrete)
  bool capture = false;              ///< pipelines are made so that the driver can tell of them
  std::optional<GivenDevice> given;  ///< whose objects these are
  bool lost = false;                 ///< once true, stays true
  bool stuck = false;                ///< work never came back: what it may use is leaked, not freed

  const gpu::Target& target() const { return physical.target; }
  const gpu::Caps& caps() const { return physical.target.caps; }

  /// call_error that also remembers a lost device.
  Status failed(VkResult result, const char* call, const std::string& doing) {
    if (result == VK_ERROR_DEVICE_LOST) lost = true;
    return call_error(result, call, doing);
  }

  /// Names an object for profilers and validation messages.
  template <typename Handle>
  void set_name(VkObjectType type, Handle handle, std::string_view name) {
    if (fn.SetDebugUtilsObjectNameEXT == nullptr || name.empty()) return;
    const std::string text(name);
    VkDebugUtilsObjectNameInfoEXT info{VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_NAME_INFO_EXT};
    info.objectType = type;
    info.objectHandle = reinterpret_cast<std::uint64_t>(handle);
    info.pObjectName = text.c_str();
    (void)fn.SetDebugUtilsObjectNameEXT(device, &info);  // a missing name harms nobody
  }
};

}  // namespace graft::vulkan

/// A fallible device-level call through the fault hook.
#define GRAFT_VK_DEVICE_CALL(context, name, ...) \
  GRAFT_VK_CALL((context).faults, (context).fn, name, (context).device, __VA_ARGS__)
