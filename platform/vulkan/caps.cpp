#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "platform/gpu/quirks.h"
#include "platform/vulkan/features.h"

namespace graft::vulkan {
namespace {

// Everything here is optional; Caps says which of it is there. The portability subset is no wish: a device that offers
// it must be made with it. What it takes away belongs to pictures and events, which graft does not use.
constexpr std::array kWantedExtensions = {VK_KHR_TIMELINE_SEMAPHORE_EXTENSION_NAME,
                                          VK_KHR_8BIT_STORAGE_EXTENSION_NAME,
                                          VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME,
                                          VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME,
                                          VK_KHR_DRIVER_PROPERTIES_EXTENSION_NAME,
                                          VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME,
                                          VK_KHR_VULKAN_MEMORY_MODEL_EXTENSION_NAME,
                                          VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME,
                                          VK_KHR_SHADER_BFLOAT16_EXTENSION_NAME,
                                          VK_NV_COOPERATIVE_MATRIX_2_EXTENSION_NAME,
                                          VK_KHR_MAINTENANCE_4_EXTENSION_NAME,
                                          VK_EXT_MEMORY_BUDGET_EXTENSION_NAME,
                                          VK_KHR_PORTABILITY_SUBSET_EXTENSION_NAME,
                                          VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME,
                                          VK_EXT_EXTERNAL_MEMORY_DMA_BUF_EXTENSION_NAME,
                                          VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME,
                                          VK_ANDROID_EXTERNAL_MEMORY_ANDROID_HARDWARE_BUFFER_EXTENSION_NAME,
                                          VK_EXT_QUEUE_FAMILY_FOREIGN_EXTENSION_NAME,  // which that one asks for
                                          VK_KHR_GLOBAL_PRIORITY_EXTENSION_NAME,
                                          VK_EXT_GLOBAL_PRIORITY_EXTENSION_NAME};

gpu::DeviceType device_type(VkPhysicalDeviceType type) {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return gpu::DeviceType::integrated;
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return gpu::DeviceType::discrete;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: return gpu::DeviceType::virtual_gpu;
    case VK_PHYSICAL_DEVICE_TYPE_CPU: return gpu::DeviceType::cpu;
    default: return gpu::DeviceType::other;
  }
}

/// Whether the caller's device can do what an extension brings: it was enabled, or is part of the version.
bool is_enabled(const GivenDevice& given, std::uint32_t version, std::string_view name) {
  constexpr std::string_view kOf12[] = {VK_KHR_TIMELINE_SEMAPHORE_EXTENSION_NAME, VK_KHR_8BIT_STORAGE_EXTENSION_NAME,
                                        VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME,
                                        VK_KHR_DRIVER_PROPERTIES_EXTENSION_NAME,
                                        VK_KHR_VULKAN_MEMORY_MODEL_EXTENSION_NAME};
  constexpr std::string_view kOf13[] = {VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME,
                                        VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME,
                                        VK_KHR_MAINTENANCE_4_EXTENSION_NAME};
  if (version >= VK_API_VERSION_1_2 && std::find(std::begin(kOf12), std::end(kOf12), name) != std::end(kOf12))
    return true;
  if (version >= VK_API_VERSION_1_3 && std::find(std::begin(kOf13), std::end(kOf13), name) != std::end(kOf13))
    return true;
  return std::find(given.extensions.begin(), given.extensions.end(), name) != given.extensions.end();
}

Status find_extensions(const InstanceFunctions& fn, PhysicalDevice& device, CallFaults* faults,
                       const GivenDevice* given) {
  std::vector<VkExtensionProperties> all;
  const VkResult result = enumerate_items(all, [&](std::uint32_t* count, VkExtensionProperties* items) {
    return GRAFT_VK_CALL(faults, fn, EnumerateDeviceExtensionProperties, device.handle, nullptr, count, items);
  });
  if (result != VK_SUCCESS) {
    return call_error(result, "vkEnumerateDeviceExtensionProperties",
                      cat("Listing the extensions of \"", device.target.caps.device_name, "\""));
  }
  const auto present = [&](const char* name) {
    return std::any_of(all.begin(), all.end(),
                       [&](const auto& it) { return std::strcmp(it.extensionName, name) == 0; });
  };
  device.tells_of_kernels = present(VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME);
  for (const char* wanted : kWantedExtensions) {
    if (given != nullptr && !is_enabled(*given, device.target.caps.api_version, wanted)) continue;
    if (present(wanted)) device.extensions.emplace_back(wanted);
  }
  return ok_status();
}

/// A compute queue, best one without graphics: it does not compete with the display.
Status find_queue(const InstanceFunctions& fn, PhysicalDevice& device, const GivenDevice* given) {
  std::uint32_t count = 0;
  fn.GetPhysicalDeviceQueueFamilyProperties(device.handle, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  fn.GetPhysicalDeviceQueueFamilyProperties(device.handle, &count, families.data());
  int best = -1;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (given != nullptr && i != given->queue_family) continue;
    if (families[i].queueCount == 0 || (families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) == 0) continue;
    const bool pure = (families[i].queueFlags & VK_QUEUE_GRAPHICS_BIT) == 0;
    if (best < 0 || (pure && (families[static_cast<std::size_t>(best)].queueFlags & VK_QUEUE_GRAPHICS_BIT) != 0)) {
      best = static_cast<int>(i);
    }
  }
  if (best < 0 && given != nullptr) {
    return invalid("The queue family ", given->queue_family, " of \"", device.target.caps.device_name,
                   "\" cannot compute; it has ", count, " families.");
  }
  if (best < 0) return unsupported("The device \"", device.target.caps.device_name, "\" has no compute queue.");
  device.queue_family = static_cast<std::uint32_t>(best);
  device.timestamp_bits = families[device.queue_family].timestampValidBits;
  return ok_status();
}

void read_limits(const VkPhysicalDeviceLimits& limits, gpu::Caps& caps) {
  caps.max_storage_buffer_range = limits.maxStorageBufferRange;
  caps.storage_buffer_alignment =
      static_cast<std::uint32_t>(std::max<VkDeviceSize>(limits.minStorageBufferOffsetAlignment, 4));
  caps.max_storage_buffers_per_stage =
      std::min(limits.maxPerStageDescriptorStorageBuffers, limits.maxDescriptorSetStorageBuffers);
  if (limits.minTexelBufferOffsetAlignment <= caps.storage_buffer_alignment) {
    caps.max_texel_buffer_elements = limits.maxTexelBufferElements;
  }
  caps.max_push_constants = limits.maxPushConstantsSize;
  caps.max_workgroup_invocations = limits.maxComputeWorkGroupInvocations;
  for (std::size_t i = 0; i < 3; ++i) {
    caps.max_workgroup_size[i] = limits.maxComputeWorkGroupSize[i];
    caps.max_workgroup_count[i] = limits.maxComputeWorkGroupCount[i];
  }
  caps.max_shared_memory = limits.maxComputeSharedMemorySize;
}

void read_properties(const InstanceFunctions& fn, PhysicalDevice& device) {
  VkPhysicalDeviceDriverPropertiesKHR driver{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES_KHR};
  VkPhysicalDeviceMaintenance3Properties maintenance{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES};
  VkPhysicalDeviceSubgroupProperties subgroup{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES};
  VkPhysicalDeviceProperties2 properties{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
  properties.pNext = &maintenance;
  maintenance.pNext = &subgroup;
  if (device.has_extension(VK_KHR_DRIVER_PROPERTIES_EXTENSION_NAME)) subgroup.pNext = &driver;
  fn.GetPhysicalDeviceProperties2(device.handle, &properties);

  gpu::Caps& caps = device.target.caps;
  read_limits(properties.properties.limits, caps);
  caps.driver_name = driver.driverName;
  caps.driver_info = driver.driverInfo;
  caps.max_allocation = maintenance.maxMemoryAllocationSize;
  caps.subgroup_size = subgroup.subgroupSize;
  if ((subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0) {
    const auto operations = subgroup.supportedOperations;
    caps.subgroup_basic = (operations & VK_SUBGROUP_FEATURE_BASIC_BIT) != 0;
    caps.subgroup_arithmetic = (operations & VK_SUBGROUP_FEATURE_ARITHMETIC_BIT) != 0;
    caps.subgroup_shuffle = (operations & VK_SUBGROUP_FEATURE_SHUFFLE_BIT) != 0;
  }
  if (device.timestamp_bits != 0) caps.timestamp_period_ns = properties.properties.limits.timestampPeriod;
  device.non_coherent_atom = properties.properties.limits.nonCoherentAtomSize;
  std::copy_n(properties.properties.pipelineCacheUUID, VK_UUID_SIZE, device.pipeline_cache_uuid.begin());
}

void read_features(const InstanceFunctions& fn, PhysicalDevice& device, const GivenDevice* given) {
  FeatureChain features(device);
  fn.GetPhysicalDeviceFeatures2(device.handle, &features.all);
  if (given != nullptr) features.keep_enabled(given->features);

  gpu::Caps& caps = device.target.caps;
  caps.storage_16bit = features.storage16.storageBuffer16BitAccess == VK_TRUE;
  caps.storage_8bit = features.storage8.storageBuffer8BitAccess == VK_TRUE;
  caps.shader_float16 = features.float16.shaderFloat16 == VK_TRUE;
  caps.shader_int8 = features.float16.shaderInt8 == VK_TRUE;
  caps.shader_int64 = features.all.features.shaderInt64 == VK_TRUE;
  caps.integer_dot = features.integer_dot.shaderIntegerDotProduct == VK_TRUE;
  caps.timeline_semaphore = features.timeline.timelineSemaphore == VK_TRUE;
  caps.shader_bfloat16 =
      features.bfloat16.shaderBFloat16Type == VK_TRUE && features.bfloat16.shaderBFloat16CooperativeMatrix == VK_TRUE;
  device.atomics_in_memory_model = features.memory_model.vulkanMemoryModelDeviceScope == VK_TRUE;
  device.full_subgroups = features.subgroup_size.computeFullSubgroups == VK_TRUE;
  device.sets_subgroup_size = device.full_subgroups && features.subgroup_size.subgroupSizeControl == VK_TRUE;
  // Kernels for matrices are compiled for Vulkan's memory model, and must run in full subgroups.
  caps.cooperative_matrix = features.matrix.cooperativeMatrix == VK_TRUE && device.full_subgroups &&
                            features.memory_model.vulkanMemoryModel == VK_TRUE;
  // Kernels for flexible matrices are SPIR-V 1.6.
  device.flexible_matrices = caps.api_version >= VK_API_VERSION_1_3 && features.maintenance4.maintenance4 == VK_TRUE &&
                             features.matrix2.cooperativeMatrixFlexibleDimensions == VK_TRUE &&
                             features.matrix2.cooperativeMatrixPerElementOperations == VK_TRUE;
}

/// Which subgroups share matrices: 32 invocations where the driver lets a kernel choose (what matrix units are made
/// for), else the device's own size. None where sizes vary and cannot be asked for.
void read_matrix_subgroup(const InstanceFunctions& fn, PhysicalDevice& device) {
  device.target.caps.matrix_subgroup = device.target.caps.subgroup_size;
  if (!device.has_extension(VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME)) return;
  VkPhysicalDeviceSubgroupSizeControlPropertiesEXT sizes{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES_EXT};
  VkPhysicalDeviceProperties2 properties{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
  properties.pNext = &sizes;
  fn.GetPhysicalDeviceProperties2(device.handle, &properties);
  const bool vary = sizes.minSubgroupSize != sizes.maxSubgroupSize;
  device.sets_subgroup_size =
      device.sets_subgroup_size && vary && (sizes.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0;
  if (vary && !device.sets_subgroup_size) {
    device.target.caps.matrix_subgroup = 0;
  } else if (vary && sizes.minSubgroupSize <= 32 && sizes.maxSubgroupSize >= 32) {
    device.target.caps.matrix_subgroup = 32;
  }
}

template <typename Properties>
void stamp(Properties* items, std::uint32_t count, VkStructureType type) {
  for (std::uint32_t i = 0; items != nullptr && i < count; ++i) {
    items[i] = {};
    items[i].sType = type;
  }
}

/// The operand type of matrices that graft's kernels can use: A and B alike, shared by a subgroup, sums in f32.
template <typename Properties>
std::optional<gpu::MatrixShape::Operand> operand_of(const gpu::Caps& caps, const Properties& it) {
  const bool half = it.AType == VK_COMPONENT_TYPE_FLOAT16_KHR;
  const bool brain = it.AType == VK_COMPONENT_TYPE_BFLOAT16_KHR && caps.shader_bfloat16;
  const bool sums = it.CType == VK_COMPONENT_TYPE_FLOAT32_KHR && it.ResultType == VK_COMPONENT_TYPE_FLOAT32_KHR;
  if (it.scope != VK_SCOPE_SUBGROUP_KHR || it.BType != it.AType || !sums || !(half || brain)) return std::nullopt;
  return half ? gpu::MatrixShape::Operand::f16 : gpu::MatrixShape::Operand::bf16;
}

/// From VK_NV_cooperative_matrix2, graft's kernels use flexible sizes and operations on single elements, together.
Status read_flexible_matrices(const InstanceFunctions& fn, PhysicalDevice& device, CallFaults* faults) {
  const auto list = fn.GetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV;
  if (!device.flexible_matrices || list == nullptr) return ok_status();
  std::vector<VkCooperativeMatrixFlexibleDimensionsPropertiesNV> all;
  const VkResult result =
      enumerate_items(all, [&](std::uint32_t* count, VkCooperativeMatrixFlexibleDimensionsPropertiesNV* items) {
        stamp(items, *count, VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_FLEXIBLE_DIMENSIONS_PROPERTIES_NV);
        return GRAFT_VK_CALL(faults, fn, GetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV,
                             device.handle, count, items);
      });
  if (result != VK_SUCCESS) {
    return call_error(result, "vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV",
                      cat("Listing the flexible matrices of \"", device.target.caps.device_name, "\""));
  }
  for (const VkCooperativeMatrixFlexibleDimensionsPropertiesNV& it : all) {
    if (const auto operand = operand_of(device.target.caps, it)) {
      device.target.caps.flexible_shapes.push_back({*operand, it.MGranularity, it.NGranularity, it.KGranularity});
    }
  }
  VkPhysicalDeviceCooperativeMatrix2PropertiesNV limits{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_PROPERTIES_NV};
  VkPhysicalDeviceProperties2 properties{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
  properties.pNext = &limits;
  fn.GetPhysicalDeviceProperties2(device.handle, &properties);
  device.target.caps.max_flexible_side = limits.cooperativeMatrixFlexibleDimensionsMaxDimension;
  return ok_status();
}

Status read_matrices(const InstanceFunctions& fn, PhysicalDevice& device, CallFaults* faults) {
  read_matrix_subgroup(fn, device);
  if (!device.target.caps.cooperative_matrix) return ok_status();
  std::vector<VkCooperativeMatrixPropertiesKHR> all;
  VkResult result = VK_ERROR_EXTENSION_NOT_PRESENT;
  if (fn.GetPhysicalDeviceCooperativeMatrixPropertiesKHR != nullptr) {
    result = enumerate_items(all, [&](std::uint32_t* count, VkCooperativeMatrixPropertiesKHR* items) {
      stamp(items, *count, VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR);
      return GRAFT_VK_CALL(faults, fn, GetPhysicalDeviceCooperativeMatrixPropertiesKHR, device.handle, count, items);
    });
  }
  if (result != VK_SUCCESS) {
    return call_error(result, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR",
                      cat("Listing the matrices of \"", device.target.caps.device_name, "\""));
  }
  gpu::Caps& caps = device.target.caps;
  for (const VkCooperativeMatrixPropertiesKHR& it : all) {
    if (const auto operand = operand_of(caps, it)) {
      caps.matrix_shapes.push_back({*operand, it.MSize, it.NSize, it.KSize});
    }
  }
  caps.cooperative_matrix = !caps.matrix_shapes.empty() && caps.matrix_subgroup != 0;
  if (!caps.cooperative_matrix) caps.matrix_shapes.clear();
  return caps.cooperative_matrix ? read_flexible_matrices(fn, device, faults) : ok_status();
}

void read_memory(const InstanceFunctions& fn, PhysicalDevice& device) {
  fn.GetPhysicalDeviceMemoryProperties(device.handle, &device.memory);
  for (std::uint32_t i = 0; i < device.memory.memoryHeapCount; ++i) {
    const VkMemoryHeap& heap = device.memory.memoryHeaps[i];
    device.target.caps.heaps.push_back({heap.size, (heap.flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0});
  }
  // Unified: all device-local heaps can be mapped. A small mappable window into a discrete card's memory does not
  // count.
  std::array<bool, VK_MAX_MEMORY_HEAPS> mappable{};
  for (std::uint32_t i = 0; i < device.memory.memoryTypeCount; ++i) {
    constexpr VkMemoryPropertyFlags kBoth = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT;
    const VkMemoryType& type = device.memory.memoryTypes[i];
    if ((type.propertyFlags & kBoth) == kBoth) mappable[type.heapIndex] = true;
  }
  bool unified = false;
  for (std::size_t i = 0; i < device.target.caps.heaps.size(); ++i) {
    if (!device.target.caps.heaps[i].device_local) continue;
    unified = mappable[i];
    if (!unified) break;
  }
  const auto type = device.target.caps.type;
  device.target.caps.unified_memory = unified && (type == gpu::DeviceType::integrated || type == gpu::DeviceType::cpu);
}

}  // namespace

Result<PhysicalDevice> describe(const InstanceFunctions& fn, VkPhysicalDevice handle, CallFaults* faults,
                                const GivenDevice* given) {
  PhysicalDevice device;
  device.handle = handle;
  VkPhysicalDeviceProperties basic{};
  fn.GetPhysicalDeviceProperties(handle, &basic);
  device.target.caps.device_name = basic.deviceName;
  device.target.caps.vendor_id = basic.vendorID;
  device.target.caps.device_id = basic.deviceID;
  device.target.caps.driver_version = basic.driverVersion;
  device.target.caps.api_version = basic.apiVersion;
  device.target.caps.type = device_type(basic.deviceType);
  if (basic.apiVersion < VK_API_VERSION_1_1) {
    return unsupported("The device \"", basic.deviceName, "\" speaks Vulkan ", VK_API_VERSION_MAJOR(basic.apiVersion),
                       ".", VK_API_VERSION_MINOR(basic.apiVersion), "; graft needs 1.1 or later.");
  }
  if (given != nullptr) {
    device.target.caps.api_version = std::min(device.target.caps.api_version, given->api_version);
  }
  GRAFT_TRY(find_extensions(fn, device, faults, given));
  GRAFT_TRY(find_queue(fn, device, given));
  read_properties(fn, device);
  read_features(fn, device, given);
  gpu::apply_quirks(device.target.caps, device.target.quirks);  // some forbid the question that follows
  GRAFT_TRY(read_matrices(fn, device, faults));
  read_memory(fn, device);
  return device;
}

}  // namespace graft::vulkan
