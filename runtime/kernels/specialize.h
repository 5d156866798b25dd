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

/// Whether this device's compiler gains by it: for products and convolutions of numbers whose lanes hold at most
/// 128 sums (tiles of 8x4 compile within a second, of 32x4 1.2 s longer, of 32x8 some 11 s). Attention, unrolled, takes
/// the compiler minutes and gigabytes, quantized weights half a minute each.
bool wants_plain_constants(const gpu::Caps& caps, std::string_view kernel, std::span<const std::uint32_t> values);

/// The module with constant_id i set to `values[i]`, and with 32-bit integer and boolean operations on such constants
/// evaluated. Other constants keep their defaults; operations of other kinds stay, on plain constants. Words that are
/// no module come back as they are.
std::vector<std::uint32_t> specialize(std::span<const std::uint32_t> spirv, std::span<const std::uint32_t> values);

}  // namespace graft
