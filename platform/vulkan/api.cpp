#include "platform/vulkan/api.h"

#include <array>
#include <chrono>

#include "platform/os/clock.h"

namespace graft::vulkan {
namespace {

// What a driver speaks when it is loaded without the loader: VK_ICD_INTERFACE 5 is the first that needs no
// handshake about the API version.
constexpr std::uint32_t kIcdInterface = 5;
using NegotiateIcd = VkResult(VKAPI_PTR*)(std::uint32_t* version);

#if defined(_WIN32)
constexpr const char* kLoaders[] = {"vulkan-1.dll"};
#elif defined(__APPLE__)
// The loader of the Vulkan SDK first; MoltenVK itself, a driver, is what an app carries, on iOS as a framework.
constexpr const char* kLoaders[] = {"libvulkan.1.dylib", "libvulkan.dylib", "libMoltenVK.dylib",
                                    "@rpath/MoltenVK.framework/MoltenVK", "MoltenVK.framework/MoltenVK"};
#else
constexpr const char* kLoaders[] = {"libvulkan.so.1", "libvulkan.so"};
#endif

Result<os::DynamicLibrary> open_library(const std::string& name) {
  if (!name.empty()) return os::DynamicLibrary::open(name);
  std::string reasons;
  for (const char* candidate : kLoaders) {
    auto library = os::DynamicLibrary::open(candidate);
    if (library.ok()) return library;
    reasons += cat(" ", library.status().message());
  }
  return error(Code::not_found,
               "There is no Vulkan loader on this system; install it (Debian and Ubuntu: apt install libvulkan1 "
               "mesa-vulkan-drivers).",
               reasons);
}

PFN_vkGetInstanceProcAddr find_entry(const os::DynamicLibrary& library) {
  if (auto entry = library.find_as<PFN_vkGetInstanceProcAddr>("vkGetInstanceProcAddr")) return entry;
  if (auto negotiate = library.find_as<NegotiateIcd>("vk_icdNegotiateLoaderICDInterfaceVersion")) {
    std::uint32_t version = kIcdInterface;
    if (negotiate(&version) != VK_SUCCESS) return nullptr;
  }
  return library.find_as<PFN_vkGetInstanceProcAddr>("vk_icdGetInstanceProcAddr");
}

Status missing_function(const char* name) {
  return error(Code::device_error, "The Vulkan driver lacks the function vk", name, ", which Vulkan 1.1 requires.");
}

}  // namespace

Result<Api> load_api(const std::string& library, PFN_vkGetInstanceProcAddr linked) {
  Api api;
  api.fn.GetInstanceProcAddr = linked;
  if (linked == nullptr) {
    GRAFT_TRY_ASSIGN(api.library, open_library(library));
    api.fn.GetInstanceProcAddr = find_entry(api.library);
  }
  if (api.fn.GetInstanceProcAddr == nullptr) {
    return unsupported("The library \"", library.empty() ? kLoaders[0] : library,
                       "\" is neither a Vulkan loader nor a Vulkan driver: it has no vkGetInstanceProcAddr.");
  }
  const auto get = [&](const char* name) { return api.fn.GetInstanceProcAddr(nullptr, name); };
#define GRAFT_VK_LOAD(name)                                      \
  api.fn.name = reinterpret_cast<PFN_vk##name>(get("vk" #name)); \
  if (api.fn.name == nullptr) return missing_function(#name);
  GRAFT_VK_GLOBAL_FUNCTIONS(GRAFT_VK_LOAD)
#undef GRAFT_VK_LOAD
  api.fn.EnumerateInstanceVersion = reinterpret_cast<PFN_vkEnumerateInstanceVersion>(get("vkEnumerateInstanceVersion"));
  return api;
}

Result<InstanceFunctions> load_instance_functions(const GlobalFunctions& global, VkInstance instance) {
  InstanceFunctions fns;
#define GRAFT_VK_LOAD_OPTIONAL(name) \
  fns.name = reinterpret_cast<PFN_vk##name>(global.GetInstanceProcAddr(instance, "vk" #name));
#define GRAFT_VK_LOAD(name)    \
  GRAFT_VK_LOAD_OPTIONAL(name) \
  if (fns.name == nullptr) return missing_function(#name);
  GRAFT_VK_INSTANCE_FUNCTIONS(GRAFT_VK_LOAD)
  GRAFT_VK_INSTANCE_OPTIONAL_FUNCTIONS(GRAFT_VK_LOAD_OPTIONAL)
  GRAFT_VK_NEWER_INSTANCE_FUNCTIONS(GRAFT_VK_LOAD_OPTIONAL)
#undef GRAFT_VK_LOAD
#undef GRAFT_VK_LOAD_OPTIONAL
  return fns;
}

Result<DeviceFunctions> load_device_functions(const InstanceFunctions& instance, VkDevice device) {
  DeviceFunctions fns;
#define GRAFT_VK_LOAD_OPTIONAL(name) \
  fns.name = reinterpret_cast<PFN_vk##name>(instance.GetDeviceProcAddr(device, "vk" #name));
#define GRAFT_VK_LOAD(name)    \
  GRAFT_VK_LOAD_OPTIONAL(name) \
  if (fns.name == nullptr) return missing_function(#name);
  GRAFT_VK_DEVICE_FUNCTIONS(GRAFT_VK_LOAD)
  GRAFT_VK_DEVICE_OPTIONAL_FUNCTIONS(GRAFT_VK_LOAD_OPTIONAL)
  // By the names of Vulkan 1.2, where a caller's device has not enabled the extension.
  if (fns.WaitSemaphoresKHR == nullptr) {
    fns.WaitSemaphoresKHR =
        reinterpret_cast<PFN_vkWaitSemaphoresKHR>(instance.GetDeviceProcAddr(device, "vkWaitSemaphores"));
    fns.GetSemaphoreCounterValueKHR = reinterpret_cast<PFN_vkGetSemaphoreCounterValueKHR>(
        instance.GetDeviceProcAddr(device, "vkGetSemaphoreCounterValue"));
  }
#undef GRAFT_VK_LOAD
#undef GRAFT_VK_LOAD_OPTIONAL
  return fns;
}

const char* result_name(VkResult result) {
  switch (result) {
    case VK_SUCCESS: return "VK_SUCCESS";
    case VK_NOT_READY: return "VK_NOT_READY";
    case VK_TIMEOUT: return "VK_TIMEOUT";
    case VK_INCOMPLETE: return "VK_INCOMPLETE";
    case VK_ERROR_OUT_OF_HOST_MEMORY: return "VK_ERROR_OUT_OF_HOST_MEMORY";
    case VK_ERROR_OUT_OF_DEVICE_MEMORY: return "VK_ERROR_OUT_OF_DEVICE_MEMORY";
    case VK_ERROR_INITIALIZATION_FAILED: return "VK_ERROR_INITIALIZATION_FAILED";
    case VK_ERROR_DEVICE_LOST: return "VK_ERROR_DEVICE_LOST";
    case VK_ERROR_MEMORY_MAP_FAILED: return "VK_ERROR_MEMORY_MAP_FAILED";
    case VK_ERROR_LAYER_NOT_PRESENT: return "VK_ERROR_LAYER_NOT_PRESENT";
    case VK_ERROR_EXTENSION_NOT_PRESENT: return "VK_ERROR_EXTENSION_NOT_PRESENT";
    case VK_ERROR_FEATURE_NOT_PRESENT: return "VK_ERROR_FEATURE_NOT_PRESENT";
    case VK_ERROR_INCOMPATIBLE_DRIVER: return "VK_ERROR_INCOMPATIBLE_DRIVER";
    case VK_ERROR_TOO_MANY_OBJECTS: return "VK_ERROR_TOO_MANY_OBJECTS";
    case VK_ERROR_FRAGMENTED_POOL: return "VK_ERROR_FRAGMENTED_POOL";
    case VK_ERROR_OUT_OF_POOL_MEMORY: return "VK_ERROR_OUT_OF_POOL_MEMORY";
    case VK_ERROR_UNKNOWN: return "VK_ERROR_UNKNOWN";
    default: return "an unknown VkResult";
  }
}

Status call_error(VkResult result, const char* call, const std::string& doing) {
  Code code = Code::device_error;
  if (result == VK_ERROR_DEVICE_LOST) code = Code::device_lost;
  if (result == VK_ERROR_OUT_OF_HOST_MEMORY || result == VK_ERROR_OUT_OF_DEVICE_MEMORY) code = Code::out_of_memory;
  return error(code, doing, " failed: ", call, " returned ", result_name(result), " (", static_cast<int>(result), ").");
}

namespace {

CallTimes time_now() {
  const auto wall = std::chrono::steady_clock::now().time_since_epoch();
  return {std::chrono::duration<double>(wall).count(), os::thread_seconds()};
}

}  // namespace

CallTimer::CallTimer(CallTimes* times) : times_(times) {
  if (times_ != nullptr) start_ = time_now();
}

CallTimer::~CallTimer() {
  if (times_ == nullptr) return;
  const CallTimes now = time_now();
  times_->wall_seconds += now.wall_seconds - start_.wall_seconds;
  times_->processor_seconds += now.processor_seconds - start_.processor_seconds;
}

}  // namespace graft::vulkan
