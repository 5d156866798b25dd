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

/// The module in which a whole vec4, uvec4 or ivec4 of a storage buffer is loaded and stored as two 64-bit integers,
/// and a whole mat2x4 (a pair of such vectors) as four, through a further variable of the same binding. All other
/// accesses, component by component too, stay. The words come back as they are where nothing changes, and where they
/// are no module of SPIR-V 1.3 or older. Buffers of such vectors must hold whole ones: of a vector that the end cuts
/// off, half would read as zero.
std::vector<std::uint32_t> widen_vectors(std::span<const std::uint32_t> spirv);

}  // namespace graft
