// Encryption of checkpoints by a class. Included by graft.hpp.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "graft/base.hpp"

namespace graft {
inline namespace v0 {

/// Authenticated encryption (AEAD) under a key that stays with the app; see graft_cipher. Called from graft's own
/// threads, several at once. Must outlive the trainers that use it. If a function throws, the call that fails by it
/// throws the same.
class Cipher {
 public:
  virtual ~Cipher() = default;
  /// Bytes that a sealed text has more than the plain one; always the same.
  virtual std::size_t overhead() const = 0;
  /// Fills `out`, of plain.size() + overhead() bytes; false: failed.
  virtual bool seal(std::span<const std::byte> associated, std::span<const std::byte> plain,
                    std::span<std::byte> out) = 0;
  /// The inverse; false where `sealed` was not sealed under this key with these associated bytes.
  virtual bool open(std::span<const std::byte> associated, std::span<const std::byte> sealed,
                    std::span<std::byte> out) = 0;

  /// Of the last trainer or store that uses it; graft sets it.
  std::atomic<const graft_context*> context = nullptr;
};

namespace detail {

inline int seal(void* user, const void* associated, std::size_t associated_bytes, const void* plain, std::size_t bytes,
                void* out) {
  auto& cipher = *static_cast<Cipher*>(user);
  const bool done = Thrown::caught(cipher.context, false, [&] {
    const std::span to(static_cast<std::byte*>(out), bytes + cipher.overhead());
    return cipher.seal(bytes_at(associated, associated_bytes), bytes_at(plain, bytes), to);
  });
  return done ? 0 : 1;
}

inline int open(void* user, const void* associated, std::size_t associated_bytes, const void* sealed, std::size_t bytes,
                void* out) {
  auto& cipher = *static_cast<Cipher*>(user);
  const bool done = Thrown::caught(cipher.context, false, [&] {
    const std::span to(static_cast<std::byte*>(out), bytes - cipher.overhead());
    return cipher.open(bytes_at(associated, associated_bytes), bytes_at(sealed, bytes), to);
  });
  return done ? 0 : 1;
}

inline graft_cipher raw_cipher(Cipher& cipher, const graft_context* context) {
  cipher.context = context;
  return {sizeof(graft_cipher), cipher.overhead(), seal, open, &cipher};
}

}  // namespace detail
}  // namespace v0
}  // namespace graft
