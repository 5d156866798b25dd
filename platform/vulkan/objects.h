// The objects behind gpu::Buffer, gpu::Kernel and gpu::CommandList, and the pipeline layouts they share.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "platform/base/hash.h"
#include "platform/gpu/checks.h"
#include "platform/gpu/quirks.h"
#include "platform/vulkan/memory.h"
#include "platform/vulkan/submissions.h"

namespace graft::vulkan {

/// Pipelines that no kernel has any more, for the next kernel of the same code. Only of CPU devices: to compile is most
/// of a short run's work there, and their drivers' pipeline caches hold nothing.
class IdlePipelines {
 public:
  struct Key {
    Hash128 code;
    std::vector<std::uint32_t> specialization;
    VkPipelineLayout layout = VK_NULL_HANDLE;
    std::uint32_t subgroup_size = 0;
    bool in_parts = false;
    bool operator==(const Key&) const = default;
  };
  explicit IdlePipelines(Context& context) : context_(context) {}
  ~IdlePipelines();
  IdlePipelines(const IdlePipelines&) = delete;
  IdlePipelines& operator=(const IdlePipelines&) = delete;

  /// Makes the room that give() needs.
  void reserve() { pipelines_.reserve(kMost + 1); }
  /// Null: there is none of this key.
  VkPipeline take(const Key& key);
  /// Allocates nothing. The oldest is destroyed where there are too many. The device has ended all that uses them.
  void give(Key key, VkPipeline pipeline) noexcept;

 private:
  Context& context_;
  static constexpr std::size_t kMost = 64;
  std::vector<std::pair<Key, VkPipeline>> pipelines_;  ///< the oldest first
};

/// What every object needs to undo itself.
struct Owner {
  Context& context;
  MemoryPool& memory;
  Submissions& submissions;
  IdlePipelines* idle = nullptr;  ///< null: pipelines are destroyed with their kernels
};

class VulkanBuffer final : public gpu::Buffer {
 public:
  static Result<std::unique_ptr<gpu::Buffer>> create(Owner& owner, std::uint64_t bytes, gpu::MemoryKind kind,
                                                     std::string_view name);
  /// import.cpp
  static Result<std::unique_ptr<gpu::Buffer>> import(Owner& owner, const gpu::ExternalMemory& memory,
                                                     std::string_view name);
  ~VulkanBuffer() override;

  std::uint64_t size() const override { return size_; }
  std::string_view name() const override { return name_; }
  std::span<std::byte> mapped() override;
  VkBuffer handle() const { return handle_; }
  /// Of the VkBuffer: at least size().
  std::uint64_t whole_size() const { return whole_size_; }
  /// Whose queues it goes to and comes from: those of other APIs and devices, or this device's own.
  bool is_foreign() const { return imported_ != VK_NULL_HANDLE; }

 private:
  /// By `info`, whose size and next structure are the caller's.
  Status create_handle(VkBufferCreateInfo info, const std::string& doing);
  VulkanBuffer(Owner& owner, std::uint64_t bytes, std::string_view name) : owner_(owner), size_(bytes), name_(name) {}

  Owner& owner_;
  std::uint64_t size_;
  std::string name_;
  VkBuffer handle_ = VK_NULL_HANDLE;
  std::uint64_t whole_size_ = 0;
  Allocation allocation_;
  bool hidden_ = false;                       ///< from the host, whatever the memory's type
  VkDeviceMemory imported_ = VK_NULL_HANDLE;  ///< in place of the allocation
};

inline VulkanBuffer& buffer_of(const gpu::BufferRange& range) { return static_cast<VulkanBuffer&>(*range.buffer); }

/// Descriptor set and pipeline layouts, shared by all kernels with the same bindings and push block.
class LayoutCache {
 public:
  struct Layout {
    VkDescriptorSetLayout set = VK_NULL_HANDLE;  ///< null for a kernel without bindings
    VkPipelineLayout pipeline = VK_NULL_HANDLE;
  };
  explicit LayoutCache(Context& context) : context_(context) {}
  ~LayoutCache();
  LayoutCache(const LayoutCache&) = delete;
  LayoutCache& operator=(const LayoutCache&) = delete;

  /// Of storage buffers, followed by `texels` buffers of texels.
  struct Bindings {
    std::uint32_t buffers = 0;
    std::uint32_t texels = 0;
    auto operator<=>(const Bindings&) const = default;
  };
  Result<Layout> get(Bindings bindings, std::uint32_t push_bytes);

 private:
  Result<VkDescriptorSetLayout> set_layout(Bindings bindings);

  Context& context_;
  std::map<Bindings, VkDescriptorSetLayout> sets_;
  std::map<std::pair<Bindings, std::uint32_t>, VkPipelineLayout> pipelines_;
};

class VulkanKernel final : public gpu::Kernel {
 public:
  VulkanKernel(Owner& owner, const gpu::KernelDesc& desc, LayoutCache::Layout layout)
      : owner_(owner),
        name_(desc.name),
        bindings_(desc.bindings),
        texels_(desc.texels.begin(), desc.texels.end()),
        push_bytes_(desc.push_bytes),
        in_parts_(desc.in_parts),
        layout_(layout) {}
  ~VulkanKernel() override;

  /// All pipelines in one call through `cache`; all or nothing.
  static Result<std::vector<std::unique_ptr<gpu::Kernel>>> create(Owner& owner, LayoutCache& layouts,
                                                                  VkPipelineCache cache,
                                                                  std::span<const gpu::KernelDesc> descs);

  /// kernel_report.cpp
  Result<gpu::KernelReport> report() const;

  gpu::KernelShape shape() const { return {name_, bindings_, push_bytes_, in_parts_}; }
  const LayoutCache::Layout& layout() const { return layout_; }
  VkPipeline pipeline() const { return pipeline_; }
  std::span<const gpu::TexelView> texels() const { return texels_; }

 private:
  Owner& owner_;
  std::string name_;
  std::uint32_t bindings_;
  std::vector<gpu::TexelView> texels_;
  std::uint32_t push_bytes_;
  bool in_parts_;
  LayoutCache::Layout layout_;
  VkPipeline pipeline_ = VK_NULL_HANDLE;
  std::optional<IdlePipelines::Key> key_;  ///< where the pipeline may be used again
};

/// Owns a command buffer and the descriptor sets and queries that it uses.
class VulkanCommandList final : public gpu::CommandList {
 public:
  VulkanCommandList(Owner& owner, std::string_view name) : owner_(owner), name_(name) {}
  ~VulkanCommandList() override;

  /// Starts recording.
  Status begin(std::uint32_t timestamps);
  /// A descriptor set that lives as long as the list.
  Result<VkDescriptorSet> allocate_set(VkDescriptorSetLayout layout, std::uint32_t bindings);
  /// Of whole texels of so many words; lives as long as the list.
  Result<VkBufferView> view(const gpu::BufferRange& range, std::uint32_t words);
  Status end();
  Status read_timestamps(std::span<std::uint64_t> ticks);

  Owner& owner() { return owner_; }
  const std::string& name() const { return name_; }
  VkCommandBuffer commands() const { return commands_; }
  VkQueryPool queries() const { return queries_; }
  std::uint32_t timestamps() const { return timestamps_; }

  gpu::Ticket last_ticket = 0;  ///< of the newest submission; 0: never submitted

 private:
  Status add_descriptor_pool(std::uint32_t bindings);

  Owner& owner_;
  std::string name_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;
  VkQueryPool queries_ = VK_NULL_HANDLE;
  std::uint32_t timestamps_ = 0;
  std::vector<VkDescriptorPool> descriptor_pools_;
  std::vector<VkBufferView> views_;
  std::uint32_t sets_left_ = 0;
  std::uint32_t descriptors_left_ = 0;
};

Result<std::unique_ptr<gpu::Recorder>> make_recorder(Owner& owner, std::string_view name, std::uint32_t timestamps);

}  // namespace graft::vulkan
