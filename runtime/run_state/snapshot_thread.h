// Codes and writes snapshots beside training, one at a time.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>

#include "platform/os/threads.h"
#include "runtime/checkpoint/compactor.h"
#include "runtime/checkpoint/snapshot_writer.h"
#include "runtime/run_state/run_state.h"

namespace graft {

/// Threads: belongs to one; its own thread works on the store under `store_mutex`, which whoever else uses the store
/// holds meanwhile. The long part, coding and writing, runs without it. Memory: the streams, of which there is one
/// set, and what SnapshotWriter takes to code a chunk.
class SnapshotThread {
 public:
  /// Where the store's journal is to be synced after a delay, the thread does it.
  static Result<std::unique_ptr<SnapshotThread>> create(checkpoint::Store& store, std::mutex& store_mutex,
                                                        const checkpoint::Retention& retention,
                                                        std::uint64_t sync_delay_ms);
  ~SnapshotThread();  ///< ends the snapshot that is being written, first

  bool busy() const;
  /// Requires that it is not busy.
  /// Parameters that are not finite are refused, unless allowed.
  void start(std::unique_ptr<checkpoint::SnapshotWriter> writer, std::unique_ptr<RunStreams> streams,
             bool allow_non_finite);
  /// What became of a snapshot that was started: told once.
  std::optional<Status> take_result();
  /// As take_result(), once it is known.
  std::optional<Status> wait();
  /// Asks for a sync of the journal. Requires that it is not busy.
  void start_sync();
  /// Once the sync that was asked for is done: the first failure to sync since the last call.
  Status wait_for_sync();

 private:
  struct Job {
    std::unique_ptr<checkpoint::SnapshotWriter> writer;
    std::unique_ptr<RunStreams> streams;
    bool allow_non_finite = false;
  };
  SnapshotThread(checkpoint::Store& store, std::mutex& store_mutex, const checkpoint::Retention& retention,
                 std::uint64_t sync_delay_ms)
      : store_(store), store_mutex_(store_mutex), retention_(retention), sync_delay_ms_(sync_delay_ms) {}
  void work();
  void sync(std::unique_lock<std::mutex>& lock);
  Status write(Job& job);
  Status tidy();

  checkpoint::Store& store_;
  std::mutex& store_mutex_;
  checkpoint::Retention retention_;
  std::uint64_t sync_delay_ms_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Job> job_;
  std::optional<Status> result_;
  Status sync_failure_;
  bool sync_wanted_ = false;
  bool stopping_ = false;
  os::Thread thread_;
};

}  // namespace graft
