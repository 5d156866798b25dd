// Buffers over memory that others allocated (VK_KHR_external_memory_fd, VK_EXT_external_memory_dma_buf,
// VK_EXT_external_memory_host, VK_ANDROID_external_memory_android_hardware_buffer).
#include <bit>

#include "platform/vulkan/objects.h"

#ifndef _WIN32
#include <unistd.h>
#endif

namespace graft::vulkan {
namespace {

using gpu::ExternalMemory;

struct Importing {
  const char* extension;
  VkExternalMemoryHandleTypeFlagBits type;
};

Importing importing(ExternalMemory::Kind kind) {
  switch (kind) {
    case ExternalMemory::Kind::opaque_fd:
      return {VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME, VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT};
    case ExternalMemory::Kind::dma_buf:
      return {VK_EXT_EXTERNAL_MEMORY_DMA_BUF_EXTENSION_NAME, VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT};
    case ExternalMemory::Kind::hardware_buffer:
      return {VK_ANDROID_EXTERNAL_MEMORY_ANDROID_HARDWARE_BUFFER_EXTENSION_NAME,
              VK_EXTERNAL_MEMORY_HANDLE_TYPE_ANDROID_HARDWARE_BUFFER_BIT_ANDROID};
    case ExternalMemory::Kind::host_pointer: break;
  }
  return {VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME, VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT};
}

/// An fd of its own: an import takes it, and the caller's stays the caller's.
class OwnFd {
 public:
#ifdef _WIN32
  explicit OwnFd(int) {}
#else
  explicit OwnFd(int fd) : fd_(fd < 0 ? -1 : ::dup(fd)) {}
  ~OwnFd() {
    if (fd_ >= 0) ::close(fd_);
  }
#endif
  OwnFd(const OwnFd&) = delete;
  OwnFd& operator=(const OwnFd&) = delete;
  int get() const { return fd_; }
  void given() { fd_ = -1; }

 private:
  int fd_ = -1;
};

/// Host memory is imported in whole units.
Status check_host_memory(Context& context, const ExternalMemory& memory) {
  VkPhysicalDeviceExternalMemoryHostPropertiesEXT host{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT};
  VkPhysicalDeviceProperties2 all{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
  all.pNext = &host;
  context.instance->fn().GetPhysicalDeviceProperties2(context.physical.handle, &all);
  const std::uint64_t unit = host.minImportedHostPointerAlignment;
  if (memory.pointer != nullptr && reinterpret_cast<std::uintptr_t>(memory.pointer) % unit == 0 &&
      memory.bytes % unit == 0) {
    return ok_status();
  }
  return invalid("Host memory is taken from an address and in a size that are multiples of ", unit, "; ", memory.bytes,
                 " bytes at ", memory.pointer, " are not.");
}

/// As what a handle can be imported.
struct Importable {
  std::uint32_t types = ~0u;  ///< of memory; all where Vulkan does not say
  std::uint64_t bytes = 0;    ///< of the allocation
};

Result<Importable> importable(Context& context, const ExternalMemory& memory, int fd) {
  VkResult result = VK_SUCCESS;
  Importable out{.bytes = memory.bytes};
  if (memory.kind == ExternalMemory::Kind::dma_buf && context.fn.GetMemoryFdPropertiesKHR != nullptr) {
    VkMemoryFdPropertiesKHR found{VK_STRUCTURE_TYPE_MEMORY_FD_PROPERTIES_KHR};
    result = GRAFT_VK_DEVICE_CALL(context, GetMemoryFdPropertiesKHR, VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT, fd,
                                  &found);
    out.types = found.memoryTypeBits;
  } else if (memory.kind == ExternalMemory::Kind::host_pointer) {
    VkMemoryHostPointerPropertiesEXT found{VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT};
    result = GRAFT_VK_DEVICE_CALL(context, GetMemoryHostPointerPropertiesEXT,
                                  VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT, memory.pointer, &found);
    out.types = found.memoryTypeBits;
  } else if (memory.kind == ExternalMemory::Kind::hardware_buffer) {
    VkAndroidHardwareBufferPropertiesANDROID found{VK_STRUCTURE_TYPE_ANDROID_HARDWARE_BUFFER_PROPERTIES_ANDROID};
    result = GRAFT_VK_DEVICE_CALL(context, GetAndroidHardwareBufferPropertiesANDROID,
                                  static_cast<AHardwareBuffer*>(memory.pointer), &found);
    out = {found.memoryTypeBits, found.allocationSize};
  }
  if (result != VK_SUCCESS) return context.failed(result, "asking for memory types", "Importing memory");
  return out;
}

}  // namespace

Result<std::unique_ptr<gpu::Buffer>> VulkanBuffer::import(Owner& owner, const ExternalMemory& memory,
                                                          std::string_view name) {
  Context& context = owner.context;
  const Importing how = importing(memory.kind);
  if (!context.physical.has_extension(how.extension)) {
    return unsupported("The device \"", context.caps().device_name, "\" lacks ", how.extension, ".");
  }
  GRAFT_TRY(gpu::check_buffer_size(memory.bytes, name, context.caps()));
  const bool host = memory.kind == ExternalMemory::Kind::host_pointer;
  const bool android = memory.kind == ExternalMemory::Kind::hardware_buffer;
  if (host) GRAFT_TRY(check_host_memory(context, memory));
  if (android && memory.pointer == nullptr) return invalid("The AHardwareBuffer of \"", name, "\" is NULL.");
  OwnFd fd(host || android ? -1 : memory.fd);
  if (!host && !android && fd.get() < 0) return invalid("The memory of \"", name, "\" has no valid file descriptor.");

  std::unique_ptr<VulkanBuffer> buffer(new VulkanBuffer(owner, memory.bytes, name));
  const auto doing = [&] { return cat("Importing ", bytes_text(memory.bytes), " as \"", name, "\""); };
  VkExternalMemoryBufferCreateInfo external{VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO};
  external.handleTypes = static_cast<VkExternalMemoryHandleTypeFlags>(how.type);
  VkBufferCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
  info.pNext = &external;
  info.size = memory.bytes;
  GRAFT_TRY(buffer->create_handle(info, doing()));
  VkMemoryRequirements needs{};
  context.fn.GetBufferMemoryRequirements(context.device, buffer->handle_, &needs);
  GRAFT_TRY_ASSIGN(const Importable found, importable(context, memory, fd.get()));
  if (needs.size > found.bytes) {
    return invalid("A buffer of ", memory.bytes, " bytes needs an allocation of ", needs.size, " here.");
  }
  std::uint32_t types = needs.memoryTypeBits & found.types;
  if (memory.memory_type) types &= *memory.memory_type < 32 ? 1u << *memory.memory_type : 0u;
  if (types == 0) return unsupported("The memory of \"", name, "\" has a type that buffers cannot be made of.");

  VkImportMemoryFdInfoKHR by_fd{VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR};
  by_fd.handleType = how.type;
  by_fd.fd = fd.get();
  VkImportMemoryHostPointerInfoEXT by_pointer{VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT};
  by_pointer.handleType = how.type;
  by_pointer.pHostPointer = memory.pointer;
  VkImportAndroidHardwareBufferInfoANDROID by_buffer{VK_STRUCTURE_TYPE_IMPORT_ANDROID_HARDWARE_BUFFER_INFO_ANDROID};
  by_buffer.buffer = static_cast<AHardwareBuffer*>(memory.pointer);
  VkMemoryAllocateInfo allocate{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
  allocate.pNext = host      ? static_cast<const void*>(&by_pointer)
                   : android ? static_cast<const void*>(&by_buffer)
                             : &by_fd;
  allocate.allocationSize = found.bytes;
  allocate.memoryTypeIndex = static_cast<std::uint32_t>(std::countr_zero(types));
  VkResult result = GRAFT_VK_DEVICE_CALL(context, AllocateMemory, &allocate, nullptr, &buffer->imported_);
  if (result != VK_SUCCESS) return context.failed(result, "vkAllocateMemory", doing());
  fd.given();
  result = GRAFT_VK_DEVICE_CALL(context, BindBufferMemory, buffer->handle_, buffer->imported_, 0);
  if (result != VK_SUCCESS) return context.failed(result, "vkBindBufferMemory", doing());
  return std::unique_ptr<gpu::Buffer>(std::move(buffer));
}

}  // namespace graft::vulkan
