#include "tools/convert/onnx/nodes/spatial.h"

#include <algorithm>

namespace graft::convert {

Ints Spatial::widened(const Ints& values, std::int64_t neutral) const {
  return axes == 2 ? values : Ints{neutral, values[0]};
}

bool same_padding(std::string_view auto_pad, std::int64_t total, std::int64_t& begin, std::int64_t& end) {
  if (auto_pad != "SAME_UPPER" && auto_pad != "SAME_LOWER") return false;
  total = std::max<std::int64_t>(total, 0);
  begin = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
  end = total - begin;
  return true;
}

Result<Window> read_window(NodeContext& c, const Ints& kernel, bool open_pads) {
  const std::size_t rank = c.rank(0);
  if (rank < 3 || rank > 5) {
    return unsupported("its input has ", rank, " axes, and only one to three spatial axes are supported (3 to 5 axes)");
  }
  Window s;
  s.axes = rank - 2;
  constexpr std::int64_t kLimit = 1 << 20;
  const auto read = [&](const char* name, std::int64_t low, std::size_t length, Ints& out) -> Status {
    out = c.attr_ints(name, Ints(length, low));
    if (out.size() != length) return corrupt("its ", name, " has ", out.size(), " values instead of ", length);
    for (const std::int64_t v : out) {
      if (v < low || v > kLimit) {
        return unsupported("its ", name, " holds ", v, ", which is not in [", low, ", ", kLimit, "]");
      }
    }
    return {};
  };
  if (kernel.size() != s.axes) return corrupt("its kernel has ", kernel.size(), " axes instead of ", s.axes);
  for (const std::int64_t k : kernel) {
    if (k < 1 || k > kLimit) return corrupt("its kernel has a size of ", k);
  }
  s.kernel = kernel;
  Ints &strides = s.strides, &dilations = s.dilations, &pads = s.pads;
  GRAFT_TRY(read("strides", 1, s.axes, strides));
  GRAFT_TRY(read("dilations", 1, s.axes, dilations));
  const std::string auto_pad = c.attr_text("auto_pad", "NOTSET");
  if (auto_pad == "NOTSET" || auto_pad.empty()) {
    GRAFT_TRY(read("pads", 0, 2 * s.axes, pads));
    for (std::size_t i = 0; c.node.op.ends_with("Pool") && i < pads.size(); ++i) {
      if (pads[i] < kernel[i % s.axes]) continue;
      return corrupt("its pads hold ", pads[i], " for a kernel of ", kernel[i % s.axes],
                     ", and a pad must be smaller than the kernel, or a window sees nothing but padding");
    }
  } else {
    pads.assign(2 * s.axes, 0);
    if (auto_pad != "VALID" && auto_pad != "SAME_UPPER" && auto_pad != "SAME_LOWER") {
      return corrupt("its auto_pad is \"", auto_pad, "\"");
    }
    for (std::size_t i = 0; auto_pad != "VALID" && i < s.axes; ++i) {
      const Dim& size = c.shape(0)[i + 2];
      if (!size.is_constant() && strides[i] == 1) {  // as much as a window has beyond one element
        same_padding(auto_pad, (kernel[i] - 1) * dilations[i], pads[i], pads[i + s.axes]);
        continue;
      }
      if (!size.is_constant() && open_pads && s.axes < 3) {
        s.same.resize(s.axes, 0);
        s.same[i] = auto_pad == "SAME_UPPER" ? 1 : 2;
        continue;
      }
      if (!size.is_constant()) {
        return unsupported("its auto_pad ", auto_pad, " needs the size of axis ", i + 2, "; bind ", size.text(),
                           " (--bind NAME=SIZE)");
      }
      const std::int64_t out = (size.value() + strides[i] - 1) / strides[i];
      const std::int64_t total = (out - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 - size.value();
      same_padding(auto_pad, total, pads[i], pads[i + s.axes]);
    }
  }
  if (c.node.op.ends_with("Pool")) s.ceil_mode = c.attr("ceil_mode", 0) != 0;
  return s;
}

Result<Spatial> widened(const Window& window) {
  if (window.axes > 2) return unsupported("it has ", window.axes, " spatial axes, and one or two are supported here");
  Spatial s;
  s.axes = window.axes;
  s.kernel = s.widened(window.kernel, 1);
  s.strides = s.widened(window.strides, 1);
  s.dilations = s.widened(window.dilations, 1);
  if (!window.same.empty()) s.same = s.widened(window.same, 0);
  s.pads = s.axes == 2 ? window.pads : Ints{0, window.pads[0], 0, window.pads[1]};
  s.ceil_mode = window.ceil_mode;
  return s;
}

Result<Spatial> read_spatial(NodeContext& c, const Ints& kernel) {
  GRAFT_TRY_ASSIGN(const Window window, read_window(c, kernel));
  return widened(window);
}

ValueId image(NodeContext& c, std::size_t i, const Spatial& spatial) {
  const ValueId x = c.in(i, channels_last(c.rank(i)));
  if (spatial.axes == 2) return x;
  const Shape shape = c.shape_of(x);
  if (shape.rank() != 3) return x;
  return c.reshape(x, Shape{shape[0], 1, shape[1], shape[2]});
}

void out_image(NodeContext& c, std::size_t k, ValueId value, const Spatial& spatial, ElemType type) {
  const Shape shape = c.shape_of(value);
  if (spatial.axes == 1 && shape.rank() == 4) value = c.reshape(value, Shape{shape[0], shape[2], shape[3]});
  c.out_typed(k, value, type, channels_last(spatial.axes + 2));
}

}  // namespace graft::convert
