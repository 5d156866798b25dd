// Resize and Upsample of one or two spatial axes.
#include <algorithm>
#include <cmath>

#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/spatial.h"

namespace graft::convert {
namespace {

struct Target {
  std::vector<double> scales;  // per source axis; what the file gave, or size / input
  Ints sizes;                  // per source axis
};

Result<Ints> constant_sizes(const Shape& shape) {
  Ints sizes;
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    if (i >= 2 && !shape[i].is_constant()) {
      return unsupported("it resizes the symbolic axis ", shape[i].text(), "; bind it (--bind NAME=SIZE)");
    }
    sizes.push_back(shape[i].is_constant() ? shape[i].value() : 1);
  }
  return sizes;
}

/// Which source axes the scales or sizes are for.
Result<std::vector<std::size_t>> target_axes(NodeContext& c, std::size_t count) {
  std::vector<std::size_t> axes;
  const Ints given = c.attr_ints("axes");
  for (std::size_t i = 0; i < count; ++i) {
    if (!given.empty() && given.size() != count) return corrupt("it has ", given.size(), " axes for ", count, " sizes");
    GRAFT_TRY_ASSIGN(const std::size_t axis,
                     c.axis(given.empty() ? static_cast<std::int64_t>(i) : given[i], c.rank(0)));
    axes.push_back(axis);
  }
  if (given.empty() && count != c.rank(0)) return corrupt("it has ", count, " sizes for ", c.rank(0), " axes");
  return axes;
}

Result<Target> from_scales(NodeContext& c, const std::vector<double>& given) {
  GRAFT_TRY_ASSIGN(const Ints in, constant_sizes(c.shape(0)));
  GRAFT_TRY_ASSIGN(const std::vector<std::size_t> axes, target_axes(c, given.size()));
  Target t{std::vector<double>(in.size(), 1.0), in};
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (!(given[i] > 0) || given[i] > 65536) return corrupt("its scale ", given[i], " is out of range");
    t.scales[axes[i]] = given[i];
    t.sizes[axes[i]] = static_cast<std::int64_t>(std::floor(static_cast<double>(in[axes[i]]) * given[i]));
  }
  return t;
}

Result<Target> from_sizes(NodeContext& c, Ints given) {
  GRAFT_TRY_ASSIGN(const Ints in, constant_sizes(c.shape(0)));
  GRAFT_TRY_ASSIGN(const std::vector<std::size_t> axes, target_axes(c, given.size()));
  for (const std::int64_t size : given) {
    if (size < 1 || size > (1 << 24)) return corrupt("its size ", size, " is out of range");
  }
  const std::string policy = c.attr_text("keep_aspect_ratio_policy", "stretch");
  if (policy != "stretch") {
    const bool larger = policy == "not_smaller";
    if (!larger && policy != "not_larger") return corrupt("its keep_aspect_ratio_policy is \"", policy, "\"");
    double scale = 0;
    for (std::size_t i = 0; i < given.size(); ++i) {
      const double own = static_cast<double>(given[i]) / static_cast<double>(in[axes[i]]);
      scale = i == 0 ? own : larger ? std::max(scale, own) : std::min(scale, own);
    }
    for (std::size_t i = 0; i < given.size(); ++i) {
      given[i] = static_cast<std::int64_t>(std::floor(scale * static_cast<double>(in[axes[i]]) + 0.5));
    }
  }
  Target t{std::vector<double>(in.size(), 1.0), in};
  for (std::size_t i = 0; i < given.size(); ++i) {
    const Dim& axis_size = c.shape(0)[axes[i]];
    if (!axis_size.is_constant()) continue;
    if (given[i] < 1 || given[i] > (1 << 24)) return corrupt("its size ", given[i], " is out of range");
    t.sizes[axes[i]] = given[i];
    t.scales[axes[i]] = static_cast<double>(given[i]) / static_cast<double>(in[axes[i]]);
  }
  return t;
}

Result<std::vector<double>> scale_values(NodeContext& c, std::size_t i) {
  const HostTensor* host = c.host(i);
  if (host == nullptr || !is_float(host->type)) {
    GRAFT_TRY(c.dims(i, "scales"));
    return corrupt("its scales are not floats");
  }
  return std::vector<double>(host->floats.begin(), host->floats.end());
}

Result<Target> read_target(NodeContext& c) {
  if (c.node.op == "Upsample" && c.opset < 9) {
    const auto found = c.node.attrs.find("scales");
    if (found == c.node.attrs.end()) return corrupt("its scales are missing");
    return from_scales(c, std::vector<double>(found->second.numbers.begin(), found->second.numbers.end()));
  }
  const std::size_t scales = c.opset < 11 || c.node.op == "Upsample" ? 1 : 2;
  const bool sizes_given = c.has(3) && !(c.host(3) && c.host(3)->count() == 0);
  if (scales == 2 && sizes_given) {
    GRAFT_TRY_ASSIGN(const std::vector<Dim> dims, c.dims(3, "sizes"));
    Ints sizes;
    for (const Dim& dim : dims) sizes.push_back(dim.is_constant() ? dim.value() : 1);
    for (std::size_t i = 0; i < dims.size(); ++i) {
      const bool untouched = i < 2 && dims.size() == c.rank(0) && dims[i] == c.shape(0)[i];
      if (!dims[i].is_constant() && !untouched)
        return unsupported("its sizes depend on the symbol ", dims[i].symbols());
    }
    return from_sizes(c, sizes);
  }
  if (!c.has(scales)) return corrupt("neither its scales nor its sizes are given");
  GRAFT_TRY_ASSIGN(const std::vector<double> values, scale_values(c, scales));
  return from_scales(c, values);
}

Status check_modes(NodeContext& c, const std::string& mode, const std::string& coordinates) {
  if (mode != "nearest" && mode != "linear" && mode != "bilinear") {
    return unsupported("its mode is \"", mode, "\" (nearest and linear are supported)");
  }
  if (coordinates != "half_pixel" && coordinates != "align_corners" && coordinates != "asymmetric" &&
      coordinates != "pytorch_half_pixel") {
    return unsupported("its coordinate_transformation_mode is \"", coordinates,
                       "\" (half_pixel, pytorch_half_pixel, align_corners and asymmetric are supported)");
  }
  if (c.attr("antialias", 0) != 0) return unsupported("antialiasing is not supported");
  if (c.attr("exclude_outside", 0) != 0) return unsupported("exclude_outside is not supported");
  return {};
}

/// Whether the scales are exactly those of the sizes, as they are wherever sizes were given.
bool whole(NodeContext& c, const Target& t) {
  for (std::size_t i = 0; i < t.sizes.size(); ++i) {
    const Dim& size = c.shape(0)[i];
    if (!size.is_constant()) continue;
    const double exact = static_cast<double>(size.value()) * t.scales[i];
    if (std::abs(exact - static_cast<double>(t.sizes[i])) > 1e-6 * exact) return false;
  }
  return true;
}

Status resize(NodeContext& c) {
  if (!is_float(c.type(0))) return unsupported("its input is ", elem_name(c.type(0)), ", and only floats are resized");
  const bool old = c.node.op == "Upsample" || c.opset < 11;
  std::string mode = c.attr_text("mode", "nearest");
  const std::string coordinates = old ? "asymmetric" : c.attr_text("coordinate_transformation_mode", "half_pixel");
  const std::string nearest = old ? "floor" : c.attr_text("nearest_mode", "round_prefer_floor");
  GRAFT_TRY(check_modes(c, mode, coordinates));
  const std::size_t rank = c.rank(0);
  if (rank != 3 && rank != 4) return unsupported("its input has ", rank, " axes, and only 3 or 4 are supported");
  GRAFT_TRY_ASSIGN(const Target t, read_target(c));
  if (coordinates == "align_corners" && !whole(c, t)) {
    return unsupported("align_corners with scales that give no whole sizes is not supported");
  }
  if (t.scales[0] != 1 || t.scales[1] != 1) return unsupported("it resizes the batch or the channels");
  Spatial s;
  s.axes = rank - 2;
  const bool one = s.axes == 1;
  const ValueId y = c.emit(Op::resize, {image(c, 0, s)},
                           {{"sizes", one ? Ints{1, t.sizes[2]} : Ints{t.sizes[2], t.sizes[3]}},
                            {"mode", std::string(mode == "nearest" ? "nearest" : "linear")},
                            {"coordinates", coordinates},
                            {"nearest", nearest},
                            {"scale_h", one ? 1.0 : t.scales[2]},
                            {"scale_w", one ? t.scales[2] : t.scales[3]}});
  out_image(c, 0, y, s, c.type(0));
  return {};
}

}  // namespace

const RuleEntry kResizeRules[] = {
    {"Resize", 1, 4, resize},
    {"Upsample", 1, 2, resize},
    {nullptr, 0, 0, nullptr},
};

}  // namespace graft::convert
