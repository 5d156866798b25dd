// The code of kernels as the program holds it: written as kernel_words.h says, and compressed by shaders/pack_kernels.cpp,
// one frame of zstd for each folder of shaders (one for all where they are few), one for the names of all kernels, and one
// for the dictionary that the folders share.
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

/// By KernelPlace::group; the last but one has the names, and the last one is the dictionary, empty where there is none.
std::span<const PackedGroup> kernel_groups();

/// The names of all kernels, built or not, one behind the other; unpacked when first asked for, null where there is no memory.
const char* kernel_names();

/// How many kernels there are, built or not.
std::size_t kernel_count();

}  // namespace graft::shaders
