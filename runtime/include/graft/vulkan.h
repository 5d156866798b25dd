/* graft's C ABI, Vulkan: a context on the caller's own VkDevice, as games and apps with a renderer have one. Needs
 * Vulkan's headers; graft.h does not include it. Its rules hold.
 */
#ifndef GRAFT_VULKAN_H
#define GRAFT_VULKAN_H

#include <vulkan/vulkan_core.h>

#include "graft/graft.h"

GRAFT_BEGIN_C

/* The caller's objects. graft destroys none of them; keep them until the context and all that was made from it has
   gone. */
typedef struct graft_vulkan_device {
  size_t struct_size;
  PFN_vkGetInstanceProcAddr get_instance_proc_addr; /* NULL: that of graft_context_options.vulkan_library */
  VkInstance instance;
  uint32_t api_version; /* VkApplicationInfo.apiVersion of the instance: VK_API_VERSION_1_1 or later */
  VkPhysicalDevice physical_device;
  VkDevice device;
  VkQueue queue;         /* of the family, which must be able to compute */
  uint32_t queue_family; /* of queue */
  /* What the device was made with, for graft uses nothing that is not switched on: kernels need no feature, and some
     are faster with it. See graft_vulkan_wanted. features: VkDeviceCreateInfo.pNext, a VkPhysicalDeviceFeatures2 and
     what follows it, looked at during the call; NULL: none. */
  const char* const* extensions;
  uint32_t extension_count;
  const VkPhysicalDeviceFeatures2* features;
  /* Called around each submission to the queue, on the thread that calls graft; both or neither. Without them nobody
     else may use the queue while graft is called. */
  void (*lock_queue)(void* user);
  void (*unlock_queue)(void* user);
  void* queue_user;
} graft_vulkan_device;

/* As graft_context_create, on the caller's device; options->device means nothing then. With recover_device a trainer
   has no other device to go on with: GRAFT_UNSUPPORTED where this one is lost. */
GRAFT_API graft_status graft_context_create_vulkan(const graft_context_options* options,
                                                   const graft_vulkan_device* device, graft_context** context);

/* What graft itself would make a device with. */
typedef struct graft_vulkan_wanted_device {
  const char* const* extensions;
  uint32_t extension_count;
  /* For VkDeviceCreateInfo.pNext, as it is or as what to copy from: what the physical device has of the features that
     graft knows. */
  const VkPhysicalDeviceFeatures2* features;
  uint32_t queue_family; /* that computes, without graphics where there is such */
} graft_vulkan_wanted_device;

/* What to enable on a physical device, so that graft's fastest kernels run there: of `device`, its first three members
   and physical_device are looked at. Free it by graft_vulkan_wanted_destroy. There is no context yet that could hold a
   message: GRAFT_UNSUPPORTED is a device or an instance of Vulkan 1.0, or one that cannot compute. */
GRAFT_API graft_status graft_vulkan_wanted(const graft_vulkan_device* device,
                                           const graft_vulkan_wanted_device** wanted);
GRAFT_API void graft_vulkan_wanted_destroy(const graft_vulkan_wanted_device* wanted);

GRAFT_END_C
#endif /* GRAFT_VULKAN_H */
