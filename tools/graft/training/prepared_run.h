// What a run of graft train is made of before its first step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graft/distribute.h"
#include "graft/steps.h"
#include "tools/graft/training/train_arguments.h"
#include "tools/graft/training/train_wishes.h"

namespace graft::cli {

/// The model as it is trained: with adapters of files, or with fresh ones.
Result<Owned<graft_model>> open_trained(graft_context* context, const TrainArguments& options,
                                        graft_weight_check check);

/// How batches are made, and how many steps the epochs have.
graft_loader_options loader_options(const TrainArguments& options, bool anonymous);
std::uint64_t steps_of(const graft_data_set* set, const graft_loader_options& options);

/// Context and model outlive it.
struct PreparedRun {
  graft_context* context = nullptr;
  graft_model* model = nullptr;
  TrainWishes wishes;
  Owned<graft_data_set> source;
  Owned<graft_data_set> held_out;  ///< may be null
  Owned<graft_model> teacher;      ///< likewise
  Owned<graft_profile> profile;    ///< null where nobody asked for one
  Owned<graft_trainer> trainer;
  Owned<graft_loader> loader;
  std::uint64_t total_steps = 0;  ///< 0: not known

  Result<graft_run_info> info() const;
  Result<graft_run_place> place() const;
  /// The model has its weights as they are now, and the names of its classes. With `ema` their running means.
  Status store(bool ema) const;
};

/// What worker 0 alone does: evaluation and profiles. A run of one worker is worker 0's.
enum class RunRole : std::uint8_t {
  leads,  ///< or may come to
  helps,  ///< takes steps and nothing else
};

/// Opens the data, plans, and puts the model on the device. `group`: null for a run of one worker. `profiled`: worker 0
/// keeps the last steps for --profile.
Result<PreparedRun> prepare_run(graft_context* context, graft_model* model, const TrainArguments& options,
                                const graft_group* group, RunRole role, bool profiled);

}  // namespace graft::cli
