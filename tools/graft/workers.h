// Several workers of one run of graft train: threads of this process, each with a device of its own.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "platform/group/group.h"
#include "runtime/distribute/group_exchange.h"
#include "tools/graft/train_setup.h"

namespace graft::cli {

void add_worker_flags(CLI::App& app, WorkerFlags& flags);

/// Worker 0 is the calling thread, which evaluates, saves and shows; the others do nothing but take steps.
class Workers {
 public:
  /// Options and model outlive it.
  static Result<std::unique_ptr<Workers>> create(const TrainArguments& options, const Model& model);
  ~Workers();

  /// Worker 0's, for its device; null where it is alone.
  std::unique_ptr<train::SlotExchange> exchange(gpu::Device& device);
  /// Starts the others, sees that all were asked the same, and gives worker 0's state to all.
  Status begin(PreparedRun& run, const TrainArguments& options);
  /// Worker 0 takes no further step. What the others failed of, unless that is worker 0's own end.
  Status end(const Status& why);

 private:
  Workers(const TrainArguments& options, const Model& model) : options_(options), model_(model) {}
  Status work(std::size_t rank);

  const TrainArguments& options_;
  const Model& model_;
  std::vector<std::unique_ptr<group::Group>> group_;  ///< empty: one worker
  std::vector<std::thread> threads_;
  std::vector<Status> ended_;  ///< by rank
};

}  // namespace graft::cli
