// gpu::Device over Vulkan 1.1. libvulkan is loaded at run time; nothing here needs it to link or to start.
//
// This header names no Vulkan type. Only the files of this folder include vulkan.h.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "platform/base/log.h"
#include "platform/gpu/gpu.h"
#include "platform/os/file.h"

namespace graft::vulkan {

/// Collects what the validation layers say (warnings and errors). Any thread. Must outlive the device, because
/// leaks are reported while it is destroyed.
class ValidationMessages {
 public:
  void add(std::string message);
  std::vector<std::string> take();  ///< returns and forgets all messages
  std::size_t count() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> messages_;
};

/// Time inside of fallible Vulkan calls, waits included: what a driver takes, as far as the caller sees it.
struct CallTimes {
  double wall_seconds = 0;
  double processor_seconds = 0;  ///< of the calling thread
};

/// Makes one fallible Vulkan call fail, for tests. Calls are counted from 1 in the order they are made.
struct CallFaults {
  std::uint64_t calls = 0;      ///< calls counted so far
  std::uint64_t fail_call = 0;  ///< this call returns `result` instead of running; 0: none
  int result = -2;              ///< a VkResult; -2 is VK_ERROR_OUT_OF_DEVICE_MEMORY, -4 VK_ERROR_DEVICE_LOST
  std::string failed;           ///< the name of the call that was made to fail
  CallTimes* times = nullptr;   ///< where the time of every call is added up; null: it is not measured
};

/// A caller's own Vulkan objects, which it keeps until after the device and destroys itself. Handles are those of
/// vulkan.h, which this header does not name.
struct GivenDevice {
  void (*get_instance_proc_addr)() = nullptr;  ///< null: the loader's
  void* instance = nullptr;                    ///< VkInstance
  std::uint32_t api_version = 0;               ///< that the instance was made for
  void* physical_device = nullptr;             ///< VkPhysicalDevice
  void* device = nullptr;                      ///< VkDevice
  void* queue = nullptr;                       ///< VkQueue
  std::uint32_t queue_family = 0;
  std::vector<std::string> extensions = {};  ///< of the device, that are enabled
  const void* features = nullptr;            ///< VkPhysicalDeviceFeatures2 and what follows it, as enabled; null: none
  /// Around each submission to the queue, which others may use meanwhile. Null: graft alone uses it.
  void (*lock_queue)(void* user) = nullptr;
  void (*unlock_queue)(void* user) = nullptr;
  void* queue_user = nullptr;
};

struct InstanceOptions {
  /// The loader or a driver to load instead of libvulkan.so.1. A driver is used directly: no layers, no other devices.
  std::string library;
  /// vkGetInstanceProcAddr of a loader or driver that is linked in; nothing is loaded then.
  void (*get_instance_proc_addr)() = nullptr;
  /// Loads VK_LAYER_KHRONOS_validation with synchronization validation; an error where it is not installed.
  ValidationMessages* validation = nullptr;
  CallFaults* faults = nullptr;
  LogSink log;
};

/// Among all queues of the system, where the driver has such (VK_KHR_global_priority).
enum class QueuePriority : std::uint8_t { medium, low, high };

struct DeviceOptions {
  InstanceOptions instance;
  /// An index into enumerate(), or a case-insensitive part of the device or driver name ("lavapipe" finds Mesa's
  /// llvmpipe). Empty takes the first of the best type: discrete, integrated, virtual, CPU.
  std::string device;
  /// What products of f32 operands may become on this device.
  gpu::MatmulPrecision matmul_precision = gpu::MatmulPrecision::highest;
  /// High falls back to medium where the system does not permit it.
  QueuePriority priority = QueuePriority::medium;
  /// Pipelines compiled before are taken from this file. Empty: no file. A file that is damaged, or of another
  /// device or driver, is ignored with a log line.
  std::string pipeline_cache_path;
  os::FileSystem* files = &os::system_files();
  /// Threads that create_kernels() compiles on. 0: up to 8; one for CPU devices, which compile at the first dispatch.
  std::uint32_t compile_threads = 0;
  /// CPU devices: a kernel takes the pipeline of one of the same code that is gone. Other devices never do.
  bool reuse_pipelines = true;
  /// Takes the device for one that only compiles (Caps::compiles_only), and asks its compiler to tell of kernels
  /// (Device::report()). Without this, a device is recognised as such: nothing comes back from a copy through it.
  bool compile_only = false;
  /// Opens nothing, but uses this. Device, validation and the instance's library are the caller's then.
  std::optional<GivenDevice> given = {};
  /// False takes fences even where timeline semaphores exist.
  bool timeline_semaphore = true;
  /// Flushes and invalidates coherent memory as well, so that tests reach those paths on any driver.
  bool assume_non_coherent = false;
  /// Takes the device's memory for that of a card, which the host does not see: what graft does there, tested anywhere.
  bool assume_discrete = false;
  /// Buffers smaller than a quarter of this share driver allocations of this size; larger ones get their own.
  std::uint64_t block_bytes = 4ull << 20;
};

/// The Vulkan devices that can run graft, in the loader's order. not_found says which package to install where there
/// is no loader or no driver.
Result<std::vector<gpu::Target>> enumerate(const InstanceOptions& options);

Result<std::unique_ptr<gpu::Device>> create_device(const DeviceOptions& options);

/// What create_device() would enable on a device of the caller's instance: `features` is a VkPhysicalDeviceFeatures2
/// with what follows it, for VkDeviceCreateInfo::pNext.
struct WantedDevice {
  std::vector<std::string> extensions;
  std::shared_ptr<const void> features;
  std::uint32_t queue_family = 0;
};
/// Of `given`, only the instance and the physical device are looked at.
Result<WantedDevice> wanted_device(const GivenDevice& given);

}  // namespace graft::vulkan
