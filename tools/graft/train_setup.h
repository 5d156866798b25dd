// Data sets of training and teachers, as graft plan and graft simulate take them: over what lies under graft/*.h.
#pragma once

#include <memory>

#include "runtime/session/training.h"
#include "tools/bench/device.h"
#include "tools/graft/open_data.h"
#include "tools/graft/train_arguments.h"

namespace graft::cli {

/// Has the options learn from the teacher in this graph, where --teacher gave one.
Status set_teacher(const TrainFlags& flags, const Graph& taught, train::TrainOptions& options);

struct DataSets {
  std::unique_ptr<data::Source> training;
  std::unique_ptr<data::Source> held_out;  ///< may be null
  TextInfo training_info, held_out_info;
};

/// --data, and what --eval or --eval-split name.
Result<DataSets> open_sets(const TrainArguments& options, const Model& model);

/// `total_steps` is where linear and cosine schedules end; 0 where it is not known.
Result<train::TrainOptions> train_options(const TrainFlags& flags, std::uint64_t total_steps);

}  // namespace graft::cli
