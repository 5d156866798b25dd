// The host allocator that the embedder passes in, and HostBuffer for the large blocks taken from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "platform/base/status.h"

namespace graft {

/// Where large host blocks come from. Plain data, copied freely; `user` must outlive every block.
/// Both functions may be called from any thread of graft.
struct HostAllocator {
  /// Returns `bytes` (> 0) aligned to `alignment` (a power of two), or null when memory does not suffice.
  void* (*allocate)(void* user, std::size_t bytes, std::size_t alignment) = nullptr;
  /// Takes back what allocate returned, with the same size and alignment; never null.
  void (*release)(void* user, void* block, std::size_t bytes, std::size_t alignment) = nullptr;
  void* user = nullptr;
};

/// malloc and free.
HostAllocator default_host_allocator();

/// Owns one block of a HostAllocator. Movable; an empty buffer holds nothing.
class HostBuffer {
 public:
  static constexpr std::size_t kAlignment = 64;  // one cache line: no false sharing, and enough for any SIMD load

  HostBuffer() = default;
  ~HostBuffer() { reset(); }
  HostBuffer(HostBuffer&& other) noexcept;
  HostBuffer& operator=(HostBuffer&& other) noexcept;

  /// Uninitialized memory; out_of_memory names `purpose` and the size. Zero bytes make an empty buffer.
  static Result<HostBuffer> create(std::uint64_t bytes, std::string_view purpose,
                                   const HostAllocator& allocator = default_host_allocator());

  std::span<std::byte> bytes() { return {data_, size_}; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  void reset();

 private:
  HostAllocator allocator_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace graft
