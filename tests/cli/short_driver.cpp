// A Vulkan library that passes everything on to the system's loader, but whose device runs short of memory or does
// nothing when the environment says so: for `graft --vulkan-library`.
//
// GRAFT_TEST_REFUSE_AFTER=FILE      the first submission once that file is not empty fails for lack of device memory;
//                                   not the one with which a device is opened, whose failure ends that
// GRAFT_TEST_ALLOW=PERCENT:FILE     from the first submission on once that file is not empty the driver allows so much
// of
//                                   what is held at that moment (VK_EXT_memory_budget); the device is one with memory
//                                   of its own, so that this is believed
// GRAFT_TEST_NO_HARDWARE=1          submissions succeed, but nothing of them runs, as with drivers made to compile
#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "platform/vulkan/newer.h"

namespace {

constexpr char kBudget[] = VK_EXT_MEMORY_BUDGET_EXTENSION_NAME;

struct State {
  PFN_vkGetInstanceProcAddr next = nullptr;
  VkInstance instance = VK_NULL_HANDLE;
  PFN_vkGetDeviceProcAddr next_of_device = nullptr;
  VkDevice device = VK_NULL_HANDLE;
  bool submitted = false;
  const char* refuse_after = nullptr;  ///< null also once it has been
  unsigned long allow_percent = 0;
  const char* allow_after = nullptr;  ///< null: no budgets are told
  bool short_now = false;
  std::array<std::uint32_t, VK_MAX_MEMORY_TYPES> heap_of{};    ///< by type of memory
  std::array<std::uint64_t, VK_MAX_MEMORY_HEAPS> held{};       ///< by heap
  std::array<std::uint64_t, VK_MAX_MEMORY_HEAPS> held_then{};  ///< the same when short_now began
  struct Allocation {
    std::uint32_t heap = 0;
    std::uint64_t bytes = 0;
  };
  std::map<VkDeviceMemory, Allocation> allocations;

  State() {
    void* library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    next = reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(library, "vkGetInstanceProcAddr"));
    refuse_after = std::getenv("GRAFT_TEST_REFUSE_AFTER");
    const char* const allow = std::getenv("GRAFT_TEST_ALLOW");
    const char* const colon = allow == nullptr ? nullptr : std::strchr(allow, ':');
    if (colon == nullptr) return;
    allow_percent = std::strtoul(allow, nullptr, 10);
    allow_after = colon + 1;
  }
  bool budgets() const { return allow_after != nullptr; }
};

// One device, one thread: as `graft train` uses it. Gone with the library, which the loader unloads.
State& state() {
  static State s;
  return s;
}

bool holds_something(const char* path) {
  std::FILE* file = std::fopen(path, "rb");
  if (file == nullptr) return false;
  const bool something = std::fgetc(file) != EOF;
  std::fclose(file);
  return something;
}

template <typename Function>
Function of_instance(const char* name) {
  return reinterpret_cast<Function>(state().next(state().instance, name));
}

template <typename Function>
Function of_device(const char* name) {
  return reinterpret_cast<Function>(state().next_of_device(state().device, name));
}

VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo* info, const VkAllocationCallbacks* callbacks,
                                               VkInstance* instance) {
  const VkResult result = of_instance<PFN_vkCreateInstance>("vkCreateInstance")(info, callbacks, instance);
  if (result == VK_SUCCESS) state().instance = *instance;
  return result;
}

VKAPI_ATTR VkResult VKAPI_CALL list_extensions(VkPhysicalDevice physical, const char* layer, std::uint32_t* count,
                                               VkExtensionProperties* properties) {
  const auto next = of_instance<PFN_vkEnumerateDeviceExtensionProperties>("vkEnumerateDeviceExtensionProperties");
  if (!state().budgets() || layer != nullptr) return next(physical, layer, count, properties);
  std::uint32_t all = 0;
  VkResult result = next(physical, nullptr, &all, nullptr);
  if (result != VK_SUCCESS) return result;
  std::vector<VkExtensionProperties> list(all);
  result = next(physical, nullptr, &all, list.data());
  if (result != VK_SUCCESS) return result;
  VkExtensionProperties budget{};
  std::memcpy(budget.extensionName, kBudget, sizeof kBudget);
  list.push_back(budget);
  if (properties != nullptr) {
    if (*count < list.size()) return VK_INCOMPLETE;
    std::memcpy(properties, list.data(), list.size() * sizeof(VkExtensionProperties));
  }
  *count = static_cast<std::uint32_t>(list.size());
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL get_properties(VkPhysicalDevice physical, VkPhysicalDeviceProperties2* properties) {
  of_instance<PFN_vkGetPhysicalDeviceProperties2>("vkGetPhysicalDeviceProperties2")(physical, properties);
  if (state().budgets()) properties->properties.deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
}

VKAPI_ATTR void VKAPI_CALL get_old_properties(VkPhysicalDevice physical, VkPhysicalDeviceProperties* properties) {
  of_instance<PFN_vkGetPhysicalDeviceProperties>("vkGetPhysicalDeviceProperties")(physical, properties);
  if (state().budgets()) properties->deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
}

VKAPI_ATTR void VKAPI_CALL get_memory(VkPhysicalDevice physical, VkPhysicalDeviceMemoryProperties2* properties) {
  of_instance<PFN_vkGetPhysicalDeviceMemoryProperties2>("vkGetPhysicalDeviceMemoryProperties2")(physical, properties);
  const State& s = state();
  if (!s.budgets()) return;
  for (auto* next = static_cast<VkBaseOutStructure*>(properties->pNext); next != nullptr; next = next->pNext) {
    if (next->sType != VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT) continue;
    auto* budget = reinterpret_cast<VkPhysicalDeviceMemoryBudgetPropertiesEXT*>(next);
    for (std::uint32_t i = 0; i < properties->memoryProperties.memoryHeapCount; ++i) {
      budget->heapBudget[i] =
          s.short_now ? s.held_then[i] / 100 * s.allow_percent : properties->memoryProperties.memoryHeaps[i].size;
      budget->heapUsage[i] = s.held[i];
    }
  }
}

VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo* info,
                                             const VkAllocationCallbacks* callbacks, VkDevice* device) {
  VkDeviceCreateInfo known = *info;
  std::vector<const char*> extensions;
  for (std::uint32_t i = 0; i < info->enabledExtensionCount; ++i) {
    const char* name = info->ppEnabledExtensionNames[i];
    if (!state().budgets() || std::strcmp(name, kBudget) != 0) extensions.push_back(name);
  }
  known.enabledExtensionCount = static_cast<std::uint32_t>(extensions.size());
  known.ppEnabledExtensionNames = extensions.data();
  const VkResult result = of_instance<PFN_vkCreateDevice>("vkCreateDevice")(physical, &known, callbacks, device);
  if (result == VK_SUCCESS) state().device = *device;
  VkPhysicalDeviceMemoryProperties memory;
  of_instance<PFN_vkGetPhysicalDeviceMemoryProperties>("vkGetPhysicalDeviceMemoryProperties")(physical, &memory);
  for (std::uint32_t i = 0; i < memory.memoryTypeCount; ++i) state().heap_of[i] = memory.memoryTypes[i].heapIndex;
  return result;
}

VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue queue, std::uint32_t count, const VkSubmitInfo* infos, VkFence fence) {
  if (state().budgets() && !state().short_now && holds_something(state().allow_after)) {
    state().short_now = true;
    state().held_then = state().held;
  }
  if (std::exchange(state().submitted, true) && state().refuse_after != nullptr &&
      holds_something(state().refuse_after)) {
    state().refuse_after = nullptr;
    return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  }
  std::vector<VkSubmitInfo> work(infos, infos + count);
  if (std::getenv("GRAFT_TEST_NO_HARDWARE") != nullptr) {
    for (VkSubmitInfo& it : work) it.commandBufferCount = 0;
  }
  return of_device<PFN_vkQueueSubmit>("vkQueueSubmit")(queue, count, work.data(), fence);
}

VKAPI_ATTR VkResult VKAPI_CALL allocate(VkDevice device, const VkMemoryAllocateInfo* info,
                                        const VkAllocationCallbacks* callbacks, VkDeviceMemory* memory) {
  const VkResult result = of_device<PFN_vkAllocateMemory>("vkAllocateMemory")(device, info, callbacks, memory);
  if (result != VK_SUCCESS) return result;
  const std::uint32_t heap = state().heap_of[info->memoryTypeIndex];
  state().allocations[*memory] = {heap, info->allocationSize};
  state().held[heap] += info->allocationSize;
  return result;
}

VKAPI_ATTR void VKAPI_CALL free_memory(VkDevice device, VkDeviceMemory memory, const VkAllocationCallbacks* callbacks) {
  if (const auto it = state().allocations.find(memory); it != state().allocations.end()) {
    state().held[it->second.heap] -= it->second.bytes;
    state().allocations.erase(it);
  }
  of_device<PFN_vkFreeMemory>("vkFreeMemory")(device, memory, callbacks);
}

struct Replaced {
  const char* name;
  PFN_vkVoidFunction function;
};

template <typename Function>
PFN_vkVoidFunction plain(Function function) {
  return reinterpret_cast<PFN_vkVoidFunction>(function);
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL find_of_device(VkDevice device, const char* name) {
  const Replaced ours[] = {
      {"vkQueueSubmit", plain(submit)}, {"vkAllocateMemory", plain(allocate)}, {"vkFreeMemory", plain(free_memory)}};
  for (const Replaced& it : ours) {
    if (std::strcmp(it.name, name) == 0) return it.function;
  }
  return state().next_of_device(device, name);
}

}  // namespace

extern "C" VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance instance, const char* name) {
  if (state().next == nullptr) return nullptr;
  if (std::strcmp(name, "vkGetDeviceProcAddr") == 0) {
    state().next_of_device = reinterpret_cast<PFN_vkGetDeviceProcAddr>(state().next(instance, name));
    return state().next_of_device == nullptr ? nullptr : plain(find_of_device);
  }
  const Replaced ours[] = {{"vkCreateInstance", plain(create_instance)},
                           {"vkCreateDevice", plain(create_device)},
                           {"vkEnumerateDeviceExtensionProperties", plain(list_extensions)},
                           {"vkGetPhysicalDeviceProperties", plain(get_old_properties)},
                           {"vkGetPhysicalDeviceProperties2", plain(get_properties)},
                           {"vkGetPhysicalDeviceMemoryProperties2", plain(get_memory)}};
  for (const Replaced& it : ours) {
    if (std::strcmp(it.name, name) == 0) return it.function;
  }
  return state().next(instance, name);
}
