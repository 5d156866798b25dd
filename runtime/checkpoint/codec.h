// Rearranging a chunk's bytes so that zstd finds more in them, and choosing the arrangement by measuring.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "platform/base/status.h"

namespace graft::checkpoint {

/// Numbers as in schema/checkpoint.fbs.
enum class Codec : std::uint8_t { plain = 0, planes = 1, delta_planes = 2, xor_planes = 3 };
enum class Compression : std::uint8_t { none = 0, zstd = 1 };

constexpr bool needs_parent(Codec codec) { return codec == Codec::delta_planes || codec == Codec::xor_planes; }

/// Rearranges `bytes` into `out` (same size). `parent` has the same size where the codec needs one. Elements have
/// `width` bytes (1, 2, 4 or 8; 4 for delta_planes); bytes past the last whole element are kept as they are.
void transform(Codec codec, std::size_t width, std::span<const std::byte> bytes, std::span<const std::byte> parent,
               std::span<std::byte> out);
/// The inverse: `out` may not overlap `bytes`.
void restore_transformed(Codec codec, std::size_t width, std::span<const std::byte> bytes,
                         std::span<const std::byte> parent, std::span<std::byte> out);

struct EncodedChunk {
  Codec codec = Codec::plain;
  Compression compression = Compression::none;
  std::span<const std::byte> bytes;  ///< valid until the encoder's next call
};

/// Owns a compressor and scratch memory; one thread at a time.
class ChunkEncoder {
 public:
  ChunkEncoder();
  ~ChunkEncoder();
  ChunkEncoder(ChunkEncoder&&) noexcept;
  ChunkEncoder& operator=(ChunkEncoder&&) noexcept;

  /// Tries every codec that suits `width` and the presence of `parent` (empty: none) on a sample, then encodes with the
  /// one that came out smallest. What does not shrink is stored as it is. `level` is zstd's, for the whole chunk; the
  /// sample is compressed at level 1. out_of_memory when zstd has none.
  Result<EncodedChunk> encode(std::span<const std::byte> bytes, std::span<const std::byte> parent, std::size_t width,
                              bool is_f32, int level);

 private:
  Result<std::size_t> compressed_size(Codec codec, std::size_t width, std::span<const std::byte> bytes,
                                      std::span<const std::byte> parent, int level);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Owns a decompressor and scratch memory; one thread at a time.
class ChunkDecoder {
 public:
  ChunkDecoder();
  ~ChunkDecoder();
  ChunkDecoder(ChunkDecoder&&) noexcept;
  ChunkDecoder& operator=(ChunkDecoder&&) noexcept;

  /// Fills `out` exactly; corrupt where `stored` does not decode to that many bytes. Never writes or allocates more
  /// than out.size() bytes, whatever `stored` claims.
  Status decode(Codec codec, Compression compression, std::size_t width, std::span<const std::byte> stored,
                std::span<const std::byte> parent, std::span<std::byte> out);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace graft::checkpoint
