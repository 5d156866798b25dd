// Kernels that read buffers as arrays of texels.
//
// llvmpipe of Mesa 22.3 reads a storage buffer lane by lane in a loop, each component behind a branch on the buffer's
// bounds (gpu::reads_texels()). A texel of a buffer it fetches for all lanes at once, without a branch. The bits are
// the same.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "platform/gpu/gpu.h"

namespace graft {

/// Whether a kernel gains by it where others do: not where lanes read a page each, or few of them read at all, which a
/// loop leaves out.
bool gains_by_texels(std::string_view kernel);

struct TexelKernel {
  std::vector<std::uint32_t> words;
  std::vector<gpu::TexelView> views;  ///< of its bindings, as numbers of further ones; empty: nothing changed
};

/// The module in which 32-bit numbers, vectors of two or four and pairs of vectors of four (mat2x4) of read-only
/// storage buffers are fetched as texels, through variables of bindings from `bindings` on. What a constant index names
/// stays a load, which a driver may do once for all lanes, and so do all other accesses. The words come back as they
/// are where nothing changes, and where they are no module of SPIR-V 1.3 or older. Read-only buffers must hold whole
/// vectors, as with widen_vectors().
TexelKernel read_texels(std::span<const std::uint32_t> spirv, std::uint32_t bindings);

}  // namespace graft
