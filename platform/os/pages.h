// Memory straight from the system, for what is large, filled once and given back at once.
#pragma once

#include <cstddef>
#include <utility>

namespace graft::os {

/// Zeroed memory at a multiple of kLargePage. Where the system has large pages it may give such: touching 40 MiB costs
/// 20 page faults then, not 10,000. Movable; empty where there was no memory.
class Pages {
 public:
  static constexpr std::size_t kLargePage = std::size_t{2} << 20;

  Pages() = default;
  /// `bytes`: a multiple of kLargePage.
  explicit Pages(std::size_t bytes);
  ~Pages();
  Pages(Pages&& other) noexcept
      : block_(std::exchange(other.block_, nullptr)), block_bytes_(other.block_bytes_), data_(other.data_) {}
  Pages& operator=(Pages&&) = delete;

  std::byte* data() const { return block_ != nullptr ? data_ : nullptr; }

 private:
  void* block_ = nullptr;  ///< as the system gave it
  std::size_t block_bytes_ = 0;
  std::byte* data_ = nullptr;
};

}  // namespace graft::os
