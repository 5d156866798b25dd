// Vulkan without linking to it: tables of function pointers, filled at run time.
#pragma once

#include "platform/base/status.h"
#include "platform/os/dynamic_library.h"
#include "platform/vulkan/newer.h"
#include "platform/vulkan/vulkan_device.h"

namespace graft::vulkan {

#define GRAFT_VK_GLOBAL_FUNCTIONS(X)      \
  X(CreateInstance)                       \
  X(EnumerateInstanceExtensionProperties) \
  X(EnumerateInstanceLayerProperties)

#define GRAFT_VK_INSTANCE_FUNCTIONS(X)      \
  X(DestroyInstance)                        \
  X(EnumeratePhysicalDevices)               \
  X(EnumerateDeviceExtensionProperties)     \
  X(GetPhysicalDeviceProperties)            \
  X(GetPhysicalDeviceProperties2)           \
  X(GetPhysicalDeviceFeatures2)             \
  X(GetPhysicalDeviceMemoryProperties)      \
  X(GetPhysicalDeviceMemoryProperties2)     \
  X(GetPhysicalDeviceQueueFamilyProperties) \
  X(CreateDevice)                           \
  X(GetDeviceProcAddr)

// Null where the extension is missing.
#define GRAFT_VK_INSTANCE_OPTIONAL_FUNCTIONS(X) \
  X(CreateDebugUtilsMessengerEXT)               \
  X(DestroyDebugUtilsMessengerEXT)

// Functions of extensions that older headers do not declare (platform/vulkan/newer.h).
#define GRAFT_VK_NEWER_INSTANCE_FUNCTIONS(X)         \
  X(GetPhysicalDeviceCooperativeMatrixPropertiesKHR) \
  X(GetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV)

#define GRAFT_VK_DEVICE_FUNCTIONS(X) \
  X(AllocateCommandBuffers)          \
  X(AllocateDescriptorSets)          \
  X(AllocateMemory)                  \
  X(BeginCommandBuffer)              \
  X(BindBufferMemory)                \
  X(CmdBindDescriptorSets)           \
  X(CmdBindPipeline)                 \
  X(CmdCopyBuffer)                   \
  X(CmdDispatch)                     \
  X(CmdDispatchBase)                 \
  X(CmdFillBuffer)                   \
  X(CmdPipelineBarrier)              \
  X(CmdPushConstants)                \
  X(CmdResetQueryPool)               \
  X(CmdWriteTimestamp)               \
  X(CreateBuffer)                    \
  X(CreateBufferView)                \
  X(CreateCommandPool)               \
  X(CreateComputePipelines)          \
  X(CreateDescriptorPool)            \
  X(CreateDescriptorSetLayout)       \
  X(CreateFence)                     \
  X(CreatePipelineCache)             \
  X(CreatePipelineLayout)            \
  X(CreateQueryPool)                 \
  X(CreateSemaphore)                 \
  X(CreateShaderModule)              \
  X(DestroyBuffer)                   \
  X(DestroyBufferView)               \
  X(DestroyCommandPool)              \
  X(DestroyDescriptorPool)           \
  X(DestroyDescriptorSetLayout)      \
  X(DestroyDevice)                   \
  X(DestroyFence)                    \
  X(DestroyPipeline)                 \
  X(DestroyPipelineCache)            \
  X(DestroyPipelineLayout)           \
  X(DestroyQueryPool)                \
  X(DestroySemaphore)                \
  X(DestroyShaderModule)             \
  X(EndCommandBuffer)                \
  X(FlushMappedMemoryRanges)         \
  X(FreeMemory)                      \
  X(GetBufferMemoryRequirements)     \
  X(GetDeviceQueue)                  \
  X(GetPipelineCacheData)            \
  X(GetQueryPoolResults)             \
  X(InvalidateMappedMemoryRanges)    \
  X(MapMemory)                       \
  X(QueueSubmit)                     \
  X(ResetFences)                     \
  X(UpdateDescriptorSets)            \
  X(WaitForFences)

#define GRAFT_VK_DEVICE_OPTIONAL_FUNCTIONS(X)        \
  X(CmdBeginDebugUtilsLabelEXT)                      \
  X(CmdEndDebugUtilsLabelEXT)                        \
  X(GetAndroidHardwareBufferPropertiesANDROID)       \
  X(SetDebugUtilsObjectNameEXT)                      \
  X(GetMemoryFdPropertiesKHR)                        \
  X(GetMemoryHostPointerPropertiesEXT)               \
  X(GetPipelineExecutableInternalRepresentationsKHR) \
  X(GetPipelineExecutablePropertiesKHR)              \
  X(GetPipelineExecutableStatisticsKHR)              \
  X(GetSemaphoreCounterValueKHR)                     \
  X(WaitSemaphoresKHR)

#define GRAFT_VK_MEMBER(name) PFN_vk##name name = nullptr;

struct GlobalFunctions {
  PFN_vkGetInstanceProcAddr GetInstanceProcAddr = nullptr;
  GRAFT_VK_GLOBAL_FUNCTIONS(GRAFT_VK_MEMBER)
  PFN_vkEnumerateInstanceVersion EnumerateInstanceVersion = nullptr;  ///< null on Vulkan 1.0
};
struct InstanceFunctions {
  GRAFT_VK_INSTANCE_FUNCTIONS(GRAFT_VK_MEMBER)
  GRAFT_VK_INSTANCE_OPTIONAL_FUNCTIONS(GRAFT_VK_MEMBER)
  GRAFT_VK_NEWER_INSTANCE_FUNCTIONS(GRAFT_VK_MEMBER)
};
struct DeviceFunctions {
  GRAFT_VK_DEVICE_FUNCTIONS(GRAFT_VK_MEMBER)
  GRAFT_VK_DEVICE_OPTIONAL_FUNCTIONS(GRAFT_VK_MEMBER)
};

#undef GRAFT_VK_MEMBER

/// The loaded library and its global functions.
struct Api {
  os::DynamicLibrary library;
  GlobalFunctions fn;
};

/// `linked`: vkGetInstanceProcAddr where nothing is to be loaded, else null.
Result<Api> load_api(const std::string& library, PFN_vkGetInstanceProcAddr linked);
Result<InstanceFunctions> load_instance_functions(const GlobalFunctions& global, VkInstance instance);
Result<DeviceFunctions> load_device_functions(const InstanceFunctions& fns, VkDevice device);

/// "VK_ERROR_DEVICE_LOST".
const char* result_name(VkResult result);

/// A Status for a failed call: device_lost, out_of_memory or device_error, as in
/// "Creating buffer "x" of 4.00 MiB failed: vkCreateBuffer returned VK_ERROR_OUT_OF_DEVICE_MEMORY.".
Status call_error(VkResult result, const char* call, const std::string& doing);

/// Adds the time until it goes to `times`, if there are any.
class CallTimer {
 public:
  explicit CallTimer(CallTimes* times);
  ~CallTimer();
  CallTimer(const CallTimer&) = delete;
  CallTimer& operator=(const CallTimer&) = delete;

 private:
  CallTimes* times_;
  CallTimes start_;
};

/// Every call that can fail goes through here, so that tests can make call k fail.
template <typename Function, typename... Args>
VkResult call(CallFaults* faults, const char* name, Function function, Args... args) {
  if (faults != nullptr && ++faults->calls == faults->fail_call) {
    faults->failed = name;
    return static_cast<VkResult>(faults->result);
  }
  const CallTimer timer(faults == nullptr ? nullptr : faults->times);
  return function(args...);
}

}  // namespace graft::vulkan

/// Calls fns.name(...) through the fault hook: GRAFT_VK_CALL(faults, fns, CreateBuffer, device, &info, nullptr,
/// &buffer).
#define GRAFT_VK_CALL(faults, fns, name, ...) ::graft::vulkan::call(faults, "vk" #name, (fns).name, __VA_ARGS__)
