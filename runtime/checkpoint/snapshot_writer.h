// Builds one snapshot: decides chunk by chunk what is referred to and what is written to the new segment.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/checkpoint/chunk_reader.h"
#include "runtime/checkpoint/store.h"

namespace graft::checkpoint {

class SnapshotWriter {
 public:
  /// `base` (null: none) is the snapshot whose chunks may be referred to; it must outlive the writer.
  SnapshotWriter(os::FileSystem& files, const std::string& path, std::uint64_t store, const StoreOptions& options,
                 const Manifest* base, std::uint64_t number);

  Status add(const StreamInput& input);
  /// Syncs the segment. After it, manifest() is complete.
  Status finish();

  const Manifest& manifest() const { return manifest_; }
  Manifest& manifest() { return manifest_; }
  const PutReport& report() const { return report_; }

 private:
  Result<std::uint32_t> add_chunk(std::span<const std::byte> bytes, Element element, std::uint32_t base_index);
  Result<std::uint32_t> write_chunk(std::span<const std::byte> bytes, const Hash128& hash, Element element,
                                    std::uint32_t base_index);
  Status append(std::span<const std::byte> bytes, std::uint64_t& offset);
  bool may_follow(std::uint32_t base_index, std::size_t bytes) const;
  std::uint32_t import(std::uint32_t base_index);

  os::FileSystem& files_;
  std::string segment_path_;
  std::uint64_t store_;
  const StoreOptions& options_;
  const Manifest* base_;
  std::vector<std::uint32_t> base_chains_;
  std::unordered_map<std::uint64_t, std::uint32_t> base_by_hash_;  ///< low half -> index in the base
  std::unordered_map<std::uint64_t, std::uint32_t> own_by_hash_;   ///< low half -> index in this snapshot
  std::unordered_map<std::uint32_t, std::uint32_t> imported_;      ///< index in the base -> index in this snapshot
  ChunkReader reader_;
  ChunkEncoder encoder_;
  std::unique_ptr<os::File> segment_;
  std::uint64_t segment_bytes_ = 0;
  Manifest manifest_;
  PutReport report_;
};

}  // namespace graft::checkpoint
