// Values of specialization constants put into a kernel before a driver sees it.
//
// SwiftShader optimizes a kernel before it computes what follows from such constants, so that arrays of specialized
// size stay in memory, loops over them are not unrolled, and each access is a branch per lane. With plain constants its
// code for products is several times faster.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "platform/gpu/gpu.h"

namespace graft {

/// Whether this device's compiler gains by it: for products and convolutions of numbers whose lanes hold few sums.
/// Unrolled larger tiles and attention take it minutes and gigabytes, quantized weights half a minute a kernel.
bool wants_plain_constants(const gpu::Caps& caps, std::string_view kernel, std::span<const std::uint32_t> values);

/// The module with constant_id i as `values[i]` and with what follows from them by 32-bit integer and boolean
/// operations as plain constants; others keep their defaults. Operations of other kinds stay, over plain constants. The
/// words as they came where they are no module.
std::vector<std::uint32_t> specialize(std::span<const std::uint32_t> spirv, std::span<const std::uint32_t> values);

}  // namespace graft
