// The optional features that graft knows, linked by pNext: asked of a device, then switched on when it is opened.
#pragma once

#include "platform/vulkan/instance.h"

namespace graft::vulkan {

struct FeatureChain {
  /// Links only what the device's extensions allow.
  explicit FeatureChain(const PhysicalDevice& device) {
    all.pNext = &storage16;
    tail_ = &storage16.pNext;
    append(device, VK_KHR_8BIT_STORAGE_EXTENSION_NAME, storage8);
    append(device, VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME, float16);
    append(device, VK_KHR_TIMELINE_SEMAPHORE_EXTENSION_NAME, timeline);
    append(device, VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME, integer_dot);
    append(device, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME, subgroup_size);
    append(device, VK_KHR_VULKAN_MEMORY_MODEL_EXTENSION_NAME, memory_model);
    append(device, VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME, matrix);
    append(device, VK_KHR_SHADER_BFLOAT16_EXTENSION_NAME, bfloat16);
    append(device, VK_NV_COOPERATIVE_MATRIX_2_EXTENSION_NAME, matrix2);
    append(device, VK_KHR_MAINTENANCE_4_EXTENSION_NAME, maintenance4);
    append(device, VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME, executables);
  }
  FeatureChain(const FeatureChain&) = delete;
  FeatureChain& operator=(const FeatureChain&) = delete;

  VkPhysicalDeviceFeatures2 all{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
  VkPhysicalDevice16BitStorageFeatures storage16{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES};
  VkPhysicalDevice8BitStorageFeaturesKHR storage8{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES_KHR};
  VkPhysicalDeviceShaderFloat16Int8FeaturesKHR float16{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES_KHR};
  VkPhysicalDeviceTimelineSemaphoreFeaturesKHR timeline{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES_KHR};
  VkPhysicalDeviceShaderIntegerDotProductFeaturesKHR integer_dot{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES_KHR};
  VkPhysicalDeviceSubgroupSizeControlFeaturesEXT subgroup_size{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES_EXT};
  VkPhysicalDeviceVulkanMemoryModelFeaturesKHR memory_model{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES_KHR};
  VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrix{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR};
  VkPhysicalDeviceShaderBfloat16FeaturesKHR bfloat16{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_BFLOAT16_FEATURES_KHR};
  VkPhysicalDeviceCooperativeMatrix2FeaturesNV matrix2{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_FEATURES_NV};
  VkPhysicalDeviceMaintenance4FeaturesKHR maintenance4{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_FEATURES_KHR};
  VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR executables{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR};

  /// Takes back what a caller's own device has not enabled: `enabled` is a VkPhysicalDeviceFeatures2 and what follows
  /// it, or null where nothing is.
  void keep_enabled(const void* enabled);

 private:
  template <typename Features>
  void append(const PhysicalDevice& device, const char* extension, Features& features) {
    if (!device.has_extension(extension)) return;
    *tail_ = &features;
    tail_ = &features.pNext;
  }
  void** tail_ = nullptr;
};

}  // namespace graft::vulkan
