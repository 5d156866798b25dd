// Trainers of several workers.
#pragma once

#include "runtime/session/c_api/c_handles.h"

namespace graft::c_api {

/// The trainer's group and exchange, where the options have a group.
Status make_exchange(const graft_trainer_options& options, gpu::Device& device, graft_trainer& trainer);

}  // namespace graft::c_api
