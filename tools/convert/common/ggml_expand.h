// ggml's block formats that no kernel reads: their numbers become f32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace graft::convert {

struct ExpandedType {
  std::uint32_t number;  ///< ggml's
  std::uint32_t elements, bytes;
  /// One block: `bytes` bytes to `elements` numbers.
  void (*expand)(const std::byte* block, float* out);
};

/// All of them.
std::span<const ExpandedType> expanded_types();
/// By ggml's number; NULL for others.
const ExpandedType* expanded_type(std::uint32_t number);

/// As many whole blocks as `out` needs.
void expand(const ExpandedType& type, std::span<const std::byte> blocks, std::span<float> out);

}  // namespace graft::convert
