// The code of kernels as the program holds it: written as kernel_words.h says, and compressed by shaders/pack_kernels.cpp,
// one frame of zstd for each folder of shaders, and one for the dictionary that they share.
#pragma once

#include <cstdint>
#include <span>

#include "shaders/kernel_info.gen.h"

namespace graft::shaders {

struct PackedGroup {
  std::uint32_t offset = 0;  ///< in packed_kernels()
  std::uint32_t bytes = 0;
  std::uint32_t size = 0;  ///< unpacked, in bytes
};

/// By KernelPlace::group; the last one is the dictionary, empty where there is none.
std::span<const PackedGroup> kernel_groups();

/// How many kernels there are, built or not.
std::size_t kernel_count();

}  // namespace graft::shaders
