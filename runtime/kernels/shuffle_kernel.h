// Kernels whose shuffles say more than that they are shuffles, by operations that are cheaper where a driver has them.
//
// clusters.glsl names a lane by the invocation's own number under a mask, plus the lane within the cluster: a shuffle.
// Where there is one cluster the mask is 0, all lanes name the same one, and a broadcast gives the same bits. What the
// lane has whose number differs by a constant below four is swapped within the quad.
// SwiftShader finds a shuffle's lane by four comparisons for each of four lanes, also where it is a constant; a
// broadcast's by one, and a swap is one instruction.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace graft {

/// The module, whose specialization constants are plain (specialize.h), with shuffles from a lane that is the same for
/// all invocations as broadcasts, and those from a lane whose number differs by 1, 2 or 3 as swaps within quads, which
/// subgroups of four and more have where the device has VK_SUBGROUP_FEATURE_QUAD_BIT. Loop counters may name a
/// broadcast's lane, which SPIR-V allows from 1.5 on: so the module is of that version then. Words that are no module
/// come back as they are.
std::vector<std::uint32_t> cheaper_shuffles(std::span<const std::uint32_t> spirv);

}  // namespace graft
