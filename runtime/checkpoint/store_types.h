// What goes into a checkpoint store's calls and what comes out of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/cipher.h"
#include "runtime/checkpoint/manifest.h"

namespace graft::checkpoint {

enum class StoreMode {
  read_only,   ///< takes no lock, writes nothing
  read_write,  ///< must exist
  create,      ///< as read_write; made where there is none
};

/// When append() makes records durable. A power cut loses at most what this allows: `every` - 1 records, and none that
/// is older than `max_delay_ms` by the time of the next call of append() or flush_due(). Nothing runs by itself: where
/// steps may be far apart, something must call flush_due(). A snapshot and destroying the store make all durable.
struct JournalPolicy {
  std::uint64_t every = 1;         ///< sync with each k-th record; 0: not by count
  std::uint64_t max_delay_ms = 0;  ///< sync once the oldest unsynced record is this old; 0: not by time
};

/// When and how much is rewritten. A compaction that is due writes at most (1 - min_gain) / min_gain bytes for each
/// byte by which it shrinks the store.
struct CompactionPolicy {
  bool automatic = true;                   ///< prune() compacts where it is due
  double min_live = 0.5;                   ///< share in use below which a segment is rewritten
  double min_gain = 0.3;                   ///< due where it shrinks the store by this share at least
  std::uint64_t min_gain_bytes = 1 << 20;  ///< and by so many bytes
};

inline constexpr int kMaxZstdLevel = 19;

struct StoreOptions {
  StoreMode mode = StoreMode::read_only;
  std::uint32_t chunk_bytes = 256 * 1024;  ///< of new snapshots; a multiple of 8 within the format's limits
  std::uint32_t max_chain = 8;             ///< of new chunks; 1: no deltas; at most kMaxChain
  bool deep = false;                       ///< decode the head's chunks at opening, and step back where one is damaged
  std::uint64_t identity = 0;              ///< of a new store; 0: made from the clocks
  /// What restoring a new chunk may cost, in bytes read and bytes decoded over its chain, against reading and decoding
  /// as many bytes stored as they are. At least 1.
  double max_restore_cost = 6;
  JournalPolicy journal;
  CompactionPolicy compaction;
  int zstd_level = 1;        ///< of new chunks, 1 to kMaxZstdLevel; StreamInput may name another
  Cipher* cipher = nullptr;  ///< of all that the store holds, from its creation on; must outlive the store
};

/// One stream of a new snapshot. The bytes are borrowed for the call.
struct StreamInput {
  std::string_view name;
  StreamKind kind = StreamKind::other;
  Element element = Element::bytes;
  std::span<const std::byte> bytes;
  std::uint32_t worker = 0;                ///< the section: 0, what all workers share; k, worker k's own, from 1
  std::optional<FrozenBytes> frozen = {};  ///< in place of bytes
  int zstd_level = 0;                      ///< 0: the store's
};

struct PutReport {
  std::uint64_t number = 0;
  std::uint64_t raw_bytes = 0;     ///< of all streams
  std::uint64_t stored_bytes = 0;  ///< written for this snapshot: segment, tables and headers
  std::uint64_t new_chunks = 0;
  std::uint64_t reused_chunks = 0;  ///< present before, or equal to another chunk of this snapshot
};

struct Retention {
  std::size_t keep_last = 1;
  std::set<std::string, std::less<>> keep_tags = {};  ///< snapshots with one of these stay
  bool drop_damaged = false;  ///< delete unreadable snapshots too, and free what only they may refer to
  bool keep_tagged = false;   ///< snapshots with any tag stay
  std::set<std::uint64_t> keep_numbers = {};
};

struct VerifyReport {
  std::uint64_t snapshots = 0;
  std::uint64_t chunks = 0;  ///< decoded, each once
  std::vector<std::string> problems;
};

/// Bytes of one snapshot.
struct SnapshotSize {
  std::uint64_t raw_bytes = 0;     ///< of its streams; frozen ones do not count
  std::uint64_t stored_bytes = 0;  ///< of all chunks that it needs, however many snapshots share them
  std::uint64_t own_bytes = 0;     ///< of those that no other snapshot needs
};

enum class Difference { same, changed, only_in_a, only_in_b };

/// One stream in snapshots a and b. Chunks are compared by hash and place; those past the shorter stream's end differ.
struct StreamDiff {
  std::string name;
  std::uint32_t worker = 0;
  Difference difference = Difference::same;
  std::uint64_t bytes_a = 0;
  std::uint64_t bytes_b = 0;
  std::uint64_t shared_chunks = 0;
  std::uint64_t changed_chunks = 0;  ///< of the longer stream
  std::uint64_t changed_bytes = 0;   ///< decoded, in these chunks
};

struct SnapshotDiff {
  std::vector<StreamDiff> streams;    ///< in b's order, then those only in a
  std::vector<std::string> metadata;  ///< keys whose values differ
  std::uint64_t stored_bytes = 0;     ///< of b's chunks that a does not need
};

struct CompactReport {
  std::uint64_t rewritten_segments = 0;
  std::uint64_t moved_chunks = 0;    ///< copied as they are stored
  std::uint64_t rebased_chunks = 0;  ///< stored anew, without a parent
  std::uint64_t written_bytes = 0;
  std::uint64_t freed_bytes = 0;
};

struct PruneReport {
  std::vector<std::uint64_t> removed;
  std::uint64_t freed_bytes = 0;  ///< compaction included
  CompactReport compacted;
  Status compaction;  ///< why a compaction that was due failed; the pruning is done all the same
};

}  // namespace graft::checkpoint
