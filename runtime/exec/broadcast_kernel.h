// Kernels that hand a lane's number to all others by broadcasts.
//
// clusters.glsl names a lane by the invocation's own number under a mask, plus the lane within the cluster: a shuffle.
// Where there is one cluster the mask is 0, all lanes name the same one, and a broadcast gives the same bits.
// SwiftShader finds a shuffle's lane by four comparisons for each of four lanes, also where it is a constant; a
// broadcast's by one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace graft {

/// The module, whose specialization constants are plain (specialize.h), with shuffles from a lane that is the same for
/// all invocations as broadcasts. Loop counters may name it, which SPIR-V allows from 1.5 on: so the module is of that
/// version then. Words that are no module come back as they are.
std::vector<std::uint32_t> shuffles_as_broadcasts(std::span<const std::uint32_t> spirv);

}  // namespace graft
