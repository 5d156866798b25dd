// Rearranging a chunk's bytes so that zstd finds more in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace graft::checkpoint {

/// Numbers as in schema/checkpoint.fbs.
enum class Codec : std::uint8_t { plain = 0, planes = 1, delta_planes = 2, xor_planes = 3, sparse = 4 };

constexpr bool needs_parent(Codec codec) { return codec >= Codec::delta_planes; }
/// delta_planes knows elements of 2 and 4 bytes, every other codec of 1, too.
constexpr bool suits(Codec codec, std::size_t width) {
  return width == 2 || width == 4 || (width == 1 && codec != Codec::delta_planes);
}

/// Rearranges `bytes` into `out`, which has as many, and returns how many it filled: all, or, with sparse, fewer; 0
/// where sparse does not make it smaller. `parent` has the same size where the codec needs one. Elements have `width`
/// bytes, which suit the codec; bytes past the last whole element are kept as they are.
std::size_t arrange(Codec codec, std::size_t width, std::span<const std::byte> bytes, std::span<const std::byte> parent,
                    std::span<std::byte> out);
/// The inverse: fills `out`, which may not overlap `arranged`. False where arrange() cannot have made these bytes.
bool restore_arranged(Codec codec, std::size_t width, std::span<const std::byte> arranged,
                      std::span<const std::byte> parent, std::span<std::byte> out);

}  // namespace graft::checkpoint
