// Resize and Upsample: images by a kernel of their own where that knows the mode, any axes by a product with the
// interpolation's matrix, or, where each result is one of the source's numbers, by picking them.
#include <algorithm>
#include <cmath>

#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/nodes/interpolation.h"
#include "tools/convert/onnx/nodes/spatial.h"
#include "tools/convert/onnx/nodes/volume.h"

namespace graft::convert {
namespace {

struct Target {
  std::vector<double> scales;  // per source axis; what the file gave, or size / input
  Ints sizes;                  // per source axis
  std::vector<Dim> open;       // per source axis where some are symbols (their sizes count as 1); otherwise empty
};

Result<Ints> constant_sizes(const Shape& shape) {
  Ints sizes;
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    if (shape[i].is_constant() && shape[i].value() < 1) return unsupported("its input is empty");
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

std::vector<Dim>& open_axes(Target& t, const Shape& shape) {
  if (t.open.empty()) t.open.assign(shape.begin(), shape.end());
  return t.open;
}

Result<Target> from_scales(NodeContext& c, const std::vector<double>& given) {
  GRAFT_TRY_ASSIGN(const Ints in, constant_sizes(c.shape(0)));
  GRAFT_TRY_ASSIGN(const std::vector<std::size_t> axes, target_axes(c, given.size()));
  Target t{std::vector<double>(in.size(), 1.0), in};
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (!(given[i] > 0) || given[i] > 65536) return corrupt("its scale ", given[i], " is out of range");
    t.scales[axes[i]] = given[i];
    // In f32, as runtimes multiply them: 1.8 of 5 is 9, though the f32 next to 1.8 is less than it.
    const float size_of_scale = static_cast<float>(in[axes[i]]) * static_cast<float>(given[i]);
    t.sizes[axes[i]] = static_cast<std::int64_t>(std::floor(size_of_scale));
    const Dim& dim = c.shape(0)[axes[i]];
    if (dim.is_constant() || given[i] == 1) continue;
    // Symbols are scaled by halves, quarters and so on: what files hold without rounding.
    constexpr std::int64_t kParts = 64;
    const double parts = given[i] * static_cast<double>(kParts);
    const auto scaled =
        parts == std::floor(parts) ? multiply(dim, Dim(static_cast<std::int64_t>(parts))) : std::nullopt;
    const auto size = scaled ? divide_floor(*scaled, kParts) : std::nullopt;
    if (!size) {
      return unsupported("it resizes the symbolic axis ", dim.text(), " by ", given[i], "; bind it (--bind NAME=SIZE)");
    }
    open_axes(t, c.shape(0))[axes[i]] = *size;
  }
  for (std::size_t i = 0; i < t.open.size(); ++i) {
    if (t.open[i].is_constant()) t.open[i] = t.sizes[i];
  }
  return t;
}

/// Where a size or the axis is a symbol the scale is what they give once they are bound: 0 here.
Result<Target> from_open_sizes(NodeContext& c, const std::vector<Dim>& given) {
  GRAFT_TRY_ASSIGN(const Ints in, constant_sizes(c.shape(0)));
  GRAFT_TRY_ASSIGN(const std::vector<std::size_t> axes, target_axes(c, given.size()));
  if (c.attr_text("keep_aspect_ratio_policy", "stretch") != "stretch") {
    return unsupported("its sizes depend on a symbol and keep a ratio; bind it (--bind NAME=SIZE)");
  }
  Target t{std::vector<double>(in.size(), 1.0), in};
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i] == c.shape(0)[axes[i]]) continue;
    open_axes(t, c.shape(0))[axes[i]] = given[i];
    const bool known = given[i].is_constant() && c.shape(0)[axes[i]].is_constant();
    if (known && (given[i].value() < 1 || given[i].value() > (1 << 24))) {
      return corrupt("its size ", given[i].value(), " is out of range");
    }
    if (known) t.sizes[axes[i]] = given[i].value();
    t.scales[axes[i]] = known ? static_cast<double>(given[i].value()) / static_cast<double>(in[axes[i]]) : 0;
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
    // One scale for all axes: sizes follow from it.
    double scale = 0;
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (!c.shape(0)[axes[i]].is_constant()) continue;
      const double own = static_cast<double>(given[i]) / static_cast<double>(in[axes[i]]);
      scale = scale == 0 ? own : larger ? std::max(scale, own) : std::min(scale, own);
    }
    Target t{std::vector<double>(in.size(), 1.0), in};
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (!c.shape(0)[axes[i]].is_constant()) continue;
      const auto size = static_cast<std::int64_t>(std::floor(scale * static_cast<double>(in[axes[i]]) + 0.5));
      if (size < 1 || size > (1 << 24)) return corrupt("its size ", size, " is out of range");
      t.sizes[axes[i]] = size;
      t.scales[axes[i]] = scale;
    }
    return t;
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
    const Shape& x = c.shape(0);
    bool open = std::any_of(x.begin() + std::min<std::size_t>(2, x.rank()), x.end(),
                            [](const Dim& d) { return !d.is_constant(); });
    for (std::size_t i = 0; i < dims.size(); ++i) {
      const bool untouched = i < 2 && dims.size() == c.rank(0) && dims[i] == x[i];
      open = open || (!dims[i].is_constant() && !untouched);
    }
    if (open) return from_open_sizes(c, dims);
    return from_sizes(c, sizes);
  }
  if (!c.has(scales)) return corrupt("neither its scales nor its sizes are given");
  GRAFT_TRY_ASSIGN(const std::vector<double> values, scale_values(c, scales));
  return from_scales(c, values);
}

/// Whether the kernel over images does it.
bool is_of_images(NodeContext& c, const Interpolation& how, const Target& t) {
  const std::size_t rank = c.rank(0);
  const bool known = how.coordinates == "half_pixel" || how.coordinates == "align_corners" ||
                     how.coordinates == "asymmetric" || how.coordinates == "pytorch_half_pixel";
  return (rank == 3 || rank == 4) && known && how.mode != Interpolation::Mode::cubic && !how.antialias &&
         is_float(c.type(0)) && t.scales[0] == 1 && t.scales[1] == 1;
}

Status resize_images(NodeContext& c, const Interpolation& how, const Target& t) {
  Spatial s;
  s.axes = c.rank(0) - 2;
  const bool one = s.axes == 1;
  Attrs attrs = {{"sizes", one ? Ints{1, t.sizes[2]} : Ints{t.sizes[2], t.sizes[3]}},
                 {"mode", std::string(how.mode == Interpolation::Mode::nearest ? "nearest" : "linear")},
                 {"coordinates", how.coordinates},
                 {"nearest", how.nearest},
                 {"scale_h", one ? 1.0 : t.scales[2]},
                 {"scale_w", one ? t.scales[2] : t.scales[3]}};
  if (!t.open.empty()) attrs.set("to", one ? Shape{Dim(1), t.open[2]} : Shape{t.open[2], t.open[3]});
  const ValueId y = c.emit(Op::resize, {image(c, 0, s)}, std::move(attrs));
  out_image(c, 0, y, s, c.type(0));
  return {};
}

/// The region of interest of each source axis, in shares of its size.
Status read_roi(NodeContext& c, const Interpolation& how, std::vector<AxisResize>& axes) {
  if (how.coordinates != "tf_crop_and_resize") return {};
  const HostTensor* roi = c.host(1);
  if (roi == nullptr || !is_float(roi->type)) {
    GRAFT_TRY(c.dims(1, "roi"));
    return corrupt("its roi is not of floats");
  }
  const std::size_t count = roi->count() / 2;
  if (count * 2 != roi->count()) return corrupt("its roi has ", roi->count(), " numbers");
  GRAFT_TRY_ASSIGN(const std::vector<std::size_t> which, target_axes(c, count));
  for (std::size_t i = 0; i < count; ++i) {
    axes[which[i]].roi_start = static_cast<double>(roi->floats[i]);
    axes[which[i]].roi_end = static_cast<double>(roi->floats[i + count]);
  }
  return {};
}

/// One axis of a value, between those before it and those behind.
Result<ValueId> resize_axis(NodeContext& c, ValueId x, std::size_t place, const Interpolation& how,
                            const AxisResize& axis) {
  if (!c.status().ok()) return c.status();
  const Shape shape = c.shape_of(x);
  if (how.mode == Interpolation::Mode::nearest) {
    HostTensor positions = HostTensor::of_ints(nearest_positions(how, axis));
    return c.emit(Op::gather, {x, c.constant(positions)}, {{"axis", static_cast<std::int64_t>(place)}});
  }
  constexpr std::int64_t kMostWeights = std::int64_t{1} << 22;
  if (axis.in * axis.out > kMostWeights) {
    return unsupported("resizing an axis from ", axis.in, " to ", axis.out,
                       " in this mode would take a matrix of more ", "than ", kMostWeights, " weights");
  }
  Dim before(1), behind(1);
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    if (i == place) continue;
    GRAFT_TRY_ASSIGN((i < place ? before : behind), dims_product({i < place ? before : behind, shape[i]}));
  }
  const ValueId matrix = c.constant(HostTensor::of_floats({axis.out, axis.in}, interpolation_matrix(how, axis)));
  std::vector<Dim> out(shape.begin(), shape.end());
  out[place] = axis.out;
  if (behind == Dim(1)) {  // rows
    const ValueId y = c.emit(Op::matmul, {c.reshape(x, Shape{before, axis.in}), matrix},
                             {{"trans_a", std::int64_t{0}}, {"trans_b", std::int64_t{1}}});
    return c.reshape(y, Shape(out));
  }
  const ValueId y = c.emit(Op::matmul, {matrix, c.reshape(x, Shape{before, axis.in, behind})},
                           {{"trans_a", std::int64_t{0}}, {"trans_b", std::int64_t{0}}});
  return c.reshape(y, Shape(out));
}

/// Results beyond the source of an axis become one number.
ValueId extrapolated(NodeContext& c, ValueId y, std::size_t place, const Interpolation& how, const AxisResize& axis) {
  HostTensor beyond;
  beyond.type = ElemType::boolean;
  beyond.dims.assign(c.shape_of(y).rank() - place, 1);
  beyond.dims[0] = axis.out;
  for (std::int64_t o = 0; o < axis.out; ++o) beyond.ints.push_back(is_extrapolated(how, axis, o));
  if (std::count(beyond.ints.begin(), beyond.ints.end(), 1) == 0) return y;
  const ValueId value = c.constant(HostTensor::scalar(static_cast<float>(c.attr_number("extrapolation_value", 0))));
  return c.emit(Op::where, {c.constant(beyond), value, y});
}

Status resize_any(NodeContext& c, const Interpolation& how, const Target& t) {
  const std::size_t rank = c.rank(0);
  std::vector<AxisResize> axes(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    axes[i].in = c.shape(0)[i].is_constant() ? c.shape(0)[i].value() : 1;
    axes[i].out = t.sizes[i];
    axes[i].scale = t.scales[i];
  }
  GRAFT_TRY(read_roi(c, how, axes));
  // Channels last, where only the others are resized.
  const bool images = rank >= 3 && t.scales[0] == 1 && t.scales[1] == 1;
  const Perm perm = images ? channels_last(rank) : Perm();
  ValueId x = c.in(0, perm);
  const bool crops = how.coordinates == "tf_crop_and_resize";
  for (std::size_t i = 0; i < rank; ++i) {
    const Dim &from = c.shape(0)[i], &to = t.open.empty() ? from : t.open[i];
    const std::size_t place = images ? i - 1 : i;
    const bool cropped = crops && (axes[i].roi_start != 0 || axes[i].roi_end != 1);
    if (!from.is_constant() || !to.is_constant()) {
      if (cropped) return unsupported("it crops the symbolic axis ", from.text(), "; bind it (--bind NAME=SIZE)");
      if (to == from && t.scales[i] == 1) continue;
      GRAFT_TRY_ASSIGN(x, resize_open_axis(c, x, place, how, {from, to, t.scales[i]}));
      continue;
    }
    if (axes[i].in == axes[i].out && axes[i].scale == 1 && !cropped) continue;
    GRAFT_TRY_ASSIGN(x, resize_axis(c, x, place, how, axes[i]));
    if (crops && c.status().ok()) x = extrapolated(c, x, place, how, axes[i]);
  }
  c.out(0, x, perm);
  return {};
}

Status resize(NodeContext& c) {
  const bool old = c.node.op == "Upsample" || c.opset < 11;
  GRAFT_TRY_ASSIGN(const Interpolation how, read_interpolation(c, old));
  if (!is_float(c.type(0)) && how.mode != Interpolation::Mode::nearest) {
    return unsupported("its input is ", elem_name(c.type(0)), ", and only floats are interpolated");
  }
  GRAFT_TRY_ASSIGN(const Target t, read_target(c));
  return is_of_images(c, how, t) ? resize_images(c, how, t) : resize_any(c, how, t);
}

}  // namespace

const RuleEntry kResizeRules[] = {
    {"Resize", 1, 4, resize},
    {"Upsample", 1, 2, resize},
    {nullptr, 0, 0, nullptr},
};

}  // namespace graft::convert
