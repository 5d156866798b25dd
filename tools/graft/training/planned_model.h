// Models as graft plan takes them: those of files, and those of which there is a config.json alone.
#pragma once

#include <string>

#include "tools/graft/shared/public_api.h"
#include "tools/graft/training/train_flags.h"

namespace graft::cli {

/// The device that was asked for, else any that is here, else none: then plans are for what Vulkan guarantees
/// everywhere. `needed`: none will not do.
Result<Owned<graft_context>> open_context_for_plans(const DeviceFlags& flags, bool needed);

/// A .graft file, or a language model by its config.json: what it takes is known before it is there. `quantize`: what
/// the matrices of the latter become.
Result<Owned<graft_model>> open_planned(graft_context* context, const std::string& path, const std::string& quantize);

/// With the adapters of --adapter, or fresh ones.
Result<Owned<graft_model>> open_planned(graft_context* context, const std::string& path, const std::string& quantize,
                                        const TrainFlags& flags);

}  // namespace graft::cli
