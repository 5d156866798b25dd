// Trainers of several workers.
#pragma once

#include "runtime/c_api/c_handles.h"
#include "runtime/run_state/run_state.h"

namespace graft::c_api {

/// The trainer's group and exchange, where the options have a group, and the part of the optimizer's state that it
/// keeps.
Status make_exchange(const graft_trainer_options& options, gpu::Device& device, train::PlanRequest& request,
                     graft_trainer& trainer);

/// Gradients that are rounded on their way are part of what a resume compares.
void configure_wire(const graft_trainer& trainer, Configuration& configuration);

/// After a step: where shares have moved, the loader reads by them.
Status follow_shares(graft_trainer& trainer, data::Loader& loader);

}  // namespace graft::c_api
