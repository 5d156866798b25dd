// Norms that add up what they normalise.
#pragma once

#include <optional>

#include "runtime/ops/emitter.h"

namespace graft {

/// The variant that does, of the kernel that a norm was emitted with; nullopt where there is none on this device.
std::optional<shaders::KernelId> add_norm_kernel(Emitter& norm);

}  // namespace graft
