#include <algorithm>

#include "platform/base/checked.h"
#include "platform/vulkan/objects.h"

namespace graft::vulkan {
namespace {

constexpr std::uint32_t kSetsPerPool = 128;
constexpr std::uint32_t kBindingsPerSet = 4;  // a guess at the mean; a pool that runs out is followed by another

}  // namespace

VulkanCommandList::~VulkanCommandList() {
  if (!owner_.submissions.quiesce()) return;
  const Context& context = owner_.context;
  for (VkBufferView view : views_) context.fn.DestroyBufferView(context.device, view, nullptr);
  for (VkDescriptorPool pool : descriptor_pools_) context.fn.DestroyDescriptorPool(context.device, pool, nullptr);
  if (queries_ != VK_NULL_HANDLE) context.fn.DestroyQueryPool(context.device, queries_, nullptr);
  if (pool_ != VK_NULL_HANDLE) context.fn.DestroyCommandPool(context.device, pool_, nullptr);
}

Status VulkanCommandList::begin(std::uint32_t timestamps) {
  Context& context = owner_.context;
  const auto doing = [&] { return cat("Recording \"", name_, "\""); };
  VkCommandPoolCreateInfo pool{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
  pool.queueFamilyIndex = context.physical.queue_family;
  VkResult result = GRAFT_VK_DEVICE_CALL(context, CreateCommandPool, &pool, nullptr, &pool_);
  if (result != VK_SUCCESS) return context.failed(result, "vkCreateCommandPool", doing());
  VkCommandBufferAllocateInfo allocate{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
  allocate.commandPool = pool_;
  allocate.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  allocate.commandBufferCount = 1;
  result = GRAFT_VK_DEVICE_CALL(context, AllocateCommandBuffers, &allocate, &commands_);
  if (result != VK_SUCCESS) return context.failed(result, "vkAllocateCommandBuffers", doing());
  context.set_name(VK_OBJECT_TYPE_COMMAND_BUFFER, commands_, name_);
  if (timestamps > 0 && context.physical.timestamp_bits == 0) {
    return unsupported("The device \"", context.caps().device_name, "\" has no timestamps.");
  }
  if (timestamps > 0) {
    VkQueryPoolCreateInfo queries{VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO};
    queries.queryType = VK_QUERY_TYPE_TIMESTAMP;
    queries.queryCount = timestamps;
    result = GRAFT_VK_DEVICE_CALL(context, CreateQueryPool, &queries, nullptr, &queries_);
    if (result != VK_SUCCESS) return context.failed(result, "vkCreateQueryPool", doing());
    timestamps_ = timestamps;
  }
  const VkCommandBufferBeginInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  result = GRAFT_VK_CALL(context.faults, context.fn, BeginCommandBuffer, commands_, &info);
  if (result != VK_SUCCESS) return context.failed(result, "vkBeginCommandBuffer", doing());
  if (timestamps > 0) context.fn.CmdResetQueryPool(commands_, queries_, 0, timestamps);
  return ok_status();
}

Status VulkanCommandList::add_descriptor_pool(std::uint32_t bindings) {
  Context& context = owner_.context;
  // Long recordings take few, large pools.
  const std::uint32_t sets = kSetsPerPool << std::min<std::size_t>(descriptor_pools_.size(), 5);
  const std::uint32_t descriptors = std::max(sets * kBindingsPerSet, bindings);
  const std::array sizes = {VkDescriptorPoolSize{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, descriptors},
                            VkDescriptorPoolSize{VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER, descriptors}};
  VkDescriptorPoolCreateInfo info{VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO};
  info.maxSets = sets;
  info.poolSizeCount = static_cast<std::uint32_t>(sizes.size());
  info.pPoolSizes = sizes.data();
  VkDescriptorPool pool = VK_NULL_HANDLE;
  const VkResult result = GRAFT_VK_DEVICE_CALL(context, CreateDescriptorPool, &info, nullptr, &pool);
  if (result != VK_SUCCESS) return context.failed(result, "vkCreateDescriptorPool", cat("Recording \"", name_, "\""));
  descriptor_pools_.push_back(pool);
  sets_left_ = sets;
  descriptors_left_ = descriptors;
  return ok_status();
}

Result<VkDescriptorSet> VulkanCommandList::allocate_set(VkDescriptorSetLayout layout, std::uint32_t bindings) {
  Context& context = owner_.context;
  if (sets_left_ == 0 || descriptors_left_ < bindings) GRAFT_TRY(add_descriptor_pool(bindings));
  VkDescriptorSetAllocateInfo info{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO};
  info.descriptorPool = descriptor_pools_.back();
  info.descriptorSetCount = 1;
  info.pSetLayouts = &layout;
  VkDescriptorSet set = VK_NULL_HANDLE;
  const VkResult result = GRAFT_VK_DEVICE_CALL(context, AllocateDescriptorSets, &info, &set);
  if (result != VK_SUCCESS) return context.failed(result, "vkAllocateDescriptorSets", cat("Recording \"", name_, "\""));
  --sets_left_;
  descriptors_left_ -= bindings;
  return set;
}

Result<VkBufferView> VulkanCommandList::view(const gpu::BufferRange& range, std::uint32_t words) {
  Context& context = owner_.context;
  const VulkanBuffer& buffer = buffer_of(range);
  const std::uint64_t rest = buffer.whole_size() - range.offset;
  if (rest < 4ull * words) words = 1;  // a kernel that is given less than a vector reads it as numbers
  const std::uint64_t texel = 4ull * words;
  VkBufferViewCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_VIEW_CREATE_INFO};
  info.buffer = buffer.handle();
  info.format = words == 1 ? VK_FORMAT_R32_UINT : words == 2 ? VK_FORMAT_R32G32_UINT : VK_FORMAT_R32G32B32A32_UINT;
  info.offset = range.offset;
  info.range = std::min(align_up(range.size, texel), rest / texel * texel);
  VkBufferView view = VK_NULL_HANDLE;
  const VkResult result = GRAFT_VK_DEVICE_CALL(context, CreateBufferView, &info, nullptr, &view);
  if (result != VK_SUCCESS) return context.failed(result, "vkCreateBufferView", cat("Recording \"", name_, "\""));
  views_.push_back(view);
  return view;
}

Status VulkanCommandList::end() {
  Context& context = owner_.context;
  const VkResult result = GRAFT_VK_CALL(context.faults, context.fn, EndCommandBuffer, commands_);
  if (result == VK_SUCCESS) return ok_status();
  return context.failed(result, "vkEndCommandBuffer", cat("Recording \"", name_, "\""));
}

Status VulkanCommandList::read_timestamps(std::span<std::uint64_t> ticks) {
  Context& context = owner_.context;
  if (ticks.size() > timestamps_) {
    return invalid("List \"", name_, "\" has ", timestamps_, " timestamps, but ", ticks.size(), " were asked for.");
  }
  if (last_ticket == 0) return invalid("List \"", name_, "\" was never submitted, so it has no timestamps.");
  if (ticks.empty()) return ok_status();
  const VkResult result = GRAFT_VK_DEVICE_CALL(
      context, GetQueryPoolResults, queries_, 0u, static_cast<std::uint32_t>(ticks.size()), ticks.size_bytes(),
      ticks.data(), VkDeviceSize{8}, VkQueryResultFlags{VK_QUERY_RESULT_64_BIT});
  if (result == VK_NOT_READY) {
    return invalid("List \"", name_, "\" still runs, or did not write every timestamp asked for.");
  }
  if (result != VK_SUCCESS) {
    return context.failed(result, "vkGetQueryPoolResults", cat("Reading the timestamps of \"", name_, "\""));
  }
  const std::uint32_t bits = context.physical.timestamp_bits;
  if (bits < 64) {
    for (std::uint64_t& tick : ticks) tick &= (std::uint64_t{1} << bits) - 1;
  }
  return ok_status();
}

}  // namespace graft::vulkan
