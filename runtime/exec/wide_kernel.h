// Kernels whose vectors of four 32-bit numbers go to and from memory as two 64-bit ones.
//
// llvmpipe loads and stores lane by lane and, of a lane, component by component, each behind a test of the buffer's
// bounds: what a vector costs is the number of its components, whatever their width. The bits are the same.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "platform/gpu/gpu.h"

namespace graft {

/// Whether this device gains by it: CPU devices with 64-bit integers in shaders.
bool wants_wide_vectors(const gpu::Caps& caps);

/// The module with each load and store of a whole vec4, uvec4 or ivec4 of a storage buffer made one of two 64-bit
/// integers, and of a whole mat2x4, a pair of such vectors, one of four, through a further variable of the same
/// binding; everything else, component by component too, stays. The words as they came where nothing is to change, and
/// where they are no module of SPIR-V 1.3 or older. Buffers of such vectors hold whole ones, as their sizes say: of one
/// that is cut off by the end, half would read as zero.
std::vector<std::uint32_t> widen_vectors(std::span<const std::uint32_t> spirv);

}  // namespace graft
