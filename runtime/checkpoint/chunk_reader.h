// Decoding chunks of a store: chains, checksums, open segments.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "platform/os/file.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/sealer.h"

namespace graft::checkpoint {

/// Keeps segments open from use to use. One thread at a time.
class ChunkReader {
 public:
  ChunkReader(os::FileSystem& files, std::string path, const Sealer& sealer)
      : files_(files), path_(std::move(path)), sealer_(sealer) {}

  /// Decodes chunk `index` of a checked manifest; the bytes are valid until the next call. corrupt where anything on
  /// the way contradicts a checksum.
  Result<std::span<const std::byte>> read(const Manifest& manifest, std::uint32_t index);

  /// As above, the last chunk of a chain, of which each one is the parent of the next.
  Result<std::span<const std::byte>> read_chain(std::span<const Chunk> chain);

  /// The bytes as they are stored, which have their checksum; valid until the next call.
  Result<std::span<const std::byte>> read_stored(const Chunk& chunk);

  /// The size of a segment whose header is right.
  Result<std::uint64_t> segment_bytes(std::uint64_t number);

 private:
  Result<const os::File*> segment(std::uint64_t number);
  Status decode_one(const Chunk& chunk, std::span<const std::byte> parent, std::vector<std::byte>& out);

  os::FileSystem& files_;
  std::string path_;
  Sealer sealer_;
  std::map<std::uint64_t, std::unique_ptr<os::File>> open_;
  ChunkDecoder decoder_;
  std::vector<std::byte> stored_, current_, next_;
};

}  // namespace graft::checkpoint
