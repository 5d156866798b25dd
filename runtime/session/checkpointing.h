// Training that survives: a trainer's whole state in a checkpoint store, and every step in its journal.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "runtime/checkpoint/store.h"
#include "runtime/data/loader.h"
#include "runtime/train/trainer.h"

namespace graft {

/// What must be the same for a resume to be exact, by name: {"model": ..., "optimizer": ..., "data": ...}.
using Configuration = std::map<std::string, std::string>;

/// The model's structure and the options that decide what a step does. The caller adds what it knows of the data.
Configuration configuration_of(const Graph& model, const train::TrainOptions& options);

struct CheckpointOptions {
  std::string folder;
  std::uint64_t every = 0;       ///< steps between snapshots; 0: only save()
  std::uint64_t sync_every = 1;  ///< steps between journal syncs: at most so many are replayed in vain after a crash
  std::size_t keep = 4;          ///< newest snapshots to keep; tagged ones always stay
};

/// Threads: the trainer's. The trainer must outlive it. Snapshots are taken between steps, and block until durable.
class Checkpointer {
 public:
  /// Makes the store where there is none. An existing store with snapshots must be resumed from, or is an error:
  /// nothing is overwritten by a run that was started in the wrong folder.
  static Result<std::unique_ptr<Checkpointer>> open(os::FileSystem& files, const CheckpointOptions& options,
                                                    train::Trainer& trainer, Configuration configuration, bool resume);

  /// Brings trainer and loader to the newest snapshot; an empty store gets its first one, of the state before any step.
  /// The journalled steps after it are run again by the training loop and compared with the journal in record().
  /// Returns the step that training goes on from; 0 for an empty store. invalid_argument where the configuration
  /// differs, naming the part that does.
  Result<std::uint64_t> begin(data::Loader& loader);

  /// After each step: journals it, or checks it where the journal has it already; takes a snapshot when one is due.
  /// corrupt where a replayed step gives another loss than it did (another driver or device): nothing is written then.
  Status record(const train::StepResult& result);

  /// A snapshot now; nothing where the newest is of this step.
  Status save(const std::string& tag = {});

  const checkpoint::Store& store() const { return store_; }
  std::uint64_t replayed() const { return replayed_; }  ///< steps that were run again and agreed with the journal

 private:
  Checkpointer(checkpoint::Store store, const CheckpointOptions& options, train::Trainer& trainer,
               Configuration configuration)
      : store_(std::move(store)), options_(options), trainer_(trainer), configuration_(std::move(configuration)) {}
  Status check_configuration(const checkpoint::Manifest& snapshot) const;

  checkpoint::Store store_;
  CheckpointOptions options_;
  train::Trainer& trainer_;
  Configuration configuration_;
  std::map<std::uint64_t, std::vector<std::byte>> to_replay_;  ///< what the journal has of steps after the snapshot
  double last_loss_ = 0;
  std::uint64_t replayed_ = 0;
};

}  // namespace graft
