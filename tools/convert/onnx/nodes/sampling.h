// Sampling images and volumes at positions that the network computes: neighbours are picked (gather) and weighed, so
// that gradients go to what is sampled and to where. Everything is made of ops that graft has.
#pragma once

#include "tools/convert/onnx/import/import.h"

namespace graft::convert {

enum class Beyond { zeros, border, reflection };  ///< what lies outside of an image

/// Neighbours along one axis of each of [.., P] positions: index i32 and weight f32, both [.., P, count].
struct Taps {
  ValueId index, weight;
  std::int64_t count = 1;
};

struct SampledAxis {
  std::int64_t size = 1;
  Beyond beyond = Beyond::zeros;
  bool corners = false;  ///< the centres of the outermost pixels are the corners, for reflection
};

/// Positions that are limited to the image, or reflected into it, where the axis says so.
ValueId brought_inside(NodeContext& c, ValueId position, const SampledAxis& axis);
Taps nearest_tap(NodeContext& c, ValueId position, const SampledAxis& axis);
Taps linear_taps(NodeContext& c, ValueId position, const SampledAxis& axis);
Taps cubic_taps(NodeContext& c, ValueId position, const SampledAxis& axis, double a);

/// Weights [.., 2] or [.., 4] of the neighbours of positions whose distance [.., 1] from the one before them is given.
ValueId linear_weights(NodeContext& c, ValueId rest);
ValueId cubic_weights(NodeContext& c, ValueId rest, double a);

/// Taps of several axes, the outermost first, all of the same positions: [.., P, product of counts].
Taps combined(NodeContext& c, const std::vector<Taps>& taps, const std::vector<std::int64_t>& sizes);

/// rows [K, C] at indices [.., M, T], weighed and summed over T: [.., M, C].
ValueId weighed_rows(NodeContext& c, ValueId rows, const Taps& taps);

/// x * alpha + beta.
ValueId affine(NodeContext& c, ValueId x, double alpha, double beta);
ValueId scalar(NodeContext& c, double value);
ValueId integers(NodeContext& c, std::vector<std::int64_t> dims, std::vector<std::int64_t> values);
/// Places [first, last) of an axis.
ValueId part_of(NodeContext& c, ValueId x, std::size_t axis, std::int64_t first, std::int64_t last);
/// 0, 1, .. along the one axis that is `count` long, with `behind` axes of size 1 behind it.
ValueId counted(NodeContext& c, const Dim& count, std::size_t behind);

}  // namespace graft::convert
