#include "platform/vulkan/instance.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>

namespace graft::vulkan {
namespace {

constexpr const char* kValidationLayer = "VK_LAYER_KHRONOS_validation";
constexpr const char* kNoDriver =
    "the Vulkan loader found no driver; install one (Debian and Ubuntu: apt install mesa-vulkan-drivers, which also "
    "holds the software device lavapipe, or the GPU vendor's own driver).";

VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT, VkDebugUtilsMessageTypeFlagsEXT type,
                                          const VkDebugUtilsMessengerCallbackDataEXT* data, void* user) {
  // "General" messages are the loader talking of files and drivers it tried, not of graft's calls.
  if (type == VK_DEBUG_UTILS_MESSAGE_TYPE_GENERAL_BIT_EXT) return VK_FALSE;
  static_cast<ValidationMessages*>(user)->add(data->pMessage != nullptr ? data->pMessage : "(no text)");
  return VK_FALSE;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

int type_rank(gpu::DeviceType type) {
  switch (type) {
    case gpu::DeviceType::discrete: return 0;
    case gpu::DeviceType::integrated: return 1;
    case gpu::DeviceType::virtual_gpu: return 2;
    case gpu::DeviceType::other: return 3;
    case gpu::DeviceType::cpu: return 4;
  }
  return 5;
}

}  // namespace

void ValidationMessages::add(std::string message) {
  const std::scoped_lock lock(mutex_);
  messages_.push_back(std::move(message));
}

std::vector<std::string> ValidationMessages::take() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(messages_, {});
}

std::size_t ValidationMessages::count() const {
  const std::scoped_lock lock(mutex_);
  return messages_.size();
}

bool PhysicalDevice::has_extension(std::string_view name) const {
  return std::find(extensions.begin(), extensions.end(), name) != extensions.end();
}

namespace {

PFN_vkGetInstanceProcAddr linked_entry(const InstanceOptions& options) {
  return reinterpret_cast<PFN_vkGetInstanceProcAddr>(options.get_instance_proc_addr);
}

}  // namespace

Result<std::unique_ptr<Instance>> Instance::create(const InstanceOptions& options) {
  std::unique_ptr<Instance> instance(new Instance);
  instance->options_ = options;
  GRAFT_TRY_ASSIGN(instance->api_, load_api(options.library, linked_entry(options)));
  instance->unloads_ = false;
  GRAFT_TRY(instance->create_instance());
  instance->unloads_ = true;
  return instance;
}

Result<std::unique_ptr<Instance>> Instance::adopt(const InstanceOptions& options, const GivenDevice& given) {
  if (given.instance == nullptr || given.physical_device == nullptr) {
    return invalid("A device of the caller's needs its VkInstance and its VkPhysicalDevice.");
  }
  if (given.api_version < VK_API_VERSION_1_1) {
    return unsupported("The caller's VkInstance was made for Vulkan ", VK_API_VERSION_MAJOR(given.api_version), ".",
                       VK_API_VERSION_MINOR(given.api_version), "; graft needs 1.1 or later.");
  }
  std::unique_ptr<Instance> instance(new Instance);
  instance->options_ = options;
  auto entry = reinterpret_cast<PFN_vkGetInstanceProcAddr>(given.get_instance_proc_addr);
  if (entry == nullptr) {
    GRAFT_TRY_ASSIGN(instance->api_, load_api(options.library, linked_entry(options)));
    entry = instance->api_.fn.GetInstanceProcAddr;
  }
  instance->api_.fn.GetInstanceProcAddr = entry;
  GRAFT_TRY_ASSIGN(instance->fn_, load_instance_functions(instance->api_.fn, static_cast<VkInstance>(given.instance)));
  return instance;
}

Instance::~Instance() {
  if (messenger_ != VK_NULL_HANDLE) fn_.DestroyDebugUtilsMessengerEXT(handle_, messenger_, nullptr);
  if (handle_ != VK_NULL_HANDLE && fn_.DestroyInstance != nullptr) fn_.DestroyInstance(handle_, nullptr);
  if (!unloads_) api_.library.keep();
}

Result<bool> Instance::layer_present(const char* name) const {
  std::vector<VkLayerProperties> layers;
  const VkResult result = enumerate_items(layers, [&](std::uint32_t* count, VkLayerProperties* items) {
    return GRAFT_VK_CALL(options_.faults, api_.fn, EnumerateInstanceLayerProperties, count, items);
  });
  if (result != VK_SUCCESS) return call_error(result, "vkEnumerateInstanceLayerProperties", "Listing Vulkan's layers");
  return std::any_of(layers.begin(), layers.end(),
                     [&](const auto& it) { return std::strcmp(it.layerName, name) == 0; });
}

Result<bool> Instance::extension_present(const char* layer, const char* name) const {
  std::vector<VkExtensionProperties> extensions;
  const VkResult result = enumerate_items(extensions, [&](std::uint32_t* count, VkExtensionProperties* items) {
    return GRAFT_VK_CALL(options_.faults, api_.fn, EnumerateInstanceExtensionProperties, layer, count, items);
  });
  if (result != VK_SUCCESS) {
    return call_error(result, "vkEnumerateInstanceExtensionProperties", "Listing Vulkan's instance extensions");
  }
  return std::any_of(extensions.begin(), extensions.end(),
                     [&](const auto& it) { return std::strcmp(it.extensionName, name) == 0; });
}

Status Instance::create_instance() {
  std::uint32_t version = VK_API_VERSION_1_0;
  if (api_.fn.EnumerateInstanceVersion != nullptr) {
    const VkResult result = GRAFT_VK_CALL(options_.faults, api_.fn, EnumerateInstanceVersion, &version);
    if (result != VK_SUCCESS) return call_error(result, "vkEnumerateInstanceVersion", "Asking for Vulkan's version");
  }
  if (version < VK_API_VERSION_1_1)
    return unsupported("The Vulkan loader speaks Vulkan 1.0; graft needs 1.1 or later.");

  const bool validate = options_.validation != nullptr;
  std::vector<const char*> layers;
  std::vector<const char*> extensions;
  GRAFT_TRY_ASSIGN(debug_utils_, extension_present(nullptr, VK_EXT_DEBUG_UTILS_EXTENSION_NAME));
  if (validate) {
    GRAFT_TRY_ASSIGN(const bool present, layer_present(kValidationLayer));
    if (!present) {
      return error(Code::not_found, "Validation was asked for, but the layer ", kValidationLayer,
                   " is not installed (Debian and Ubuntu: apt install vulkan-validationlayers).");
    }
    layers.push_back(kValidationLayer);
    extensions.push_back(VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME);
    debug_utils_ = true;  // the layer brings it
  }
  if (debug_utils_) extensions.push_back(VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
  // Without it the loader hides drivers that do not conform in every part, as MoltenVK over Metal.
  GRAFT_TRY_ASSIGN(const bool portability, extension_present(nullptr, VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME));
  if (portability) extensions.push_back(VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME);

  VkDebugUtilsMessengerCreateInfoEXT messenger{VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT};
  messenger.messageSeverity =
      VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
  messenger.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_TYPE_GENERAL_BIT_EXT;
  messenger.pfnUserCallback = on_message;
  messenger.pUserData = options_.validation;
  const VkValidationFeatureEnableEXT enabled[] = {VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT};
  VkValidationFeaturesEXT features{VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT};
  features.enabledValidationFeatureCount = 1;
  features.pEnabledValidationFeatures = enabled;
  features.pNext = &messenger;  // covers the creation and destruction of the instance itself: leaks show there

  VkApplicationInfo app{VK_STRUCTURE_TYPE_APPLICATION_INFO};
  app.pEngineName = "graft";
  // 1.1 is what graft's shaders and calls need, the rest comes as extensions; but 1.3 lets kernels for flexible
  // matrices be of SPIR-V 1.6, which is the least that they can be.
  app.apiVersion = version >= VK_API_VERSION_1_3 ? VK_API_VERSION_1_3 : VK_API_VERSION_1_1;
  VkInstanceCreateInfo info{VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
  if (validate) info.pNext = &features;
  if (portability) info.flags |= VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR;
  info.pApplicationInfo = &app;
  info.enabledLayerCount = static_cast<std::uint32_t>(layers.size());
  info.ppEnabledLayerNames = layers.data();
  info.enabledExtensionCount = static_cast<std::uint32_t>(extensions.size());
  info.ppEnabledExtensionNames = extensions.data();
  const VkResult result = GRAFT_VK_CALL(options_.faults, api_.fn, CreateInstance, &info, nullptr, &handle_);
  if (result == VK_ERROR_INCOMPATIBLE_DRIVER)
    return error(Code::not_found, "No Vulkan device can be used: ", kNoDriver);
  if (result != VK_SUCCESS) return call_error(result, "vkCreateInstance", "Starting Vulkan");
  GRAFT_TRY_ASSIGN(fn_, load_instance_functions(api_.fn, handle_));

  if (validate) {
    const VkResult made =
        GRAFT_VK_CALL(options_.faults, fn_, CreateDebugUtilsMessengerEXT, handle_, &messenger, nullptr, &messenger_);
    if (made != VK_SUCCESS)
      return call_error(made, "vkCreateDebugUtilsMessengerEXT", "Listening to the validation layer");
  }
  return ok_status();
}

Result<std::vector<PhysicalDevice>> Instance::physical_devices() const {
  std::vector<VkPhysicalDevice> handles;
  const VkResult result = enumerate_items(handles, [&](std::uint32_t* count, VkPhysicalDevice* items) {
    return GRAFT_VK_CALL(options_.faults, fn_, EnumeratePhysicalDevices, handle_, count, items);
  });
  if (result != VK_SUCCESS) return call_error(result, "vkEnumeratePhysicalDevices", "Listing Vulkan's devices");
  std::vector<PhysicalDevice> devices;
  for (VkPhysicalDevice handle : handles) {
    auto device = describe(fn_, handle, options_.faults);
    if (device.ok()) {
      devices.push_back(std::move(device).value());
    } else if (device.status().code() == Code::unsupported) {
      options_.log(LogLevel::info, device.status().message());
    } else {
      return std::move(device).status();
    }
  }
  if (devices.empty()) return error(Code::not_found, "No Vulkan device can be used: ", kNoDriver);
  return devices;
}

Result<std::size_t> select_device(const std::vector<PhysicalDevice>& devices, const std::string& selector) {
  if (selector.empty()) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < devices.size(); ++i) {
      if (type_rank(devices[i].target.caps.type) < type_rank(devices[best].target.caps.type)) best = i;
    }
    return best;
  }
  const bool number = std::all_of(selector.begin(), selector.end(), [](unsigned char c) { return std::isdigit(c); });
  if (number && selector.size() < 9) {
    const std::size_t index = std::stoul(selector);
    if (index < devices.size()) return index;
  }
  std::string wanted = lower(selector);
  if (wanted == "lavapipe") wanted = "llvmpipe";  // the driver's name against the one it reports
  std::string names;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const gpu::Caps& caps = devices[i].target.caps;
    const std::string name = lower(cat(caps.device_name, " ", caps.driver_name, " ", caps.driver_info));
    if (!number && name.find(wanted) != std::string::npos) return i;
    names += cat(names.empty() ? "" : ", ", i, ": ", caps.device_name);
  }
  return error(Code::not_found, "No Vulkan device matches \"", selector, "\"; present are ", names, ".");
}

Result<std::vector<gpu::Target>> enumerate(const InstanceOptions& options) {
  GRAFT_TRY_ASSIGN(const auto instance, Instance::create(options));
  GRAFT_TRY_ASSIGN(auto devices, instance->physical_devices());
  std::vector<gpu::Target> targets;
  targets.reserve(devices.size());
  for (PhysicalDevice& device : devices) targets.push_back(std::move(device.target));
  return targets;
}

}  // namespace graft::vulkan
