// Kernels several of whose bindings lie in one storage buffer, for devices that have few: see PlanKernel::shares.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "platform/base/status.h"
#include "runtime/plan/plan.h"

namespace graft {

/// The module with binding i in the buffer that `shares[i]` names. Where the share has a word, every access to the
/// binding is offset by it; such words follow the kernel's own push constants, which are then `push_bytes` in all.
/// Variables of one buffer are declared to alias. A binding that is no array of numbers begins where its buffer does.
/// unsupported where bindings are used other than by access to their elements; invalid_argument where the words are no
/// module, or declare bindings beyond `shares`.
Result<std::vector<std::uint32_t>> share_kernel(std::span<const std::uint32_t> spirv, std::span<const Share> shares,
                                                std::uint32_t push_bytes);

}  // namespace graft
