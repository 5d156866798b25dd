#include "platform/base/checked.h"
#include "platform/vulkan/objects.h"

namespace graft::vulkan {

Result<std::unique_ptr<gpu::Buffer>> VulkanBuffer::create(Owner& owner, std::uint64_t bytes, gpu::MemoryKind kind,
                                                          std::string_view name) {
  Context& context = owner.context;
  GRAFT_TRY(gpu::check_buffer_size(bytes, name, context.caps()));
  std::unique_ptr<VulkanBuffer> buffer(new VulkanBuffer(owner, bytes, name));
  const auto doing = [&] { return cat("Creating buffer \"", name, "\" of ", bytes_text(bytes)); };
  constexpr std::uint64_t kTexel = 16;  // the last may be read whole
  VkBufferCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
  info.size = gpu::reads_texels(context.caps()) ? align_up(bytes, kTexel) : gpu::usable_size(bytes);
  GRAFT_TRY(buffer->create_handle(info, doing()));
  context.set_name(VK_OBJECT_TYPE_BUFFER, buffer->handle_, name);

  VkMemoryRequirements requirements{};
  context.fn.GetBufferMemoryRequirements(context.device, buffer->handle_, &requirements);
  GRAFT_TRY_ASSIGN(buffer->allocation_, owner.memory.allocate(requirements, kind, name));
  buffer->hidden_ = context.hides_memory && kind == gpu::MemoryKind::device;
  const Allocation& at = buffer->allocation_;
  const VkResult result = GRAFT_VK_DEVICE_CALL(context, BindBufferMemory, buffer->handle_, at.block->memory, at.offset);
  if (result != VK_SUCCESS) return context.failed(result, "vkBindBufferMemory", doing());
  return std::unique_ptr<gpu::Buffer>(std::move(buffer));
}

Status VulkanBuffer::create_handle(VkBufferCreateInfo info, const std::string& doing) {
  Context& context = owner_.context;
  info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  if (gpu::reads_texels(context.caps())) info.usage |= VK_BUFFER_USAGE_UNIFORM_TEXEL_BUFFER_BIT;
  const VkResult result = GRAFT_VK_DEVICE_CALL(context, CreateBuffer, &info, nullptr, &handle_);
  if (result != VK_SUCCESS) return context.failed(result, "vkCreateBuffer", doing);
  whole_size_ = info.size;
  return ok_status();
}

VulkanBuffer::~VulkanBuffer() {
  if (!owner_.submissions.quiesce()) return;  // the device may still write there
  if (handle_ != VK_NULL_HANDLE) owner_.context.fn.DestroyBuffer(owner_.context.device, handle_, nullptr);
  if (allocation_.block != nullptr) owner_.memory.release(allocation_);
  if (imported_ != VK_NULL_HANDLE) owner_.context.fn.FreeMemory(owner_.context.device, imported_, nullptr);
}

std::span<std::byte> VulkanBuffer::mapped() {
  if (allocation_.block == nullptr || hidden_) return {};
  std::byte* base = allocation_.block->mapped;
  if (base == nullptr) return {};
  return {base + allocation_.offset, static_cast<std::size_t>(size_)};
}

}  // namespace graft::vulkan
