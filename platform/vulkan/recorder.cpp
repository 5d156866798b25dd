#include <algorithm>

#include "platform/vulkan/objects.h"

namespace graft::vulkan {
namespace {

constexpr VkPipelineStageFlags kWorkStages = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
constexpr VkAccessFlags kWrites = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
constexpr VkAccessFlags kAll = kWrites | VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_TRANSFER_READ_BIT;

class VulkanRecorder final : public gpu::Recorder {
 public:
  VulkanRecorder(Owner& owner, std::string_view name)
      : context_(owner.context), list_(std::make_unique<VulkanCommandList>(owner, name)) {}

  Status begin(std::uint32_t timestamps) {
    GRAFT_TRY(list_->begin(timestamps));
    barrier();  // lists are ordered among each other
    return ok_status();
  }

  void dispatch(gpu::Kernel& kernel, std::span<const gpu::BufferRange> bindings, std::span<const std::byte> push,
                std::array<std::uint32_t, 3> groups, std::array<std::uint32_t, 3> first) override {
    if (error_.ok()) latch(try_dispatch(static_cast<VulkanKernel&>(kernel), bindings, push, groups, first));
  }
  void copy(const gpu::BufferRange& from, const gpu::BufferRange& to) override {
    if (error_.ok()) latch(try_copy(from, to));
  }
  void fill(const gpu::BufferRange& to, std::uint32_t word) override {
    if (error_.ok()) latch(try_fill(to, word));
  }
  void barrier() override { memory_barrier(kWorkStages, kAll); }
  void host_barrier() override {
    memory_barrier(kWorkStages | VK_PIPELINE_STAGE_HOST_BIT, kAll | VK_ACCESS_HOST_READ_BIT);
  }
  void acquire(gpu::Buffer& buffer) override { transfer(buffer, true); }
  void release(gpu::Buffer& buffer) override { transfer(buffer, false); }
  void timestamp(std::uint32_t index) override {
    if (!error_.ok()) return;
    if (index >= list_->timestamps()) {
      return latch(invalid("Timestamp ", index, " is out of range: the list was given ", list_->timestamps(), "."));
    }
    context_.fn.CmdWriteTimestamp(list_->commands(), VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, list_->queries(), index);
  }
  void begin_label(std::string_view name) override;
  void end_label() override;
  Result<std::unique_ptr<gpu::CommandList>> finish() override;

 private:
  void latch(Status status) {
    if (!status.ok()) error_ = std::move(status).with_context(cat("While recording \"", list_->name(), "\""));
  }
  void memory_barrier(VkPipelineStageFlags to_stages, VkAccessFlags to_access);
  void transfer(gpu::Buffer& buffer, bool here);
  Status try_dispatch(VulkanKernel& kernel, std::span<const gpu::BufferRange> bindings, std::span<const std::byte> push,
                      const std::array<std::uint32_t, 3>& groups, const std::array<std::uint32_t, 3>& first);
  Status bind_buffers(const VulkanKernel& kernel, std::span<const gpu::BufferRange> bindings);
  Status try_copy(const gpu::BufferRange& from, const gpu::BufferRange& to);
  Status try_fill(const gpu::BufferRange& to, std::uint32_t word);

  Context& context_;
  std::unique_ptr<VulkanCommandList> list_;
  Status error_;
  int open_labels_ = 0;
  VkPipeline bound_ = VK_NULL_HANDLE;
  std::vector<VkDescriptorBufferInfo> infos_;
  std::vector<VkBufferView> views_;
  std::vector<VkWriteDescriptorSet> writes_;
};

void VulkanRecorder::memory_barrier(VkPipelineStageFlags to_stages, VkAccessFlags to_access) {
  if (!error_.ok()) return;
  VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER};
  barrier.srcAccessMask = kWrites;
  barrier.dstAccessMask = to_access;
  context_.fn.CmdPipelineBarrier(list_->commands(), kWorkStages, to_stages, 0, 1, &barrier, 0, nullptr, 0, nullptr);
}

/// Of ownership, from or to whatever is outside of this device (Vulkan specification, "Queue Family Ownership
/// Transfer").
void VulkanRecorder::transfer(gpu::Buffer& buffer, bool here) {
  const auto& imported = static_cast<VulkanBuffer&>(buffer);
  if (!error_.ok() || !imported.is_foreign()) return;
  VkBufferMemoryBarrier barrier{VK_STRUCTURE_TYPE_BUFFER_MEMORY_BARRIER};
  const std::uint32_t own = context_.physical.queue_family;
  barrier.srcAccessMask = here ? 0 : kWrites;
  barrier.dstAccessMask = here ? kAll : 0;
  barrier.srcQueueFamilyIndex = here ? VK_QUEUE_FAMILY_EXTERNAL : own;
  barrier.dstQueueFamilyIndex = here ? own : VK_QUEUE_FAMILY_EXTERNAL;
  barrier.buffer = imported.handle();
  barrier.size = VK_WHOLE_SIZE;
  const VkPipelineStageFlags outside = here ? VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT : VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT;
  context_.fn.CmdPipelineBarrier(list_->commands(), here ? outside : kWorkStages, here ? kWorkStages : outside, 0, 0,
                                 nullptr, 1, &barrier, 0, nullptr);
}

Status VulkanRecorder::try_dispatch(VulkanKernel& kernel, std::span<const gpu::BufferRange> bindings,
                                    std::span<const std::byte> push, const std::array<std::uint32_t, 3>& groups,
                                    const std::array<std::uint32_t, 3>& first) {
  GRAFT_TRY(gpu::check_dispatch(kernel.shape(), bindings, push.size(), groups, first, context_.caps()));
  if (groups[0] == 0 || groups[1] == 0 || groups[2] == 0) return ok_status();
  if (bound_ != kernel.pipeline()) {
    context_.fn.CmdBindPipeline(list_->commands(), VK_PIPELINE_BIND_POINT_COMPUTE, kernel.pipeline());
    bound_ = kernel.pipeline();
  }
  if (!bindings.empty()) GRAFT_TRY(bind_buffers(kernel, bindings));
  if (!push.empty()) {
    context_.fn.CmdPushConstants(list_->commands(), kernel.layout().pipeline, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                                 static_cast<std::uint32_t>(push.size()), push.data());
  }
  if (kernel.shape().in_parts) {
    context_.fn.CmdDispatchBase(list_->commands(), first[0], first[1], first[2], groups[0], groups[1], groups[2]);
  } else {
    context_.fn.CmdDispatch(list_->commands(), groups[0], groups[1], groups[2]);
  }
  return ok_status();
}

Status VulkanRecorder::bind_buffers(const VulkanKernel& kernel, std::span<const gpu::BufferRange> bindings) {
  const std::span<const gpu::TexelView> texels = kernel.texels();
  const auto count = static_cast<std::uint32_t>(bindings.size() + texels.size());
  GRAFT_TRY_ASSIGN(VkDescriptorSet set, list_->allocate_set(kernel.layout().set, count));
  infos_.resize(bindings.size());
  views_.resize(texels.size());
  writes_.resize(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    writes_[i] = {VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET};
    writes_[i].dstSet = set;
    writes_[i].dstBinding = i;
    writes_[i].descriptorCount = 1;
    if (i < bindings.size()) {
      infos_[i] = {buffer_of(bindings[i]).handle(), bindings[i].offset, bindings[i].size};
      writes_[i].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
      writes_[i].pBufferInfo = &infos_[i];
    } else {
      const gpu::TexelView& texel = texels[i - bindings.size()];
      VkBufferView& view = views_[i - bindings.size()];
      GRAFT_TRY_ASSIGN(view, list_->view(bindings[texel.binding], texel.words));
      writes_[i].descriptorType = VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER;
      writes_[i].pTexelBufferView = &view;
    }
  }
  context_.fn.UpdateDescriptorSets(context_.device, count, writes_.data(), 0, nullptr);
  context_.fn.CmdBindDescriptorSets(list_->commands(), VK_PIPELINE_BIND_POINT_COMPUTE, kernel.layout().pipeline, 0, 1,
                                    &set, 0, nullptr);
  return ok_status();
}

Status VulkanRecorder::try_copy(const gpu::BufferRange& from, const gpu::BufferRange& to) {
  GRAFT_TRY(gpu::check_copy(from, to));
  const VkBufferCopy region{from.offset, to.offset, from.size};
  context_.fn.CmdCopyBuffer(list_->commands(), buffer_of(from).handle(), buffer_of(to).handle(), 1, &region);
  return ok_status();
}

Status VulkanRecorder::try_fill(const gpu::BufferRange& to, std::uint32_t word) {
  GRAFT_TRY(gpu::check_fill(to));
  constexpr VkDeviceSize kAlignment = 16, kLarge = 4096;
  VkDeviceSize offset = to.offset, size = to.size;
  if (context_.target().quirks.align_fills && size >= kLarge && offset % kAlignment != 0) {
    const VkDeviceSize head = kAlignment - offset % kAlignment;
    context_.fn.CmdFillBuffer(list_->commands(), buffer_of(to).handle(), offset, head, word);
    offset += head;
    size -= head;
  }
  context_.fn.CmdFillBuffer(list_->commands(), buffer_of(to).handle(), offset, size, word);
  return ok_status();
}

void VulkanRecorder::begin_label(std::string_view name) {
  if (!error_.ok()) return;
  ++open_labels_;
  if (context_.fn.CmdBeginDebugUtilsLabelEXT == nullptr) return;
  const std::string text(name);
  VkDebugUtilsLabelEXT label{VK_STRUCTURE_TYPE_DEBUG_UTILS_LABEL_EXT};
  label.pLabelName = text.c_str();
  context_.fn.CmdBeginDebugUtilsLabelEXT(list_->commands(), &label);
}

void VulkanRecorder::end_label() {
  if (!error_.ok()) return;
  if (open_labels_ == 0) return latch(invalid("end_label() was called without begin_label()."));
  --open_labels_;
  if (context_.fn.CmdEndDebugUtilsLabelEXT != nullptr) context_.fn.CmdEndDebugUtilsLabelEXT(list_->commands());
}

Result<std::unique_ptr<gpu::CommandList>> VulkanRecorder::finish() {
  if (list_ == nullptr) return invalid("finish() was called twice on one recorder.");
  if (error_.ok() && open_labels_ != 0) latch(invalid(open_labels_, " labels were not ended."));
  if (error_.ok()) latch(list_->end());
  auto list = std::move(list_);
  if (!error_.ok()) return std::move(error_);
  return std::unique_ptr<gpu::CommandList>(std::move(list));
}

}  // namespace

Result<std::unique_ptr<gpu::Recorder>> make_recorder(Owner& owner, std::string_view name, std::uint32_t timestamps) {
  auto recorder = std::make_unique<VulkanRecorder>(owner, name);
  GRAFT_TRY(recorder->begin(timestamps));
  return std::unique_ptr<gpu::Recorder>(std::move(recorder));
}

}  // namespace graft::vulkan
