#include "platform/vulkan/features.h"

namespace graft::vulkan {
namespace {

/// Which of graft's features are switched on, whichever structures of Vulkan's versions and extensions say so.
struct Enabled {
  VkBool32 int64 = 0, storage16 = 0, storage8 = 0, float16 = 0, int8 = 0, timeline = 0, integer_dot = 0;
  VkBool32 subgroup_size = 0, full_subgroups = 0, memory_model = 0, device_scope = 0, matrix = 0, bfloat16 = 0,
           bfloat16_matrix = 0;
  VkBool32 flexible = 0, per_element = 0, maintenance4 = 0;
};

template <typename Features>
const Features& as(const VkBaseInStructure* it) {
  return *reinterpret_cast<const Features*>(it);
}

void read_version(const VkBaseInStructure* it, Enabled& on) {
  if (it->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES) {
    on.storage16 |= as<VkPhysicalDeviceVulkan11Features>(it).storageBuffer16BitAccess;
  } else if (it->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES) {
    const auto& f = as<VkPhysicalDeviceVulkan12Features>(it);
    on.storage8 |= f.storageBuffer8BitAccess;
    on.float16 |= f.shaderFloat16;
    on.int8 |= f.shaderInt8;
    on.timeline |= f.timelineSemaphore;
    on.memory_model |= f.vulkanMemoryModel;
    on.device_scope |= f.vulkanMemoryModelDeviceScope;
  } else if (it->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES) {
    const auto& f = as<VkPhysicalDeviceVulkan13Features>(it);
    on.integer_dot |= f.shaderIntegerDotProduct;
    on.subgroup_size |= f.subgroupSizeControl;
    on.full_subgroups |= f.computeFullSubgroups;
    on.maintenance4 |= f.maintenance4;
  }
}

void read_extension(const VkBaseInStructure* it, Enabled& on) {
  switch (static_cast<int>(it->sType)) {  // some are newer than the header
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2:
      on.int64 |= as<VkPhysicalDeviceFeatures2>(it).features.shaderInt64;
      break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES:
      on.storage16 |= as<VkPhysicalDevice16BitStorageFeatures>(it).storageBuffer16BitAccess;
      break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES_KHR:
      on.storage8 |= as<VkPhysicalDevice8BitStorageFeaturesKHR>(it).storageBuffer8BitAccess;
      break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES_KHR:
      on.float16 |= as<VkPhysicalDeviceShaderFloat16Int8FeaturesKHR>(it).shaderFloat16;
      on.int8 |= as<VkPhysicalDeviceShaderFloat16Int8FeaturesKHR>(it).shaderInt8;
      break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES_KHR:
      on.timeline |= as<VkPhysicalDeviceTimelineSemaphoreFeaturesKHR>(it).timelineSemaphore;
      break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES_KHR:
      on.integer_dot |= as<VkPhysicalDeviceShaderIntegerDotProductFeaturesKHR>(it).shaderIntegerDotProduct;
      break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES_EXT:
      on.subgroup_size |= as<VkPhysicalDeviceSubgroupSizeControlFeaturesEXT>(it).subgroupSizeControl;
      on.full_subgroups |= as<VkPhysicalDeviceSubgroupSizeControlFeaturesEXT>(it).computeFullSubgroups;
      break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES_KHR:
      on.memory_model |= as<VkPhysicalDeviceVulkanMemoryModelFeaturesKHR>(it).vulkanMemoryModel;
      on.device_scope |= as<VkPhysicalDeviceVulkanMemoryModelFeaturesKHR>(it).vulkanMemoryModelDeviceScope;
      break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR:
      on.matrix |= as<VkPhysicalDeviceCooperativeMatrixFeaturesKHR>(it).cooperativeMatrix;
      break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_BFLOAT16_FEATURES_KHR:
      on.bfloat16 |= as<VkPhysicalDeviceShaderBfloat16FeaturesKHR>(it).shaderBFloat16Type;
      on.bfloat16_matrix |= as<VkPhysicalDeviceShaderBfloat16FeaturesKHR>(it).shaderBFloat16CooperativeMatrix;
      break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_FEATURES_NV:
      on.flexible |= as<VkPhysicalDeviceCooperativeMatrix2FeaturesNV>(it).cooperativeMatrixFlexibleDimensions;
      on.per_element |= as<VkPhysicalDeviceCooperativeMatrix2FeaturesNV>(it).cooperativeMatrixPerElementOperations;
      break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_FEATURES_KHR:
      on.maintenance4 |= as<VkPhysicalDeviceMaintenance4FeaturesKHR>(it).maintenance4;
      break;
    default: read_version(it, on);
  }
}

}  // namespace

void FeatureChain::keep_enabled(const void* enabled) {
  Enabled on;
  for (auto* it = static_cast<const VkBaseInStructure*>(enabled); it != nullptr; it = it->pNext) read_extension(it, on);
  all.features.shaderInt64 &= on.int64;
  storage16.storageBuffer16BitAccess &= on.storage16;
  storage8.storageBuffer8BitAccess &= on.storage8;
  float16.shaderFloat16 &= on.float16;
  float16.shaderInt8 &= on.int8;
  timeline.timelineSemaphore &= on.timeline;
  integer_dot.shaderIntegerDotProduct &= on.integer_dot;
  subgroup_size.subgroupSizeControl &= on.subgroup_size;
  subgroup_size.computeFullSubgroups &= on.full_subgroups;
  memory_model.vulkanMemoryModel &= on.memory_model;
  memory_model.vulkanMemoryModelDeviceScope &= on.device_scope;
  matrix.cooperativeMatrix &= on.matrix;
  bfloat16.shaderBFloat16Type &= on.bfloat16;
  bfloat16.shaderBFloat16CooperativeMatrix &= on.bfloat16_matrix;
  matrix2.cooperativeMatrixFlexibleDimensions &= on.flexible;
  matrix2.cooperativeMatrixPerElementOperations &= on.per_element;
  maintenance4.maintenance4 &= on.maintenance4;
}

}  // namespace graft::vulkan
