// The encryption hook: a store's contents through a cipher that the application brings. See CHECKPOINT_FORMAT.md.
#pragma once

#include <cstddef>
#include <span>

#include "platform/base/status.h"

namespace graft::checkpoint {

/// Authenticated encryption with associated data (AEAD) under one key, which stays with the application.
///
/// Nonces are the cipher's: seal() draws one of its own in every call and puts it into what it returns. The same nonce
/// must never serve twice under one key, not even after a crash or in another process: a random one of 24 bytes
/// (XChaCha20-Poly1305) may be drawn without end, one of 12 bytes (AES-GCM, ChaCha20-Poly1305) 2^32 times.
/// Threads: several may call it at once.
class Cipher {
 public:
  virtual ~Cipher() = default;
  /// Bytes by which sealing lengthens: nonce and tag. Always the same; 1 to kMaxSealBytes.
  virtual std::size_t overhead() const = 0;
  /// Fills `out`, of plain.size() + overhead() bytes. `plain` may be empty.
  virtual Status seal(std::span<const std::byte> associated, std::span<const std::byte> plain,
                      std::span<std::byte> out) = 0;
  /// The inverse; corrupt where `sealed` was not sealed under this key with these associated bytes.
  virtual Status open(std::span<const std::byte> associated, std::span<const std::byte> sealed,
                      std::span<std::byte> out) = 0;
};

}  // namespace graft::checkpoint
