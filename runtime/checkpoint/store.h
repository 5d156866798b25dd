// The checkpoint store: a folder of snapshots that share unchanged chunks, and a journal of the steps since the newest.
//
// Durability: what put_snapshot(), append() with sync, set_head() or prune() returned ok for survives a kill or a power
// cut at any instant. A call that failed or was cut off has either happened or not happened.
// Threads: a Store belongs to one thread at a time. Processes: one writer (a lock file), any number of readers; a
// reader sees the store as it was when it was opened, and gets not_found for what a writer has pruned since. Errors:
// io_error as the system gave it; corrupt where bytes contradict their checksums; invalid_argument for what the caller
// or the limits of CHECKPOINT_FORMAT.md rule out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "platform/base/allocator.h"
#include "platform/base/status.h"
#include "platform/os/file.h"
#include "runtime/checkpoint/journal.h"
#include "runtime/checkpoint/manifest.h"

namespace graft::checkpoint {

enum class StoreMode {
  read_only,   ///< takes no lock, writes nothing
  read_write,  ///< must exist
  create,      ///< as read_write; made where there is none
};

struct StoreOptions {
  StoreMode mode = StoreMode::read_only;
  std::uint32_t chunk_bytes = 256 * 1024;  ///< of new snapshots; a multiple of 8 within the format's limits
  std::uint32_t max_chain = 8;             ///< of new chunks; 1: no deltas; at most kMaxChain
  bool deep = false;                       ///< decode the head's chunks at opening, and step back where one is damaged
  std::uint64_t identity = 0;              ///< of a new store; 0: made from the clocks
};

/// One stream of a new snapshot. The bytes are borrowed for the call.
struct StreamInput {
  std::string_view name;
  StreamKind kind = StreamKind::other;
  Element element = Element::bytes;
  std::span<const std::byte> bytes;
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
  std::set<std::string> keep_tags;  ///< snapshots with one of these stay
  bool drop_damaged = false;        ///< delete unreadable snapshots too, and free what only they may refer to
};

struct PruneReport {
  std::vector<std::uint64_t> removed;
  std::uint64_t freed_bytes = 0;
};

struct VerifyReport {
  std::uint64_t snapshots = 0;
  std::uint64_t chunks = 0;  ///< decoded, each once
  std::vector<std::string> problems;
};

class Store {
 public:
  /// Opens and recovers: the head is the last acknowledged snapshot, or, where that is damaged, the newest good one
  /// before it, with the journals in between joined; notes() says what was found. io_error where another writer holds
  /// the lock, or where the system could not read a file (that is never taken for damage).
  static Result<Store> open(os::FileSystem& files, const std::string& path, const StoreOptions& options);

  /// The snapshot that training goes on from; 0: none.
  std::uint64_t head() const { return root_.head; }
  /// Good snapshots by number.
  const std::map<std::uint64_t, Manifest>& snapshots() const { return snapshots_; }
  /// Unreadable snapshots, with the reason.
  const std::map<std::uint64_t, std::string>& damaged() const { return damaged_; }
  /// The steps recorded since head().
  const std::vector<JournalRecord>& journal() const { return records_; }
  /// What recovery found and did; empty after a clean close.
  const std::vector<std::string>& notes() const { return notes_; }

  /// Writes a snapshot, makes it the head and starts its journal. Chunks equal to one of the head are referred to;
  /// others are coded, against the head's where that is smaller.
  Result<PutReport> put_snapshot(std::span<const StreamInput> streams, const SnapshotMeta& meta);

  /// Adds a record. With `sync` it is durable on return, and so are all before it; without, once a later call syncs.
  Status append(const JournalRecord& record, bool sync = true);
  Status sync_journal();

  /// Makes `number` the head, with an empty journal: training branches from there. Later snapshots stay.
  Status set_head(std::uint64_t number);

  /// Fills `out`, whose size must be the stream's. Every chunk is checked against its hash.
  Status restore(std::uint64_t number, std::string_view stream, std::span<std::byte> out) const;
  /// As above, into new memory; a stream of more than `limit` bytes is refused before memory is taken.
  Result<HostBuffer> restore(std::uint64_t number, std::string_view stream, std::uint64_t limit) const;

  /// Decodes every chunk of one snapshot.
  Status verify(std::uint64_t number) const;
  /// Of all; fails only where the system does.
  Result<VerifyReport> verify() const;

  /// Deletes snapshots that neither `retention` nor the head needs, then segments and journals that nothing needs.
  Result<PruneReport> prune(const Retention& retention);

 private:
  struct Root {
    std::uint64_t next = 1;  ///< no file has this number or a larger one
    std::uint64_t head = 0;
    std::uint64_t journal = 0;
  };
  static constexpr std::uint64_t kNoJournal = ~std::uint64_t{0};
  struct JournalFile {
    std::unique_ptr<os::File> file;
    std::uint64_t bytes = 0;
    Hash128 chain;
  };
  struct Listing {
    std::set<std::uint64_t> snapshots, segments, journals;
    std::vector<std::string> leftovers;
    bool root = false;
  };

  Store(os::FileSystem& files, std::string path, const StoreOptions& options)
      : files_(&files), path_(std::move(path)), options_(options) {}

  std::string file_path(FileKind kind, std::uint64_t number) const;
  bool writable() const { return lock_ != nullptr; }
  Status check_writable() const;

  // store_open.cpp
  Result<Listing> list_files() const;
  Status initialize();
  bool creation_was_cut_off(const Listing& listing) const;
  Status create_empty();
  Status read_root(const Listing& listing, bool& trusted);
  Status guess_root(const Listing& listing);
  Result<Root> parse_root(std::uint64_t& store) const;
  Status load_snapshots(const Listing& listing);
  Status load_snapshot(std::uint64_t number);
  Status check_segments(const Manifest& manifest) const;
  Result<bool> good(std::uint64_t number);
  Status recover();
  void step_back(std::uint64_t damaged_head);
  void remove_leftovers(const Listing& listing);

  // store_write.cpp
  Result<std::unique_ptr<os::File>> write_new(FileKind kind, std::uint64_t number,
                                              std::span<const std::span<const std::byte>> parts);
  Status commit(const Root& root);
  Status ensure_ready();
  Status start_journal();
  Status write_journal(std::uint64_t number, std::uint64_t follows, std::uint64_t previous,
                       std::uint64_t previous_bytes, std::span<const JournalRecord> records, JournalFile& out);
  Status write_snapshot_files(const Manifest& manifest, JournalFile& journal);
  void discard(std::uint64_t number);
  void abandon(std::uint64_t number);
  Result<PruneReport> remove_unneeded(const std::set<std::uint64_t>& kept, bool drop_damaged);  // store_prune.cpp

  os::FileSystem* files_;
  std::string path_;
  StoreOptions options_;
  std::unique_ptr<os::FileLock> lock_;
  std::uint64_t store_ = 0;
  Root root_;
  std::map<std::uint64_t, Manifest> snapshots_;
  std::map<std::uint64_t, std::string> damaged_;
  std::vector<JournalRecord> records_;
  std::vector<std::string> notes_;

  JournalFile journal_;                          ///< without a file: must be started anew before the next write
  std::size_t unsynced_ = 0;                     ///< records that no sync has covered yet
  std::uint64_t previous_journal_ = kNoJournal;  ///< that led to the head
  std::uint64_t previous_bytes_ = 0;             ///< how many bytes of it count
  std::vector<std::uint64_t> doubtful_;          ///< numbers of failed changes, to delete once ROOT is sure
  bool root_unsure_ = false;                     ///< the last write of ROOT failed, so what storage holds is not known
};

}  // namespace graft::checkpoint
