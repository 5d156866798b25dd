// Attributes that convolutions and poolings share, as they are or brought to two spatial axes.
#pragma once

#include "tools/convert/onnx/import/import.h"

namespace graft::convert {

/// One to three spatial axes as the source has them; pads: all befores, then all afters.
struct Window {
  std::size_t axes = 2;
  Ints kernel, strides, dilations, pads;
  Ints same;  ///< of each axis whether its pads follow from a symbol ("same" of runtime/ops/window.h); empty: of none
  bool ceil_mode = false;
};

/// Reads strides, dilations, pads or auto_pad of input 0, whose kernel is `kernel`. Errors: other than one to three
/// spatial axes, lengths that do not fit, values that are not positive, negative pads. open_pads: the caller's op takes
/// "same"; otherwise pads that follow from a symbol are refused.
Result<Window> read_window(NodeContext& c, const Ints& kernel, bool open_pads = false);

/// One or two spatial axes; one becomes two with a height of 1.
struct Spatial {
  std::size_t axes = 2;
  Ints kernel, strides, dilations;
  Ints pads;  ///< top, left, bottom, right
  Ints same;  ///< as Window's
  bool ceil_mode = false;

  /// [a] -> [1, a] where there is one axis only.
  Ints widened(const Ints& values, std::int64_t neutral) const;
};

/// The same of one or two axes.
Result<Spatial> widened(const Window& window);
Result<Spatial> read_spatial(NodeContext& c, const Ints& kernel);

/// Input i as [N, H, W, C].
ValueId image(NodeContext& c, std::size_t i, const Spatial& spatial);
/// Sets output k from an [N, H, W, C] value.
void out_image(NodeContext& c, std::size_t k, ValueId value, const Spatial& spatial, ElemType type);

/// True when a given auto_pad asks for padding by the input's size; sets begin and end of one axis.
bool same_padding(std::string_view auto_pad, std::int64_t total, std::int64_t& begin, std::int64_t& end);

}  // namespace graft::convert
