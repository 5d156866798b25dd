// Compaction: which chunks to store anew so that segments that are mostly waste can be deleted, and storing them.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/checkpoint/chunk_reader.h"
#include "runtime/checkpoint/segment_writer.h"
#include "runtime/checkpoint/store_types.h"

namespace graft::checkpoint {

struct CompactionPlan {
  std::vector<Chunk> moved;                 ///< to be copied as they are stored
  std::vector<std::vector<Chunk>> rebased;  ///< to be stored without a parent: each the last of its chain
  std::uint64_t segments = 0;               ///< that can be deleted then
  std::uint64_t freed_bytes = 0;            ///< of these
  std::uint64_t written_bytes = 0;          ///< at most
};

/// A chunk is rebased where its chain is longer or dearer than the options allow for new ones, or where chunks that
/// only serve as parents, with its own difference, take more bytes than it would take whole. Then the rest of every
/// segment that is less than CompactionPolicy::min_live in use is moved. `segments` has the sizes of those that may be
/// deleted.
CompactionPlan plan_compaction(const std::map<std::uint64_t, Manifest>& snapshots,
                               const std::map<std::uint64_t, std::uint64_t>& segments, const StoreOptions& options);

/// Made by Store::begin_compaction(). It shares nothing with the store but the files, so it may work on another thread
/// (one at a time) while the store is in use; readers are not disturbed, since nothing is deleted before the commit.
class Compactor {
 public:
  Compactor(os::FileSystem& files, const std::string& path, const Sealer& sealer, const StoreOptions& options,
            std::uint64_t number, CompactionPlan plan);

  /// Writes and syncs the new segment. A chunk that turns out to be damaged or gone stays as it is.
  Status run();

  std::uint64_t number() const { return segment_.number(); }
  bool finished() const { return finished_; }
  const CompactReport& report() const { return report_; }
  void release() { segment_.release(); }
  /// The snapshot with its chunks where they stand now, and without those that it needs no more.
  Manifest remapped(const Manifest& manifest) const;
  bool changes(const Manifest& manifest) const;

 private:
  Status move(const Chunk& chunk);
  Status rebase(const std::vector<Chunk>& chain);

  StoreOptions options_;
  CompactionPlan plan_;
  ChunkReader reader_;
  ChunkEncoder encoder_;
  SegmentWriter segment_;
  std::map<Place, Chunk> now_;  ///< by old place
  CompactReport report_;
  bool finished_ = false;
};

}  // namespace graft::checkpoint
