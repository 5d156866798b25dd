#include "platform/vulkan/memory.h"

#include <algorithm>

#include "platform/base/checked.h"

namespace graft::vulkan {
namespace {

constexpr VkMemoryPropertyFlags kLocal = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
constexpr VkMemoryPropertyFlags kVisible = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT;
constexpr VkMemoryPropertyFlags kCoherent = VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
constexpr VkMemoryPropertyFlags kCached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
// Types with any other property (lazily allocated, protected, uncached, ...) are for purposes graft does not have.
constexpr VkMemoryPropertyFlags kUnderstood = kLocal | kVisible | kCoherent | kCached;

/// Higher is better; below zero: unusable.
int score(VkMemoryPropertyFlags flags, gpu::MemoryKind kind, bool unified) {
  if ((flags & ~kUnderstood) != 0) return -1;
  const auto has = [&](VkMemoryPropertyFlags wanted) { return (flags & wanted) == wanted; };
  switch (kind) {
    case gpu::MemoryKind::device:
      // On a discrete card the host-visible part of its memory is scarce: leave it alone.
      return (has(kLocal) ? 8 : 0) + (has(kVisible | kCoherent) == unified ? 4 : 0) + (unified && has(kCached) ? 2 : 0);
    case gpu::MemoryKind::upload:
      return has(kVisible | kCoherent) ? (has(kLocal) == unified ? 4 : 0) + (has(kCached) ? 0 : 2) : -1;
    case gpu::MemoryKind::readback:
      return has(kVisible) ? (has(kCached) ? 8 : 0) + (has(kCoherent) ? 4 : 0) + (has(kLocal) == unified ? 2 : 0) : -1;
  }
  return -1;
}

/// Takes `size` aligned bytes out of the first range that has room.
bool take(MemoryBlock& block, std::uint64_t size, std::uint64_t alignment, std::uint64_t& offset) {
  block.reserve();
  for (std::size_t i = 0; i < block.free.size(); ++i) {
    const MemoryBlock::Range range = block.free[i];
    offset = align_up(range.offset, alignment);
    const std::uint64_t skipped = offset - range.offset;
    if (skipped > range.size || size > range.size - skipped) continue;
    const MemoryBlock::Range rest{offset + size, range.size - skipped - size};
    block.free[i] = {range.offset, skipped};
    if (rest.size != 0) block.free.insert(block.free.begin() + static_cast<std::ptrdiff_t>(i) + 1, rest);
    if (skipped == 0) block.free.erase(block.free.begin() + static_cast<std::ptrdiff_t>(i));
    ++block.taken;
    return true;
  }
  return false;
}

void give_back(MemoryBlock& block, std::uint64_t offset, std::uint64_t size) {
  --block.taken;
  auto next = std::lower_bound(block.free.begin(), block.free.end(), offset,
                               [](const MemoryBlock::Range& range, std::uint64_t at) { return range.offset < at; });
  next = block.free.insert(next, {offset, size});
  if (next + 1 != block.free.end() && next->offset + next->size == (next + 1)->offset) {
    next->size += (next + 1)->size;
    block.free.erase(next + 1);
  }
  if (next != block.free.begin() && (next - 1)->offset + (next - 1)->size == next->offset) {
    (next - 1)->size += next->size;
    block.free.erase(next);
  }
}

}  // namespace

MemoryPool::~MemoryPool() {
  if (context_.stuck) return;
  while (!blocks_.empty()) remove_block(blocks_.back().get());
}

Result<std::uint32_t> MemoryPool::choose_type(std::uint32_t allowed, gpu::MemoryKind kind) const {
  const auto& memory = context_.physical.memory;
  int best_score = -1;
  std::uint32_t best = 0;
  for (std::uint32_t i = 0; i < memory.memoryTypeCount; ++i) {
    if ((allowed & (1u << i)) == 0) continue;
    const int value = score(memory.memoryTypes[i].propertyFlags, kind, context_.caps().unified_memory);
    if (value > best_score) best_score = value, best = i;
  }
  if (best_score < 0) {
    return unsupported("The device \"", context_.caps().device_name,
                       "\" offers no memory type for this kind of buffer.");
  }
  return best;
}

Result<Allocation> MemoryPool::allocate(const VkMemoryRequirements& requirements, gpu::MemoryKind kind,
                                        std::string_view name) {
  GRAFT_TRY_ASSIGN(const std::uint32_t type, choose_type(requirements.memoryTypeBits, kind));
  const std::uint64_t atom = is_coherent(type) ? 1 : context_.physical.non_coherent_atom;
  const std::uint64_t alignment = std::max<std::uint64_t>({requirements.alignment, atom, 1});
  const std::uint64_t size = align_up(requirements.size, atom);
  const bool shared = size < block_bytes_ / 4;

  Allocation allocation{nullptr, 0, size};
  if (shared) {
    for (const auto& block : blocks_) {
      if (block->shared && block->type == type && take(*block, size, alignment, allocation.offset)) {
        allocation.block = block.get();
        break;
      }
    }
  }
  if (allocation.block == nullptr) {
    GRAFT_TRY_ASSIGN(allocation.block, add_block(shared ? block_bytes_ : size, type, shared, name));
    GRAFT_CHECK(take(*allocation.block, size, alignment, allocation.offset));
  }
  stats_.bytes += size;
  stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.bytes);
  return allocation;
}

std::uint64_t MemoryPool::available() const {
  if (!context_.physical.has_extension(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME)) return gpu::kUnknownMemory;
  const auto type = choose_type(~0u, gpu::MemoryKind::device);
  if (!type.ok()) return gpu::kUnknownMemory;
  VkPhysicalDeviceMemoryBudgetPropertiesEXT budget{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
  VkPhysicalDeviceMemoryProperties2 all{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
  all.pNext = &budget;
  context_.instance->fn().GetPhysicalDeviceMemoryProperties2(context_.physical.handle, &all);
  const std::uint32_t heap = context_.physical.memory.memoryTypes[*type].heapIndex;
  const std::uint64_t most = budget.heapBudget[heap];
  // A software device's heap is the machine's memory: its budget is what is free there, its usage that of all
  // processes.
  if (context_.caps().type == gpu::DeviceType::cpu) return most;
  const std::uint64_t used = budget.heapUsage[heap];
  return most > used ? most - used : 0;
}

void MemoryPool::release(const Allocation& allocation) {
  stats_.bytes -= allocation.size;
  give_back(*allocation.block, allocation.offset, allocation.size);
  if (allocation.block->empty()) remove_block(allocation.block);
}

Result<MemoryBlock*> MemoryPool::add_block(std::uint64_t size, std::uint32_t type, bool shared, std::string_view name) {
  const auto doing = [&] {
    return cat("Allocating ", bytes_text(size), " of device memory for buffer \"", name, "\" (",
               bytes_text(stats_.bytes), " are in use)");
  };
  VkMemoryAllocateInfo info{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
  info.allocationSize = size;
  info.memoryTypeIndex = type;
  // Whatever can fail here comes before the call, so that no device memory is left without an owner.
  auto block = std::make_unique<MemoryBlock>();
  block->reserve();
  block->free.push_back({0, size});
  blocks_.reserve(blocks_.size() + 1);
  non_coherent_.reserve(blocks_.size() + 1);
  VkResult result = GRAFT_VK_DEVICE_CALL(context_, AllocateMemory, &info, nullptr, &block->memory);
  if (result != VK_SUCCESS) return context_.failed(result, "vkAllocateMemory", doing());
  const VkMemoryPropertyFlags flags = context_.physical.memory.memoryTypes[type].propertyFlags;
  if ((flags & kVisible) != 0) {
    void* address = nullptr;
    result = GRAFT_VK_DEVICE_CALL(context_, MapMemory, block->memory, 0, VK_WHOLE_SIZE, 0, &address);
    if (result != VK_SUCCESS) {
      context_.fn.FreeMemory(context_.device, block->memory, nullptr);
      return context_.failed(result, "vkMapMemory", doing());
    }
    block->mapped = static_cast<std::byte*>(address);
  }
  block->size = size;
  block->type = type;
  block->coherent = is_coherent(type);
  block->shared = shared;
  ++stats_.allocations;
  stats_.reserved_bytes += size;
  MemoryBlock* added = block.get();
  blocks_.push_back(std::move(block));
  update_ranges();
  return added;
}

void MemoryPool::remove_block(MemoryBlock* block) {
  context_.fn.FreeMemory(context_.device, block->memory, nullptr);  // unmaps as well
  stats_.reserved_bytes -= block->size;
  std::erase_if(blocks_, [&](const auto& it) { return it.get() == block; });
  update_ranges();
}

bool MemoryPool::is_coherent(std::uint32_t type) const {
  return !assume_non_coherent_ && (context_.physical.memory.memoryTypes[type].propertyFlags & kCoherent) != 0;
}

void MemoryPool::update_ranges() {
  non_coherent_.clear();
  for (const auto& block : blocks_) {
    if (block->mapped == nullptr || block->coherent) continue;
    VkMappedMemoryRange range{VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE};
    range.memory = block->memory;
    range.size = VK_WHOLE_SIZE;
    non_coherent_.push_back(range);
  }
}

Status MemoryPool::flush() {
  if (non_coherent_.empty()) return ok_status();
  const VkResult result = GRAFT_VK_DEVICE_CALL(context_, FlushMappedMemoryRanges,
                                               static_cast<std::uint32_t>(non_coherent_.size()), non_coherent_.data());
  if (result == VK_SUCCESS) return ok_status();
  return context_.failed(result, "vkFlushMappedMemoryRanges", "Making host writes visible to the device");
}

Status MemoryPool::invalidate() {
  if (non_coherent_.empty()) return ok_status();
  const VkResult result = GRAFT_VK_DEVICE_CALL(context_, InvalidateMappedMemoryRanges,
                                               static_cast<std::uint32_t>(non_coherent_.size()), non_coherent_.data());
  if (result == VK_SUCCESS) return ok_status();
  return context_.failed(result, "vkInvalidateMappedMemoryRanges", "Making device writes visible to the host");
}

}  // namespace graft::vulkan
