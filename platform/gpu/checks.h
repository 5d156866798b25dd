// Argument checks that all implementations of the GPU interface share, so that their errors read the same.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "platform/gpu/gpu.h"

namespace graft::gpu {

/// The part of a KernelDesc that a dispatch is checked against.
struct KernelShape {
  std::string_view name;
  std::uint32_t bindings = 0;
  std::uint32_t push_bytes = 0;
  bool in_parts = false;
};

/// How much of a buffer may be bound or copied: its size rounded up to whole words, since shaders address words.
constexpr std::uint64_t usable_size(std::uint64_t buffer_bytes) { return (buffer_bytes + 3) & ~std::uint64_t{3}; }

/// unsupported where the device only compiles: asked before anything is submitted to it or written because of it.
Status check_runs(const Caps& caps);
Status check_buffer_size(std::uint64_t bytes, std::string_view name, const Caps& caps);
Status check_kernel(const KernelDesc& desc, const Caps& caps);
Status check_dispatch(const KernelShape& kernel, std::span<const BufferRange> bindings, std::size_t push_bytes,
                      const std::array<std::uint32_t, 3>& groups, const std::array<std::uint32_t, 3>& first,
                      const Caps& caps);
Status check_copy(const BufferRange& from, const BufferRange& to);
Status check_fill(const BufferRange& to);

}  // namespace graft::gpu
