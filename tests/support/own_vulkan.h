// A Vulkan instance and device of the test's own, beside graft's.
#pragma once

#include <gtest/gtest.h>
#include <vulkan/vulkan_core.h>

#include <optional>
#include <string>
#include <vector>

#include "graft/vulkan.h"
#include "platform/os/dynamic_library.h"
#include "tests/support/c_api.h"
#include "tests/support/gpu_device.h"

namespace graft::test {

inline VKAPI_ATTR VkBool32 VKAPI_CALL on_validation_message(VkDebugUtilsMessageSeverityFlagBitsEXT,
                                                            VkDebugUtilsMessageTypeFlagsEXT type,
                                                            const VkDebugUtilsMessengerCallbackDataEXT* data,
                                                            void* user) {
  if (type != VK_DEBUG_UTILS_MESSAGE_TYPE_GENERAL_BIT_EXT) {
    static_cast<std::vector<std::string>*>(user)->push_back(data->pMessage);
  }
  return VK_FALSE;
}

/// An instance of the test's, under the validation layer where there is one.
class OwnVulkan {
 public:
  OwnVulkan() {
    const std::string name = test_device_options().instance.library;
    auto library = os::DynamicLibrary::open(name.empty() ? "libvulkan.so.1" : name);
    if (!library.ok()) return;
    library_.emplace(std::move(library).value());
    entry = library_->find_as<PFN_vkGetInstanceProcAddr>("vkGetInstanceProcAddr");
    if (entry == nullptr) return;
    const char* const layers[] = {"VK_LAYER_KHRONOS_validation"};
    const char* const extensions[] = {VK_EXT_DEBUG_UTILS_EXTENSION_NAME};
    VkDebugUtilsMessengerCreateInfoEXT messenger{VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT};
    messenger.messageSeverity =
        VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
    messenger.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT;
    messenger.pfnUserCallback = on_validation_message;
    messenger.pUserData = &messages;
    VkApplicationInfo app{VK_STRUCTURE_TYPE_APPLICATION_INFO};
    app.apiVersion = VK_API_VERSION_1_2;
    VkInstanceCreateInfo info{VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
    info.pApplicationInfo = &app;
    info.pNext = &messenger;  // tells of leaks when the instance goes
    info.enabledLayerCount = 1;
    info.ppEnabledLayerNames = layers;
    info.enabledExtensionCount = 1;
    info.ppEnabledExtensionNames = extensions;
    const auto create = reinterpret_cast<PFN_vkCreateInstance>(entry(nullptr, "vkCreateInstance"));
    if (create(&info, nullptr, &instance) != VK_SUCCESS) {
      info.pNext = nullptr;
      info.enabledLayerCount = info.enabledExtensionCount = 0;
      if (create(&info, nullptr, &instance) != VK_SUCCESS) return;
    }
    std::uint32_t count = 1;
    (void)get<PFN_vkEnumeratePhysicalDevices>("vkEnumeratePhysicalDevices")(instance, &count, &physical);
  }
  ~OwnVulkan() {
    if (device != VK_NULL_HANDLE) get<PFN_vkDestroyDevice>("vkDestroyDevice")(device, nullptr);
    if (instance != VK_NULL_HANDLE) get<PFN_vkDestroyInstance>("vkDestroyInstance")(instance, nullptr);
    for (const std::string& message : messages) ADD_FAILURE() << message;
  }
  template <typename Function>
  Function get(const char* name) const {
    return reinterpret_cast<Function>(entry(instance, name));
  }
  void make_device(std::uint32_t family, const std::vector<const char*>& extensions,
                   const VkPhysicalDeviceFeatures2* features) {
    const float priority = 0.5f;
    VkDeviceQueueCreateInfo queues{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
    queues.queueFamilyIndex = family;
    queues.queueCount = 1;
    queues.pQueuePriorities = &priority;
    VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
    info.pNext = features;
    info.queueCreateInfoCount = 1;
    info.pQueueCreateInfos = &queues;
    info.enabledExtensionCount = static_cast<std::uint32_t>(extensions.size());
    info.ppEnabledExtensionNames = extensions.data();
    ASSERT_EQ(get<PFN_vkCreateDevice>("vkCreateDevice")(physical, &info, nullptr, &device), VK_SUCCESS);
    get<PFN_vkGetDeviceQueue>("vkGetDeviceQueue")(device, family, 0, &queue);
  }
  graft_vulkan_device described() const {
    auto out = sized<graft_vulkan_device>();
    out.get_instance_proc_addr = entry;
    out.instance = instance;
    out.api_version = VK_API_VERSION_1_2;
    out.physical_device = physical;
    out.device = device;
    out.queue = queue;
    return out;
  }

  PFN_vkGetInstanceProcAddr entry = nullptr;
  VkInstance instance = VK_NULL_HANDLE;
  VkPhysicalDevice physical = VK_NULL_HANDLE;
  VkDevice device = VK_NULL_HANDLE;
  VkQueue queue = VK_NULL_HANDLE;
  std::vector<std::string> messages;

 private:
  std::optional<os::DynamicLibrary> library_;
};

}  // namespace graft::test
