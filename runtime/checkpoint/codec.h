// Coding a chunk: the arrangement of its bytes, chosen by measuring, then zstd.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "platform/base/status.h"
#include "runtime/checkpoint/arrange.h"

namespace graft::checkpoint {

enum class Compression : std::uint8_t { none = 0, zstd = 1 };

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
                              bool is_float, int level);

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
