// Attributes that convolutions and poolings share, brought to two spatial axes.
#pragma once

#include "tools/convert/onnx/import.h"

namespace graft::convert {

/// One or two spatial axes; one becomes two with a height of 1.
struct Spatial {
  std::size_t axes = 2;
  Ints kernel, strides, dilations;
  Ints pads;  ///< top, left, bottom, right
  bool ceil_mode = false;

  /// [a] -> [1, a] where there is one axis only.
  Ints widened(const Ints& values, std::int64_t neutral) const;
};

/// Reads strides, dilations, pads or auto_pad of input 0, whose kernel is `kernel` (source axes). Errors: other than
/// one or two spatial axes, lengths that do not fit, values that are not positive, negative pads.
Result<Spatial> read_spatial(NodeContext& c, Ints kernel);

/// Input i as [N, H, W, C].
ValueId image(NodeContext& c, std::size_t i, const Spatial& spatial);
/// Sets output k from an [N, H, W, C] value.
void out_image(NodeContext& c, std::size_t k, ValueId value, const Spatial& spatial, ElemType type);

/// True when a given auto_pad asks for padding by the input's size; sets begin and end of one axis.
bool same_padding(std::string_view auto_pad, std::int64_t total, std::int64_t& begin, std::int64_t& end);

}  // namespace graft::convert
