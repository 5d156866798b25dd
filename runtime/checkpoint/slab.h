// Memory for the tables of thousands of snapshots: taken in large pieces and given back at once.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "platform/os/pages.h"

namespace graft::checkpoint {

/// Large pages, handed out from front to back by one thread until close(). What was handed out is not taken back: all
/// of it goes with the last vector that lies in it.
class Slab {
 public:
  /// At a multiple of 16 bytes. Null where it is closed, where so much is better taken alone, or without memory.
  void* take(std::size_t bytes) {
    bytes = (bytes + 15) / 16 * 16;
    if (closed_ || bytes > kPieceBytes / 8) return nullptr;
    if (pieces_.empty() || used_ + bytes > kPieceBytes) {
      os::Pages piece(kPieceBytes);
      if (piece.data() == nullptr) return nullptr;
      pieces_.push_back(std::move(piece));
      used_ = 0;
    }
    return pieces_.back().data() + std::exchange(used_, used_ + bytes);
  }
  bool holds(const void* block) const {
    const auto* at = static_cast<const std::byte*>(block);
    for (const os::Pages& piece : pieces_) {
      if (!std::less<>()(at, piece.data()) && std::less<>()(at, piece.data() + kPieceBytes)) return true;
    }
    return false;
  }
  /// From here on any thread may use what lies here.
  void close() { closed_ = true; }

 private:
  static constexpr std::size_t kPieceBytes = os::Pages::kLargePage;
  std::vector<os::Pages> pieces_;
  std::size_t used_ = 0;
  bool closed_ = false;
};

/// For vectors that may lie in a slab. Their copies do not, nor do those that are made without one.
template <class T>
class SlabAllocator {
 public:
  using value_type = T;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;

  SlabAllocator() = default;
  explicit SlabAllocator(std::shared_ptr<Slab> slab) : slab_(std::move(slab)) {}
  template <class U>
  SlabAllocator(const SlabAllocator<U>& other) : slab_(other.slab_) {}

  T* allocate(std::size_t count) {
    if (slab_ != nullptr) {
      if (void* block = slab_->take(count * sizeof(T))) return static_cast<T*>(block);
    }
    return std::allocator<T>().allocate(count);
  }
  void deallocate(T* block, std::size_t count) {
    if (slab_ == nullptr || !slab_->holds(block)) std::allocator<T>().deallocate(block, count);
  }
  SlabAllocator select_on_container_copy_construction() const { return {}; }
  friend bool operator==(const SlabAllocator&, const SlabAllocator&) = default;

 private:
  template <class U>
  friend class SlabAllocator;
  std::shared_ptr<Slab> slab_;
};

template <class T>
using Rows = std::vector<T, SlabAllocator<T>>;

}  // namespace graft::checkpoint
