// Inputs that are given in fewer than 32 bits: bytes of images, halves. The device turns them into what the model
// takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/graph.h"
#include "runtime/core/packed.h"

namespace graft::passes {

using graft::Packed;

/// How an f32 input is given. The model gets x * scale + offset.
struct PackedInput {
  std::string name;
  Packed element = Packed::u8;
  bool channels_last = false;  ///< [N, H, W, C] where the model takes [N, C, H, W]; so for every rank from 3 on
  std::vector<float> scale;    ///< empty: 1; one number; or one for each channel, at most four
  std::vector<float> offset;   ///< the same; empty: 0
};

/// The graph, bound, with other inputs of these names: i32 words, as many as the elements need, the first element in
/// the lowest bits of the first. not_found, invalid_argument: no such f32 input, no channels where they are named,
/// numbers for another count of channels or that are not finite.
Result<Graph> pack_inputs(const Graph& graph, std::span<const PackedInput> inputs);

/// How one of these inputs of such a graph is given.
struct PackedShape {
  std::string input;
  Packed element = Packed::u8;
  Shape shape;
};
std::vector<PackedShape> packed_shapes(const Graph& graph);

/// The first element that is no finite number; bytes are all finite.
std::optional<std::uint64_t> find_non_finite(Packed element, std::span<const std::byte> bytes);

}  // namespace graft::passes
