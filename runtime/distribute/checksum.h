// The checksum of a piece of gradients.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "platform/base/hash.h"

namespace graft::distribute {

/// Block by block: whoever does something else with a piece reads it once for both, while a block is in the processor's
/// caches.
class Checksum {
 public:
  static constexpr std::size_t kBlock = std::size_t{1} << 16;  ///< bytes; several of them fit into a cache

  /// The next one; all but the last are of kBlock bytes.
  void add(std::span<const std::byte> block) {
    const std::uint64_t both[] = {value_, hash64(block)};
    value_ = hash64(std::as_bytes(std::span(both)));
  }
  std::uint64_t value() const { return value_; }

  static std::uint64_t of(std::span<const std::byte> bytes) {
    Checksum sum;
    for (std::size_t at = 0; at < bytes.size(); at += kBlock) {
      sum.add(bytes.subspan(at, std::min(kBlock, bytes.size() - at)));
    }
    return sum.value();
  }

 private:
  std::uint64_t value_ = 0;
};

}  // namespace graft::distribute
