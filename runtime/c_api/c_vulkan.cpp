#include "graft/vulkan.h"
#include "platform/base/exceptions.h"
#include "runtime/c_api/c_context.h"
#include "runtime/c_api/c_handles.h"

using namespace graft;
using namespace graft::c_api;

namespace {

struct Wanted : graft_vulkan_wanted_device {
  vulkan::WantedDevice device;
  std::vector<const char*> names;
};

vulkan::GivenDevice given_device(const graft_vulkan_device& from) {
  vulkan::GivenDevice given;
  given.get_instance_proc_addr = reinterpret_cast<void (*)()>(from.get_instance_proc_addr);
  given.instance = from.instance;
  given.api_version = from.api_version;
  given.physical_device = from.physical_device;
  given.device = from.device;
  given.queue = from.queue;
  given.queue_family = from.queue_family;
  given.features = from.features;
  given.lock_queue = from.lock_queue;
  given.unlock_queue = from.unlock_queue;
  given.queue_user = from.queue_user;
  return given;
}

}  // namespace

graft_status graft_context_create_vulkan(const graft_context_options* options, const graft_vulkan_device* device,
                                         graft_context** context) {
  return create_context(options, context, [&](vulkan::DeviceOptions& wanted) -> Status {
    GRAFT_TRY_ASSIGN(const graft_vulkan_device from, read_options(device, "graft_vulkan_device"));
    wanted.given = given_device(from);
    if (from.extensions == nullptr && from.extension_count != 0) {
      return invalid(from.extension_count, " extensions were promised, and extensions is NULL.");
    }
    for (std::uint32_t i = 0; i < from.extension_count; ++i) {
      if (from.extensions[i] == nullptr) return invalid("The name of extension ", i, " is NULL.");
      wanted.given->extensions.emplace_back(from.extensions[i]);
    }
    return ok_status();
  });
}

graft_status graft_vulkan_wanted(const graft_vulkan_device* device, const graft_vulkan_wanted_device** wanted) {
  if (wanted == nullptr) return GRAFT_INVALID_ARGUMENT;
  *wanted = nullptr;
  return or_without_memory(GRAFT_OUT_OF_MEMORY, [&] {
    const auto from = read_options(device, "graft_vulkan_device");
    if (!from.ok() || device == nullptr) return GRAFT_INVALID_ARGUMENT;
    auto found = vulkan::wanted_device(given_device(*from));
    if (!found.ok()) return static_cast<graft_status>(found.status().code());
    auto made = std::make_unique<Wanted>();
    made->device = std::move(found).value();
    for (const std::string& name : made->device.extensions) made->names.push_back(name.c_str());
    made->extensions = made->names.data();
    made->extension_count = static_cast<std::uint32_t>(made->names.size());
    made->features = static_cast<const VkPhysicalDeviceFeatures2*>(made->device.features.get());
    made->queue_family = made->device.queue_family;
    *wanted = made.release();
    return GRAFT_OK;
  });
}

void graft_vulkan_wanted_destroy(const graft_vulkan_wanted_device* wanted) {
  delete static_cast<const Wanted*>(wanted);
}
