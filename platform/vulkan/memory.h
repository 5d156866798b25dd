// Device memory: small buffers share blocks, large ones have their own allocation.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "platform/vulkan/context.h"

namespace graft::vulkan {

/// One VkDeviceMemory and what is free in it.
struct MemoryBlock {
  struct Range {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
  };
  VkDeviceMemory memory = VK_NULL_HANDLE;
  std::uint64_t size = 0;
  std::uint32_t type = 0;
  bool coherent = true;
  std::byte* mapped = nullptr;
  bool shared = false;
  std::vector<Range> free;  ///< sorted by offset, never adjacent: at most one more than `taken`
  std::size_t taken = 0;    ///< allocations in it

  /// Room to take one more allocation, and to give all of them back: that happens in destructors and must not fail.
  void reserve() {
    const std::size_t needed = taken + 3;  // one more taken, one more range than that, and one before ranges merge
    if (free.capacity() < needed) free.reserve(2 * needed);
  }
  bool empty() const { return taken == 0; }
};

struct Allocation {
  MemoryBlock* block = nullptr;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

class MemoryPool {
 public:
  MemoryPool(Context& context, std::uint64_t block_bytes, bool assume_non_coherent)
      : context_(context), block_bytes_(block_bytes), assume_non_coherent_(assume_non_coherent) {}
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  Result<Allocation> allocate(const VkMemoryRequirements& requirements, gpu::MemoryKind kind, std::string_view name);
  void release(const Allocation& allocation);

  /// Makes host writes visible to the device, or device writes to the host, where memory is mapped but not coherent.
  Status flush();
  Status invalidate();

  const gpu::MemoryStats& stats() const { return stats_; }
  /// See gpu::Device::available_memory(): of the heap that device buffers come from, by VK_EXT_memory_budget.
  std::uint64_t available() const;

 private:
  Result<std::uint32_t> choose_type(std::uint32_t allowed, gpu::MemoryKind kind) const;
  Result<MemoryBlock*> add_block(std::uint64_t size, std::uint32_t type, bool shared, std::string_view name);
  void remove_block(MemoryBlock* block);
  void update_ranges();
  bool is_coherent(std::uint32_t type) const;

  Context& context_;
  std::uint64_t block_bytes_;
  bool assume_non_coherent_;
  std::vector<std::unique_ptr<MemoryBlock>> blocks_;
  std::vector<VkMappedMemoryRange> non_coherent_;  ///< kept current, so that flush() allocates nothing
  gpu::MemoryStats stats_;
};

}  // namespace graft::vulkan
