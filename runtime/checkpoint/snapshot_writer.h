// Builds one snapshot: decides chunk by chunk what is referred to and what is written to the new segment.
// Made by Store::begin_snapshot(); it shares nothing with the store but the files, so it may work on another thread
// (one at a time) while the store is in use.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/checkpoint/chunk_reader.h"
#include "runtime/checkpoint/segment_writer.h"
#include "runtime/checkpoint/store_types.h"

namespace graft::checkpoint {

class SnapshotWriter {
 public:
  /// `base` (null: none) is the snapshot whose chunks may be referred to.
  SnapshotWriter(os::FileSystem& files, const std::string& path, const Sealer& sealer, const StoreOptions& options,
                 const Manifest* base, std::uint64_t number, const SnapshotMeta& meta);

  /// Codes and writes one stream. After an error the writer is of no more use.
  Status add(const StreamInput& input);
  /// Syncs the segment. After it, nothing can be added.
  Status finish();

  bool finished() const { return finished_; }
  const Manifest& manifest() const { return manifest_; }
  const PutReport& report() const { return report_; }
  /// The segment is the store's from now on: the writer no longer deletes it.
  void release() { segment_.release(); }

 private:
  Result<std::uint32_t> add_chunk(std::span<const std::byte> bytes, const StreamInput& input, std::uint32_t base_index);
  Result<std::uint32_t> write_chunk(std::span<const std::byte> bytes, const Hash128& hash, const StreamInput& input,
                                    std::uint32_t base_index);
  bool may_follow(std::uint32_t base_index, std::size_t bytes) const;
  std::uint32_t import(std::uint32_t base_index);

  StoreOptions options_;
  std::optional<Manifest> base_;
  std::vector<ChainCost> base_chains_;
  std::unordered_map<std::uint64_t, std::uint32_t> base_by_hash_;  ///< low half -> index in the base
  std::unordered_map<std::uint64_t, std::uint32_t> own_by_hash_;   ///< low half -> index in this snapshot
  std::unordered_map<std::uint32_t, std::uint32_t> imported_;      ///< index in the base -> index in this snapshot
  ChunkReader reader_;
  ChunkEncoder encoder_;
  SegmentWriter segment_;
  Manifest manifest_;
  PutReport report_;
  bool finished_ = false;
};

}  // namespace graft::checkpoint
