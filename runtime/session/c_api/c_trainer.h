// What every way to take a step ends with.
#pragma once

#include "runtime/session/c_api/c_handles.h"

namespace graft::c_api {

graft_metrics metrics_of(const train::Trainer& trainer, const train::Metrics& metrics, double learning_rate);

/// What a trainer of these options is asked to do.
Result<train::TrainOptions> train_options_of(const graft_trainer_options& options);

/// After a whole step: it is recorded, where a checkpoint is open, and told.
Status end_step(graft_trainer& trainer, const train::StepResult& result, graft_metrics* metrics);

}  // namespace graft::c_api
