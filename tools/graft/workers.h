// Several workers of one run of graft train: threads of this process, each with a device of its own, or processes.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "graft/distribute.h"
#include "platform/group/group.h"
#include "platform/os/dynamic_library.h"
#include "runtime/distribute/group_exchange.h"
#include "tools/graft/launch.h"
#include "tools/graft/train_setup.h"

namespace graft::cli {

void add_worker_flags(CLI::App& app, WorkerFlags& flags);

/// Worker 0 evaluates, saves and shows; the others do nothing but take steps.
class Workers {
 public:
  /// Where this is one process of several, waits until all are there. The options outlive it.
  static Result<std::unique_ptr<Workers>> create(const TrainArguments& options);
  ~Workers();

  /// This process has not worker 0: work() is all that it does.
  bool helps() const { return launch_ && launch_->rank != 0; }
  /// Until worker 0 has ended its work. An error is of this worker, or worker 0's.
  Status work(const Model& model);

  // From here on: of worker 0, which is the calling thread.
  /// The device that it opens.
  DeviceFlags device() const { return device_of(0); }
  /// Null where it is alone.
  std::unique_ptr<train::SlotExchange> exchange(gpu::Device& device);
  /// Starts the other threads, sees that all workers were asked the same, and gives worker 0's state to all.
  Status begin(PreparedRun& run, const Model& model);
  /// FitOptions::go_on: those that are left go on, where these are processes; with --heal, those that differ.
  Status go_on(PreparedRun& run, train::SlotExchange& exchange, const Status& why);
  /// After the last step of the run: see distribute::end_together(). `exchange` may be null.
  Status end_together(PreparedRun& run, train::SlotExchange* exchange);
  /// Worker 0 takes no further step. What the others failed of, unless that is worker 0's own end.
  Status end(const Status& why);

 private:
  explicit Workers(const TrainArguments& options) : options_(options) {}
  Status join(const Launch& launch);
  DeviceFlags device_of(std::size_t rank) const;
  Status go_on(group::Group& group, PreparedRun& run, train::SlotExchange& with, const Status& why);
  Status end_together(group::Group& group, PreparedRun& run, train::SlotExchange& exchange);
  Status work_as(std::size_t rank, group::Group& group, const Model& model);
  distribute::ExchangeOptions deadlines() const;

  const TrainArguments& options_;
  std::optional<Launch> launch_;  ///< none: threads
  os::DynamicLibrary gloo_;
  graft_group joined_ = {};
  std::vector<std::unique_ptr<group::Group>> group_;  ///< of this process's workers; empty: one worker in all
  std::vector<std::thread> threads_;
  std::vector<Status> ended_;  ///< by thread's rank
};

}  // namespace graft::cli
