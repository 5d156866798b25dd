// Several workers of one run of graft train: threads of this process, each with a device of its own, or processes.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "graft/distribute.h"
#include "platform/group/group.h"
#include "platform/os/dynamic_library.h"
#include "platform/os/threads.h"
#include "runtime/distribute/group_exchange.h"
#include "tools/common/status.h"
#include "tools/graft/launch.h"
#include "tools/graft/train_setup.h"

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
  bool leads() const { return group_.empty() || group_[0]->rank() == 0; }
  /// Is called where that changes, when the workers that are left have met and before they go on.
  void when_it_leads(std::function<Status(bool leads)> call) { when_it_leads_ = std::move(call); }
  /// The device that it opens.
  DeviceFlags device() const { return device_of(0); }
  /// Null where it is alone.
  std::unique_ptr<train::SlotExchange> exchange(gpu::Device& device);
  /// Starts the other threads, sees that all workers were asked the same, and gives worker 0's state to all.
  Status begin(PreparedRun& run, train::SlotExchange* exchange, const Model& base, const Model& model);
  /// After each step that several workers took.
  static Status after_step(PreparedRun& run, const train::SlotExchange& exchange);
  /// FitOptions::go_on: those that are left go on, where these are processes; with --heal, those that differ.
  Status go_on(PreparedRun& run, train::SlotExchange& exchange, const Status& why);
  /// Why that was refused: a part of the optimizer's state is lost, and the run is to be prepared anew, from its last
  /// checkpoint, by those that meet here.
  bool starts_anew() const { return starts_anew_; }
  Status meet_anew();
  /// The workers of this run have met before.
  bool has_met() const { return has_joined_; }
  /// After the last step of the run, all together: worker 0 finishes it, and where it is gone before that, the one
  /// after it. False: the run went back a step. `exchange` may be null.
  Result<bool> conclude(PreparedRun& run, train::SlotExchange* exchange, const std::function<Status()>& finish);
  /// This worker takes no further step. What the others failed of, unless that is worker 0's own end.
  Status end(const Status& why);

 private:
  explicit Workers(const TrainArguments& options) : options_(options) {}
  Status join(const Launch& launch);
  DeviceFlags device_of(std::size_t rank) const;
  Status go_on(group::Group& group, PreparedRun& run, train::SlotExchange& with, const Status& why);
  Status meet_again(group::Group& group, PreparedRun& run, distribute::GroupExchange& exchange, Status failed);
  Result<bool> conclude(group::Group& group, PreparedRun& run, train::SlotExchange& exchange,
                        const std::function<Status()>& finish);
  Status work_as(std::size_t rank, group::Group& group, const Model& base, const Model& model);
  distribute::ExchangeOptions exchange_options() const;

  const TrainArguments& options_;
  std::optional<Launch> launch_;  ///< none: threads
  os::DynamicLibrary gloo_;
  graft_group joined_ = {};
  std::vector<std::unique_ptr<group::Group>> group_;  ///< of this process's workers; empty: one worker in all
  std::vector<graft::os::Thread> threads_;
  std::vector<Status> ended_;  ///< by thread's rank
  bool led_ = false;           ///< when_it_leads_() was told so
  bool has_joined_ = false;    ///< this process is no newcomer to the others
  bool starts_anew_ = false;
  std::function<Status(bool leads)> when_it_leads_;
};

}  // namespace graft::cli
