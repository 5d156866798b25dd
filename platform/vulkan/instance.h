// A Vulkan instance, its physical devices, and what they can do.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "platform/vulkan/api.h"

namespace graft::vulkan {

/// One physical device with everything that is asked of it once.
struct PhysicalDevice {
  VkPhysicalDevice handle = VK_NULL_HANDLE;
  gpu::Target target;
  std::uint32_t queue_family = 0;
  std::uint32_t timestamp_bits = 0;
  std::uint64_t non_coherent_atom = 1;
  bool atomics_in_memory_model = false;  ///< of the whole device, in kernels of Vulkan's memory model
  bool full_subgroups = false;           ///< a pipeline may ask for
  bool flexible_matrices = false;        ///< with operations on single elements
  bool tells_of_kernels = false;    ///< VK_KHR_pipeline_executable_properties, which is enabled only where asked for
  bool sets_subgroup_size = false;  ///< subgroups vary in size, unless a pipeline asks for one
  VkPhysicalDeviceMemoryProperties memory{};
  std::array<std::uint8_t, VK_UUID_SIZE> pipeline_cache_uuid{};
  std::vector<std::string> extensions;  ///< those graft would enable

  bool has_extension(std::string_view name) const;
};

/// Owns the loaded library, the VkInstance and the validation messenger.
class Instance {
 public:
  static Result<std::unique_ptr<Instance>> create(const InstanceOptions& options);
  /// The caller's, which is not destroyed.
  static Result<std::unique_ptr<Instance>> adopt(const InstanceOptions& options, const GivenDevice& given);
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  /// Those that have Vulkan 1.1 and a compute queue.
  Result<std::vector<PhysicalDevice>> physical_devices() const;

  const InstanceFunctions& fn() const { return fn_; }
  bool has_debug_utils() const { return debug_utils_; }

 private:
  Instance() = default;
  Status create_instance();
  Result<bool> layer_present(const char* name) const;
  Result<bool> extension_present(const char* layer, const char* name) const;

  InstanceOptions options_;
  Api api_;
  /// Else it stays loaded: one that ran out of memory while it made an instance has been seen to wait for a lock of its
  /// own as it was unloaded.
  bool unloads_ = true;
  InstanceFunctions fn_;
  VkInstance handle_ = VK_NULL_HANDLE;
  VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
  bool debug_utils_ = false;
};

/// Reads properties, features, queues and memory of one device; with `given`, of what is enabled there.
Result<PhysicalDevice> describe(const InstanceFunctions& fn, VkPhysicalDevice device, CallFaults* faults,
                                const GivenDevice* given = nullptr);

/// The device that `selector` means; see DeviceOptions::device.
Result<std::size_t> select_device(const std::vector<PhysicalDevice>& devices, const std::string& selector);

/// vkEnumerate*: asks for the count, then for the items, again while they change in between.
template <typename Item, typename Enumerate>
VkResult enumerate_items(std::vector<Item>& items, const Enumerate& enumerate) {
  VkResult result = VK_INCOMPLETE;
  while (result == VK_INCOMPLETE) {
    std::uint32_t count = 0;
    result = enumerate(&count, nullptr);
    if (result != VK_SUCCESS) return result;
    items.resize(count);
    if (count == 0) return VK_SUCCESS;
    result = enumerate(&count, items.data());
    items.resize(count);
  }
  return result;
}

}  // namespace graft::vulkan
