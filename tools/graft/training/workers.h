// Several workers of one run of graft train: threads of this process, each with a device of its own, or processes.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "graft/distribute.h"
#include "tools/common/library.h"
#include "tools/graft/shared/launch.h"
#include "tools/graft/training/prepared_run.h"

namespace graft::cli {

void add_worker_flags(CLI::App& app, WorkerFlags& flags);

/// Worker 0 evaluates, saves and shows; the others do nothing but take steps. Where it is another process and gone, the
/// next one does.
class Workers {
 public:
  /// Where this is one process of several, waits until all are there. The options outlive it.
  static Result<std::unique_ptr<Workers>> create(const TrainArguments& options);
  ~Workers();

  // From here on: of the calling thread's worker. That is worker 0, or this process's.
  /// It is worker 0 now.
  bool leads() const { return rank_ == 0; }
  /// Is called where that changes, when the workers that are left have met and before they go on.
  void when_it_leads(std::function<Status(bool leads)> call) { when_it_leads_ = std::move(call); }
  /// The device that it opens.
  DeviceFlags device() const { return device_of(0); }
  /// Null where it is alone.
  const graft_group* group() const { return group_.empty() ? nullptr : group_.data(); }
  /// Starts the other threads, sees that all workers were asked the same, and gives worker 0's state to all.
  Status begin(const PreparedRun& run);
  /// After a step that failed: those that are left go on, where these are processes; with --heal, those that differ.
  Status go_on(const PreparedRun& run, const Status& why);
  /// Why that was refused, or begin() failed: a part of the optimizer's state is lost, and the run is to be prepared
  /// again by those that meet here, from its last checkpoint, or as it was begun where no step was taken.
  bool starts_anew() const { return starts_anew_; }
  bool starts_from_checkpoint() const { return from_checkpoint_; }
  Status meet_anew();
  /// The workers of this run have met before.
  bool has_met() const { return has_met_; }
  /// After the last step of the run, all together: worker 0 finishes it, and where it is gone before that, the one
  /// after it. False: the run went back a step.
  Result<bool> conclude(const PreparedRun& run, const std::function<Status()>& finish);
  /// This worker takes no further step. What the others failed of, unless that is worker 0's own end.
  Status end(const Status& why);

 private:
  explicit Workers(const TrainArguments& options) : options_(options) {}
  Status join(const Launch& launch);
  DeviceFlags device_of(std::size_t rank) const;
  Status meet_again(const PreparedRun& run, Status failed);
  Status work_as(std::size_t rank);
  void share_options(graft_group& end) const;
  /// Which worker this one is now.
  Status note_rank(const PreparedRun& run);

  const TrainArguments& options_;
  bool launched_ = false;  ///< else threads
  std::uint32_t local_rank_ = 0;
  Library gloo_;
  graft_group joined_ = {};
  std::vector<graft_group> group_;  ///< the ends of this process's workers; empty: one worker in all
  std::uint32_t rank_ = 0, size_ = 1;
  std::vector<std::thread> threads_;
  std::vector<Status> ended_;  ///< by thread's rank
  bool led_ = false;           ///< when_it_leads_() was told so
  bool has_met_ = false;
  bool starts_anew_ = false;
  bool from_checkpoint_ = false;
  std::optional<std::uint64_t> begun_at_;  ///< the step of this run's first exchange; none: it did not end
  std::function<Status(bool leads)> when_it_leads_;
};

}  // namespace graft::cli
