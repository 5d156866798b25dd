// Training that survives: a trainer's whole state in a checkpoint store, and every step in its journal.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/run_state/run_state.h"
#include "runtime/run_state/snapshot_thread.h"

namespace graft {

struct CheckpointOptions {
  std::string folder;
  std::uint64_t every = 0;  ///< steps between snapshots; 0: only save()
  checkpoint::JournalPolicy journal;
  std::size_t keep = 4;       ///< newest snapshots to keep; tagged ones always stay
  bool resume = false;        ///< false: the store must hold no snapshot yet
  std::string from;           ///< with resume: the snapshot to go back to, by number or tag; empty: the newest
  bool with_changes = false;  ///< go on although the configuration is another; the model may not be
  /// With resume: the data lack samples that no step before the snapshot has used, and what came after it is erased.
  /// Without `from` the whole run is, and begins again.
  bool forgets = false;
  bool stop_on_mismatch = true;
  bool looks_deep = true;  ///< open() decodes the newest snapshot, and steps back where it is damaged
  /// Parameters that are NaN or infinite: false does not write them, and resumes from the newest snapshot that is
  /// finite (told by report()), or refuses the one that `from` names.
  bool allow_non_finite = false;
  std::map<std::string, std::string, std::less<>> metadata;  ///< of the application, into each snapshot
  std::string model_file;                                    ///< noted, for `graft checkpoint restore`
  checkpoint::Cipher* cipher = nullptr;                      ///< must outlive the checkpointer
  /// record() returns before the step is durable, whatever the policy says, and acknowledge() waits for it: the device
  /// may go on meanwhile.
  bool late_sync = false;
  /// Told, on the training thread, what goes wrong and is not fatal, and what recovery did: whole sentences.
  std::function<void(const std::string&)> report;
};

/// Snapshots are copied on the device between two pieces of a step and written by a thread of its own while training
/// goes on. Where writing fails, training goes on too: it is reported, the state on storage stays what it was, and the
/// next attempt follows after 1, 2, 4, ... steps; only save() gives the error. One that falls due while the one before
/// is still being written is taken when that is done.
///
/// Threads: the trainer's. The trainer must have been planned for checkpoints, and outlive it, as must the model.
class Checkpointer {
 public:
  ~Checkpointer() { trainer_.set_before_invalidation(nullptr); }
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;
  /// Makes the store where there is none. An existing store with snapshots must be resumed from, or is an error:
  /// nothing is overwritten by a run that was started in the wrong folder.
  static Result<std::unique_ptr<Checkpointer>> open(os::FileSystem& files, const CheckpointOptions& options,
                                                    train::Trainer& trainer, const Model& model,
                                                    Configuration configuration);

  /// Brings trainer and loader (null: the caller minds its data) to the snapshot; an empty store gets its first one, of
  /// the state before any step. The journalled steps after it are run again by the training loop and compared with the
  /// journal in record(). Returns the step that training goes on from; 0 for an empty store. invalid_argument where the
  /// configuration differs, naming the part that does.
  Result<std::uint64_t> begin(data::Loader* loader);

  /// In place of begin(), for a worker that has taken the steps of another, which kept the store and is gone: it is
  /// kept from the trainer's state on. Where the store has a newer snapshot, trainer and loader are brought to that.
  /// corrupt where the journal has other results of the last step: it is another run's.
  Status take_over(data::Loader* loader);

  /// After each step: journals it, or checks it where the journal has it already; takes a snapshot when one is due.
  /// corrupt where a replayed step gives another result than it did (another driver or device) and stop_on_mismatch.
  Status record(const train::StepResult& result);

  /// Whether a snapshot will be due once the step to come is done: where the optimizer's state is shared out among
  /// workers (Trainer::set_wants_whole_state), it is taken after a step that has brought it, and waits for one.
  bool wants_whole_state() const;

  /// Once the steps that were recorded are as durable as the policy says.
  void acknowledge();

  /// A snapshot of now, on storage when it returns; nothing to do where the newest is of now. May be asked for between
  /// the micro-batches of a step. While journalled steps are run again, no snapshot is taken: a resume runs them
  /// anyway, and a tag is an error.
  Status save(const std::string& tag = {});

  /// save() after something but a step has changed the state, so that the newest snapshot of this step is not of now.
  Status save_change();

  /// Waits until the snapshot in progress and all journalled steps are on storage; the first failure of these.
  Status flush();

  std::uint64_t skipped() const { return skipped_; }    ///< snapshots that were due while an earlier one was
  std::uint64_t replayed() const { return replayed_; }  ///< steps that were run again and agreed with the journal
  /// Seconds that the training thread has spent in record() and acknowledge().
  double seconds() const { return static_cast<double>(nanoseconds_) * 1e-9; }
  std::size_t to_replay() const { return to_replay_.size(); }
  UserData& user_data() { return user_data_; }  ///< goes into each snapshot; begin() brings back what was saved
  /// The snapshots; waits until none is being written.
  const checkpoint::Store& store();

 private:
  using Position = std::pair<std::uint64_t, std::uint64_t>;  ///< steps, and samples of the one in progress

  Checkpointer(checkpoint::Store store, const CheckpointOptions& options, train::Trainer& trainer, const Model& model,
               Configuration configuration);
  void wait_for_snapshot();
  Status check_configuration(const checkpoint::Manifest& snapshot) const;
  Result<std::uint64_t> finite_snapshot(std::uint64_t wanted) const;
  Status erase_after(std::uint64_t number);
  Status go_back_to(std::uint64_t number);
  Result<bool> follow_journal(std::uint64_t from);
  Position position() const { return {trainer_.state().step, trainer_.state().samples_done}; }
  void report(const std::string& text) const;
  Status replay(std::span<const std::byte> known, std::span<const std::byte> now);
  Status record_step(const train::StepResult& result);
  void journal(std::span<const std::byte> now);
  void note_journal(const Status& status);
  void wait_for_sync();
  Status start_snapshot(const std::string& tag);
  void note(Status result);
  checkpoint::SnapshotMeta meta(const std::string& tag) const;

  checkpoint::Store store_;
  std::mutex store_mutex_;
  CheckpointOptions options_;
  train::Trainer& trainer_;
  const Model& model_;
  std::optional<ResizedHead> head_;  ///< of the model
  Configuration configuration_;
  std::map<std::string, checkpoint::FrozenBytes> frozen_;
  UserData user_data_;
  std::map<std::uint64_t, std::vector<std::byte>> to_replay_;  ///< what the journal has of steps after the snapshot
  double last_loss_ = 0;
  std::uint64_t replayed_ = 0;
  std::uint64_t skipped_ = 0;
  bool due_ = false;
  Position writing_;               ///< of the snapshot that was started last
  std::optional<Position> saved_;  ///< of the newest snapshot on storage
  Status last_failure_;            ///< of a snapshot; ok once one was written since
  std::uint64_t failures_ = 0;     ///< of snapshots, in a row
  std::uint64_t retry_at_ = 0;     ///< the step
  bool journal_fails_ = false;
  std::int64_t nanoseconds_ = 0;
  std::unique_ptr<SnapshotThread> thread_;  ///< last: ends before what it uses
};

}  // namespace graft
