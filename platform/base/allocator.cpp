#include "platform/base/allocator.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>
#if defined(_WIN32)
#include <malloc.h>
#endif

namespace graft {
namespace {

#if defined(_WIN32)
void* aligned(std::size_t bytes, std::size_t alignment) { return _aligned_malloc(bytes, alignment); }
void release(void* block) { _aligned_free(block); }
#else
void* aligned(std::size_t bytes, std::size_t alignment) {
  void* block = nullptr;  // Android has aligned_alloc from API 28 on only
  return posix_memalign(&block, alignment, bytes) == 0 ? block : nullptr;
}
void release(void* block) { std::free(block); }
#endif

void* malloc_allocate(void*, std::size_t bytes, std::size_t alignment) {
  if (bytes > std::numeric_limits<std::size_t>::max() / 2) return nullptr;
  return aligned(bytes, std::max(alignment, sizeof(void*)));
}

void malloc_release(void*, void* block, std::size_t, std::size_t) { release(block); }

}  // namespace

HostAllocator default_host_allocator() { return {malloc_allocate, malloc_release, nullptr}; }

HostBuffer::HostBuffer(HostBuffer&& other) noexcept
    : allocator_(other.allocator_), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

HostBuffer& HostBuffer::operator=(HostBuffer&& other) noexcept {
  if (this != &other) {
    reset();
    allocator_ = other.allocator_;
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

Result<HostBuffer> HostBuffer::create(std::uint64_t bytes, std::string_view purpose, const HostAllocator& allocator) {
  HostBuffer buffer;
  buffer.allocator_ = allocator;
  if (bytes == 0) return buffer;
  void* block = nullptr;
  if (bytes <= std::numeric_limits<std::size_t>::max()) {
    block = allocator.allocate(allocator.user, static_cast<std::size_t>(bytes), kAlignment);
  }
  if (block == nullptr) {
    return error(Code::out_of_memory, "Host memory for ", purpose, " (", bytes_text(bytes),
                 ") could not be allocated.");
  }
  buffer.data_ = static_cast<std::byte*>(block);
  buffer.size_ = static_cast<std::size_t>(bytes);
  return buffer;
}

void HostBuffer::reset() {
  if (data_ != nullptr) allocator_.release(allocator_.user, data_, size_, kAlignment);
  data_ = nullptr;
  size_ = 0;
}

}  // namespace graft
