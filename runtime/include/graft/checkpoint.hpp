// What graft.hpp says of checkpoints: options, and encryption by a class. Included by graft.hpp.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "graft/data.hpp"
#include "graft/graft.h"

namespace graft {
inline namespace v0 {

/// Where a run went on: graft_checkpoint_info.
using CheckpointInfo = graft_checkpoint_info;

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

/// As graft_checkpoint_options.
struct CheckpointOptions {
  std::string folder;
  std::uint64_t every = 0;          ///< steps between snapshots; 0: only save_checkpoint()
  std::uint64_t journal_every = 1;  ///< steps are durable at each k-th; 1: each, before train_step() returns
  std::uint64_t journal_ms = 0;     ///< instead, where not 0: so many milliseconds later at most
  std::uint32_t keep = 4;           ///< newest snapshots to keep; tagged ones always stay
  bool resume = false;              ///< go on from what the folder holds; false: it must hold no snapshot
  std::string from = {};            ///< with resume: the snapshot to go back to, by number or tag
  bool with_changes = false;        ///< with resume: go on although options differ
  bool continue_on_mismatch = false;
  bool allow_non_finite = false;
  std::string data = {};  ///< whatever tells the data apart
  std::map<std::string, std::string> metadata = {};
  Cipher* cipher = nullptr;
  std::string model_file = {};  ///< noted in snapshots
  bool late = false;            ///< steps become durable while the next one is computed: Trainer::acknowledge()
  bool take_over = false;       ///< of another worker, which is gone
  Loader* loader = nullptr;     ///< of Trainer::train_next(): its place is kept, and a resume goes on there
};

namespace detail {

inline std::span<const std::byte> bytes_at(const void* data, std::size_t bytes) {
  return {static_cast<const std::byte*>(data), bytes};
}

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
