// The checkpoint store: a folder of snapshots that share unchanged chunks, and a journal of the steps since the newest.
//
// Durability: what a call that changes the store returned ok for survives a kill or a power cut at any instant (a
// journal record as its JournalPolicy says). A call that failed or was cut off has either happened or not happened.
// Threads: a Store belongs to one thread at a time; what begin_snapshot() gives works on another thread meanwhile.
// Processes: one writer (a lock file), any number of readers; a reader sees the store as it was when it was opened,
// and gets not_found for what a writer has pruned or moved since: it opens the store again. Errors: io_error as the
// system gave it; corrupt where bytes contradict their checksums; invalid_argument for what the caller or the limits of
// CHECKPOINT_FORMAT.md rule out.
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
#include "runtime/checkpoint/by_segment.h"
#include "runtime/checkpoint/journal.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/sealer.h"
#include "runtime/checkpoint/store_types.h"

namespace graft::checkpoint {

class Compactor;
class SnapshotWriter;

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

  /// The same in three parts, so that steps can be journalled while another thread codes and writes the streams:
  /// begin here, once the journal holds all steps up to the state that is to be saved; add() the streams to the writer
  /// and finish() it anywhere; commit here. Records appended in between belong to the new snapshot's journal. One at a
  /// time: another begin_snapshot() and set_head() end the one before, whose commit then fails (cancelled). A writer
  /// that is destroyed without commit leaves nothing behind.
  Result<std::unique_ptr<SnapshotWriter>> begin_snapshot(const SnapshotMeta& meta);
  Result<PutReport> commit_snapshot(std::unique_ptr<SnapshotWriter> writer);

  /// Adds a record and syncs as the options' JournalPolicy says.
  Status append(const JournalRecord& record);
  /// As above; with `sync` it is durable on return, and so are all before it; without, once a later call syncs.
  Status append(const JournalRecord& record, bool sync);
  Status sync_journal();
  /// Syncs where the oldest unsynced record is as old as the policy's max_delay_ms.
  Status flush_due();
  /// Records that no sync has covered yet.
  std::size_t unsynced_records() const { return journal_.unsynced; }

  /// Makes `number` the head, with an empty journal: training branches from there. Later snapshots stay. 0: the start.
  Status set_head(std::uint64_t number);

  /// Names a good snapshot after the fact. One tag is one snapshot's, and is taken from any other (see tags.h).
  Status tag(std::uint64_t number, const std::string& tag);
  /// not_found where it has no such tag.
  Status untag(std::uint64_t number, std::string_view tag);
  /// The snapshot with this tag, of several in an old store the newest; 0: none.
  std::uint64_t find_tag(std::string_view tag) const;

  /// From the tables alone: nothing is decoded.
  Result<SnapshotDiff> diff(std::uint64_t a, std::uint64_t b) const;
  std::map<std::uint64_t, SnapshotSize> sizes() const;  ///< of all snapshots, by number

  /// Fills `out`, whose size must be the stream's. Every chunk is checked against its hash. invalid_argument for a
  /// frozen stream: its bytes are not here.
  Status restore(std::uint64_t number, std::string_view stream, std::span<std::byte> out,
                 std::uint32_t worker = 0) const;
  /// As above, into new memory; a stream of more than `limit` bytes is refused before memory is taken.
  Result<HostBuffer> restore(std::uint64_t number, std::string_view stream, std::uint64_t limit,
                             std::uint32_t worker = 0) const;

  /// Decodes every chunk of one snapshot.
  Status verify(std::uint64_t number) const;
  /// Decodes every chunk of all snapshots; fails only where the system does.
  Result<VerifyReport> verify() const;

  /// Deletes snapshots that neither `retention` nor the head needs, then segments and journals that nothing needs.
  /// Where the options' CompactionPolicy is automatic and compaction due, compacts as well.
  Result<PruneReport> prune(const Retention& retention);

  /// Stores what segments that are mostly waste hold still, and chunks with long or wasteful chains whole, in a new
  /// segment, and deletes the old ones. Nothing to do is success.
  Result<CompactReport> compact(bool only_if_due = false);
  /// The same in three parts, so that the long one may run on another thread, as with begin_snapshot(): begin here
  /// (null where there is nothing to do), run() anywhere, commit here. The store may be used in between; one at a time.
  Result<std::unique_ptr<Compactor>> begin_compaction(bool only_if_due = false);
  Result<CompactReport> commit_compaction(std::unique_ptr<Compactor> compactor);

 private:
  struct Root {
    std::uint64_t next = 1;  ///< no file has this number or a larger one
    std::uint64_t head = 0;
    std::uint64_t journal = 0;
    std::uint64_t compacted = 0;  ///< the newest segment that a compaction wrote; 0: none
    friend bool operator==(const Root&, const Root&) = default;
  };
  static constexpr std::uint64_t kNoJournal = ~std::uint64_t{0};
  struct JournalFile {
    JournalFile() = default;
    JournalFile(JournalFile&&) = default;
    JournalFile& operator=(JournalFile&&) = default;
    ~JournalFile();  ///< syncs what is unsynced; nobody hears of a failure
    std::unique_ptr<os::File> file;
    std::uint64_t bytes = 0;
    Hash128 chain;
    std::size_t unsynced = 0;   ///< records that no sync has covered yet
    std::int64_t since_ns = 0;  ///< when the oldest of them was appended
  };
  /// The snapshot that is being written.
  struct Pending {
    std::uint64_t number = 0;
    std::size_t records = 0;           ///< how many of records_ lead up to it
    std::set<std::uint64_t> segments;  ///< that its tables may refer to
  };
  struct Listing {
    std::vector<std::uint64_t> snapshots, segments, journals;  ///< ascending
    std::vector<std::string> leftovers;
    bool root = false;
  };

  Store(os::FileSystem& files, std::string path, const StoreOptions& options)
      : files_(&files), path_(std::move(path)), options_(options) {}

  std::string file_path(FileKind kind, std::uint64_t number) const;
  Result<const Manifest*> find_snapshot(std::uint64_t number) const;
  bool writable() const { return lock_ != nullptr; }
  Status check_writable() const;

  // store_open.cpp
  static std::size_t threads_for(std::size_t snapshots);  ///< in how many that many tables are gone through
  Result<Listing> list_files() const;
  Status initialize();
  bool creation_was_cut_off(const Listing& listing) const;
  Status create_empty();
  Status read_root(const Listing& listing, bool& trusted);
  Status guess_root(const Listing& listing);
  Result<Root> parse_root(Header& header, std::vector<std::byte>& bytes) const;
  Status load_snapshots(const Listing& listing);
  /// What a thread that reads snapshots keeps from one to the next: they share segments, and most say the same.
  struct Known {
    BySegment<std::uint64_t> sizes;  ///< of segments
    std::vector<std::byte> bytes;
    Alike alike;
  };
  Result<Manifest> load_snapshot(std::uint64_t number, Known& known) const;  ///< in any thread
  Status check_segments(const Manifest& manifest, BySegment<std::uint64_t>* sizes) const;
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
  Status write_snapshot(const Manifest& manifest, bool replace);
  Status replace_snapshot(const Manifest& manifest);
  bool journal_is_due(std::int64_t now_ns) const;
  void discard(std::uint64_t number);
  void abandon(std::uint64_t number);
  Result<PruneReport> remove_unneeded(const std::set<std::uint64_t>& kept, bool drop_damaged);  // store_prune.cpp
  bool is_held(std::uint64_t segment) const;                                                    // store_compact.cpp
  void hold_segments(const Manifest& manifest);

  os::FileSystem* files_;
  std::string path_;
  StoreOptions options_;
  std::unique_ptr<os::FileLock> lock_;
  Sealer sealer_;  ///< and the store's identity
  Root root_;
  std::map<std::uint64_t, Manifest> snapshots_;
  std::map<std::uint64_t, std::string> damaged_;
  std::vector<JournalRecord> records_;
  std::vector<std::string> notes_;

  JournalFile journal_;                          ///< without a file: must be started anew before the next write
  std::uint64_t previous_journal_ = kNoJournal;  ///< that led to the head
  std::uint64_t previous_bytes_ = 0;             ///< how many bytes of it count
  std::optional<Pending> pending_;
  std::optional<std::uint64_t> compacting_;  ///< the segment that a compaction writes
  std::set<std::uint64_t> held_;             ///< segments that tables may name whose replacement failed
  std::vector<std::uint64_t> doubtful_;      ///< numbers of failed changes, to delete once ROOT is sure
  bool pruned_ = false;                      ///< while no snapshot goes, nothing else is to go
  bool looked_over_ = false;                 ///< and no compaction is due
  bool root_unsure_ = false;                 ///< the last write of ROOT failed, so what storage holds is not known
};

}  // namespace graft::checkpoint
