// What a store does with its cipher, or does not where it has none. What each part is bound to: CHECKPOINT_FORMAT.md.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/cipher.h"
#include "runtime/checkpoint/manifest.h"

namespace graft::checkpoint {

/// A store's identity and its cipher; a small value. Several threads may use it at once.
class Sealer {
 public:
  Sealer() = default;
  /// `cipher` may be null: nothing is sealed then, and all bytes pass as they are.
  Sealer(Cipher* cipher, std::uint64_t store) : cipher_(cipher), store_(store) {}

  bool on() const { return cipher_ != nullptr; }
  std::uint64_t store() const { return store_; }
  std::size_t overhead() const { return on() ? cipher_->overhead() : 0; }

  /// Requires the start of a ROOT or journal that carries `header`, up to the end of its key check: a seal of nothing,
  /// bound to the header. invalid_argument where the cipher is missing, not called for, or not the one that sealed it.
  Status check_key(const Header& header, std::span<const std::byte> start) const;

  /// What stands in a file for `plain`; `associated` is what it is bound to.
  Result<std::vector<std::byte>> seal(std::span<const std::byte> associated, std::span<const std::byte> plain) const;
  /// The inverse. corrupt, naming `what`, where it is not what was sealed.
  Result<std::vector<std::byte>> open(std::span<const std::byte> associated, std::span<const std::byte> sealed,
                                      std::string_view what) const;

  /// Reads a whole snapshot file; see decode_tables().
  Result<Manifest> decode_snapshot(std::span<const std::byte> bytes, std::uint64_t number,
                                   const Alike& like = {}) const;

  /// The bytes that a chunk's contents are bound to: they stay valid where it is moved.
  std::vector<std::byte> bound_to(const Chunk& chunk) const;

 private:
  Cipher* cipher_ = nullptr;
  std::uint64_t store_ = 0;
};

}  // namespace graft::checkpoint
