// A new segment: a header, then stored chunks one after another.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "platform/os/file.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/sealer.h"

namespace graft::checkpoint {

/// Makes the file with the first append. One thread at a time.
class SegmentWriter {
 public:
  SegmentWriter(os::FileSystem& files, const std::string& path, const Sealer& sealer, std::uint64_t number);
  /// Deletes the file again unless it was released.
  ~SegmentWriter();
  SegmentWriter(const SegmentWriter&) = delete;
  SegmentWriter& operator=(const SegmentWriter&) = delete;

  /// Writes a new chunk, which decodes to `bytes` bytes with this hash, and returns its entry but for the parent.
  Result<Chunk> append(const EncodedChunk& encoded, const Hash128& hash, std::size_t bytes, std::size_t width);
  /// Writes what another segment holds of a chunk, and returns where it stands.
  Result<std::uint64_t> append_stored(std::span<const std::byte> stored);
  Status sync();
  /// The file is the store's from now on.
  void release() { released_ = true; }

  std::uint64_t number() const { return number_; }
  std::uint64_t bytes() const { return bytes_; }  ///< of the file; 0: there is none

 private:
  os::FileSystem& files_;
  std::string path_;
  Sealer sealer_;
  std::uint64_t number_;
  std::unique_ptr<os::File> file_;
  std::uint64_t bytes_ = 0;
  bool released_ = false;
};

}  // namespace graft::checkpoint
