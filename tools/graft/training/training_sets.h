// The data sets of a training run, as graft train and graft simulate take them.
#pragma once

#include "tools/graft/training/train_arguments.h"
#include "tools/graft/training/train_wishes.h"

namespace graft::cli {

struct TrainingSets {
  Owned<graft_data_set> training;
  Owned<graft_data_set> held_out;  ///< may be null
  bool tells_of_held_out = false;  ///< its summary is its own
};

/// --data, and what --eval or --eval-split name.
Result<TrainingSets> open_training_sets(graft_context* context, graft_model* model, const TrainArguments& options);

/// What the model without adapters makes of the sets' texts becomes part of their samples; kept in the run's folder,
/// where it has one.
Status add_references(graft_context* context, graft_model* model, const TrainArguments& options,
                      const TrainWishes& wishes, TrainingSets& sets);

/// The model has the names of the set's classes, where that has any.
Status keep_classes(graft_context* context, graft_model* model, const graft_data_set* set);

}  // namespace graft::cli
