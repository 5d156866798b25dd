// Images and volumes sampled at computed positions.
#include <algorithm>
#include <cmath>

#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/import/fold.h"
#include "tools/convert/onnx/nodes/sampling.h"
#include "tools/convert/onnx/nodes/volume.h"

namespace graft::convert {
namespace {

Status check_floats(NodeContext& c, std::initializer_list<std::size_t> inputs) {
  for (const std::size_t i : inputs) {
    if (c.has(i) && !is_float(c.type(i))) return unsupported("its input ", i, " is ", elem_name(c.type(i)));
  }
  return {};
}

/// An image's pixels as rows of channels; sizes of its spatial axes, which must be known.
struct Pixels {
  ValueId rows;
  std::vector<std::int64_t> sizes;
};

Result<Pixels> pixels(NodeContext& c) {
  const Shape& shape = c.shape(0);
  Pixels out;
  Dim count = shape[0];
  for (std::size_t i = 2; i < shape.rank(); ++i) {
    if (!shape[i].is_constant()) return unsupported("its axis ", i, " has the symbolic size ", shape[i].text());
    out.sizes.push_back(shape[i].value());
    GRAFT_TRY_ASSIGN(count, dims_product({count, shape[i]}));
  }
  out.rows = c.reshape(c.in(0, channels_last(shape.rank())), Shape{count, shape[1]});
  return out;
}

Result<Beyond> padding_mode(NodeContext& c) {
  const std::string mode = c.attr_text("padding_mode", "zeros");
  if (mode == "zeros") return Beyond::zeros;
  if (mode == "border") return Beyond::border;
  if (mode == "reflection") return Beyond::reflection;
  return corrupt("its padding_mode is \"", mode, "\"");
}

Status grid_sample(NodeContext& c) {
  GRAFT_TRY(check_floats(c, {0, 1}));
  const Shape shape = c.shape(0), grid = c.shape(1);
  const std::size_t axes = shape.rank() - 2;
  if (shape.rank() < 3 || shape.rank() > 5) return unsupported("its input has ", shape.rank(), " axes");
  if (grid.rank() != shape.rank() || grid.back() != Dim(static_cast<std::int64_t>(axes)) || grid[0] != shape[0]) {
    return corrupt("its grid ", grid.text(), " does not fit an input of shape ", shape.text());
  }
  const std::string mode = c.attr_text("mode", c.opset < 20 ? "bilinear" : "linear");
  const bool cubic = mode == "bicubic" || mode == "cubic", nearest = mode == "nearest";
  if (!cubic && !nearest && mode != "bilinear" && mode != "linear") return corrupt("its mode is \"", mode, "\"");
  GRAFT_TRY_ASSIGN(const Beyond beyond, padding_mode(c));
  const bool corners = c.attr("align_corners", 0) != 0;
  GRAFT_TRY_ASSIGN(const Pixels x, pixels(c));
  Dim points(1);
  for (std::size_t i = 1; i + 1 < grid.rank(); ++i) {
    GRAFT_TRY_ASSIGN(points, dims_product({points, grid[i]}));
  }
  const ValueId flat = c.reshape(c.in(1), Shape{grid[0], points, static_cast<std::int64_t>(axes)});
  std::vector<Taps> taps;
  for (std::size_t i = 0; i < axes; ++i) {
    const SampledAxis axis{x.sizes[i], beyond, corners};
    if (axis.size < 1) return unsupported("its input is empty");
    const auto column = static_cast<std::int64_t>(axes - 1 - i);  // the grid names the innermost axis first
    ValueId at = c.reshape(part_of(c, flat, 2, column, column + 1), Shape{grid[0], points});
    const double size = static_cast<double>(axis.size);
    at = corners ? affine(c, at, (size - 1) / 2, (size - 1) / 2) : affine(c, at, size / 2, (size - 1) / 2);
    // Four pixels are weighed by where the point lies, also where it lies outside: the border holds each of them by
    // itself.
    const bool as_it_is = cubic && beyond == Beyond::border;
    taps.push_back(nearest ? nearest_tap(c, at, axis)
                   : cubic ? cubic_taps(c, as_it_is ? at : brought_inside(c, at, axis), axis, -0.75)
                           : linear_taps(c, brought_inside(c, at, axis), axis));
  }
  Taps all = combined(c, taps, x.sizes);
  std::int64_t plane = 1;
  for (const std::int64_t size : x.sizes) plane *= size;
  const ValueId first = c.emit(Op::mul, {counted(c, grid[0], 2), integers(c, {}, {plane})});
  all.index = c.emit(Op::add, {all.index, first});
  std::vector<Dim> out(grid.begin(), grid.end());
  out.back() = shape[1];
  c.out(0, c.reshape(weighed_rows(c, x.rows, all), Shape(out)), channels_last(shape.rank()));
  return {};
}

/// theta [N, k, k + 1] times the homogeneous positions of a grid.
Status affine_grid(NodeContext& c) {
  GRAFT_TRY(check_floats(c, {0}));
  GRAFT_TRY_ASSIGN(const Ints size, c.ints(1, "size"));
  const std::size_t axes = size.size() - 2;
  if (size.size() != 4 && size.size() != 5) return corrupt("its size has ", size.size(), " numbers instead of 4 or 5");
  if (c.rank(0) != 3 || c.shape(0)[1] != Dim(static_cast<std::int64_t>(axes)) ||
      c.shape(0)[2] != Dim(static_cast<std::int64_t>(axes) + 1)) {
    return corrupt("its theta has the shape ", c.shape(0).text());
  }
  const bool corners = c.attr("align_corners", 0) != 0;
  std::uint64_t points = 1;
  for (std::size_t i = 2; i < size.size(); ++i) {
    if (size[i] < 1 || size[i] > (1 << 24)) return corrupt("its size holds ", size[i]);
    points *= static_cast<std::uint64_t>(size[i]);
    if (points > (1u << 24)) return unsupported("its grid would have more than ", 1 << 24, " points");
  }
  std::vector<float> base;
  for (std::uint64_t p = 0; p < points; ++p) {
    std::vector<double> at(axes);
    std::uint64_t rest = p;
    for (std::size_t i = axes; i-- > 0;) {
      const double n = static_cast<double>(size[i + 2]),
                   o = static_cast<double>(rest % static_cast<std::uint64_t>(size[i + 2]));
      rest /= static_cast<std::uint64_t>(size[i + 2]);
      at[i] = corners ? (n > 1 ? 2 * o / (n - 1) - 1 : 0.0) : (2 * o + 1) / n - 1;
    }
    for (std::size_t i = axes; i-- > 0;) base.push_back(static_cast<float>(at[i]));
    base.push_back(1);
  }
  const ValueId grid = c.constant(
      HostTensor::of_floats({static_cast<std::int64_t>(points), static_cast<std::int64_t>(axes) + 1}, std::move(base)));
  const ValueId y = c.emit(Op::matmul, {grid, c.in(0)}, {{"trans_a", std::int64_t{0}}, {"trans_b", std::int64_t{1}}});
  std::vector<Dim> out = {c.shape(0)[0]};
  for (std::size_t i = 2; i < size.size(); ++i) out.push_back(size[i]);
  out.push_back(static_cast<std::int64_t>(axes));
  c.out(0, c.reshape(y, Shape(out)));
  return {};
}

// ---- regions of interest

struct Regions {
  Dim count;
  std::int64_t height = 1, width = 1;
  double scale = 1;
  double offset = 0;  ///< of pixel centres
  std::string mode = "avg";
};

/// How many samples a bin has along an axis: given, or as many as the largest region needs, with each one's own count.
struct Samples {
  std::int64_t most = 1;
  std::vector<std::int64_t> own;  ///< by region; empty: all have the most
};

Result<Samples> samples_of(NodeContext& c, const Regions& r, bool vertical) {
  const std::int64_t ratio = c.attr("sampling_ratio", 0);
  if (ratio < 0 || ratio > 64) return corrupt("its sampling_ratio is ", ratio);
  if (ratio > 0) return Samples{ratio, {}};
  const HostTensor* rois = c.host(1);
  if (rois == nullptr || !is_float(rois->type)) {
    GRAFT_TRY(c.dims(1, "rois (without a sampling_ratio their sizes say how many samples are taken)"));
    return corrupt("its rois are not floats");
  }
  Samples samples;
  for (std::size_t i = 0; i + 3 < rois->count(); i += 4) {
    const std::size_t at = i + (vertical ? 1 : 0);
    double size = (static_cast<double>(rois->floats[at + 2]) - static_cast<double>(rois->floats[at])) * r.scale;
    if (r.offset == 0) size = std::max(size, 1.0);
    const auto bins = static_cast<double>(vertical ? r.height : r.width);
    const auto own = static_cast<std::int64_t>(std::ceil(size / bins));
    if (own > 64) return unsupported("a region takes ", own, " samples along one axis of a bin; at most 64 are");
    samples.own.push_back(std::max<std::int64_t>(own, 0));
    samples.most = std::max(samples.most, own);
  }
  return samples;
}

/// Taps of every sample of every bin along one axis: [R, bins, 2 * samples]; averages weigh by the samples' number.
Result<Taps> region_taps(NodeContext& c, const Regions& r, const Samples& samples, bool vertical, std::int64_t size) {
  const std::int64_t bins = vertical ? r.height : r.width, n = samples.most;
  const ValueId rois = c.in(1);
  const std::int64_t at = vertical ? 1 : 0;
  const auto edge = [&](std::int64_t column) {
    const ValueId v = affine(c, part_of(c, rois, 1, column, column + 1), r.scale, -r.offset);
    return c.reshape(v, Shape{r.count, 1, 1});
  };
  const ValueId start = edge(at);
  ValueId extent = c.emit(Op::sub, {edge(at + 2), start});
  if (r.offset == 0) extent = c.emit(Op::maximum, {extent, scalar(c, 1)});
  // In shares of a bin: where samples lie, by region where each has its own number of them.
  const std::int64_t regions = samples.own.empty() ? 1 : static_cast<std::int64_t>(samples.own.size());
  std::vector<float> places, shares;
  for (std::int64_t region = 0; region < regions; ++region) {
    const std::int64_t own = samples.own.empty() ? n : samples.own[static_cast<std::size_t>(region)];
    for (std::int64_t bin = 0; bin < bins; ++bin) {
      for (std::int64_t k = 0; k < n; ++k) {
        const double inside = k < own ? (static_cast<double>(k) + 0.5) / static_cast<double>(own) : 0.5;
        places.push_back(static_cast<float>(static_cast<double>(bin) + inside));
        const double share = r.mode == "max" ? 1 : k < own ? 1 / static_cast<double>(own) : 0;
        shares.insert(shares.end(), 2, static_cast<float>(share));
      }
    }
  }
  const ValueId offsets = c.constant(HostTensor::of_floats({regions, bins, n}, std::move(places)));
  const ValueId bin_size = affine(c, extent, 1 / static_cast<double>(bins), 0);
  const ValueId position = c.emit(Op::add, {c.emit(Op::mul, {offsets, bin_size}), start});
  // Beyond one pixel outside there is nothing; nearer than that it is the border.
  const double last = static_cast<double>(size - 1);
  const ValueId inside =
      c.emit(Op::logical_not, {c.emit(Op::logical_or, {c.emit(Op::less, {position, scalar(c, -1)}),
                                                       c.emit(Op::greater, {position, scalar(c, last + 1)})})});
  const SampledAxis axis{size, Beyond::border, false};
  Taps taps = linear_taps(c, brought_inside(c, position, axis), axis);
  if (!c.status().ok()) return c.status();
  const ValueId counts = c.reshape(inside, Shape{r.count, bins, n, 1});
  taps.weight = c.emit(Op::where, {counts, taps.weight, scalar(c, 0)});
  taps.count = 2 * n;
  const Shape flat{r.count, bins, 2 * n};
  taps.index = c.reshape(taps.index, flat);
  taps.weight = c.emit(Op::mul, {c.reshape(taps.weight, flat),
                                 c.constant(HostTensor::of_floats({regions, bins, 2 * n}, std::move(shares)))});
  return taps;
}

Status roi_align(NodeContext& c) {
  GRAFT_TRY(check_floats(c, {0, 1}));
  if (c.rank(0) != 4 || c.rank(1) != 2 || c.shape(1)[1] != Dim(4) || c.rank(2) != 1) {
    return corrupt("its inputs are ", c.shape(0).text(), ", ", c.shape(1).text(), " and ", c.shape(2).text());
  }
  Regions r;
  r.count = c.shape(1)[0];
  r.height = c.attr("output_height", 1);
  r.width = c.attr("output_width", 1);
  r.scale = c.attr_number("spatial_scale", 1);
  r.mode = c.attr_text("mode", "avg");
  const std::string pixels_mode =
      c.attr_text("coordinate_transformation_mode", c.opset < 16 ? "output_half_pixel" : "half_pixel");
  if (r.height < 1 || r.width < 1 || r.height > 4096 || r.width > 4096) return corrupt("its output size is wrong");
  if (r.mode != "avg" && r.mode != "max") return corrupt("its mode is \"", r.mode, "\"");
  r.offset = pixels_mode == "half_pixel" ? 0.5 : 0;
  GRAFT_TRY_ASSIGN(const Pixels x, pixels(c));
  GRAFT_TRY_ASSIGN(const Samples down, samples_of(c, r, true));
  GRAFT_TRY_ASSIGN(const Samples across, samples_of(c, r, false));
  const auto differ = [](const Samples& s) {
    return std::any_of(s.own.begin(), s.own.end(), [&](std::int64_t own) { return own != s.most; });
  };
  if (r.mode == "max" && (differ(down) || differ(across))) {
    return unsupported("its regions take different numbers of samples, and their maximum is asked for");
  }
  GRAFT_TRY_ASSIGN(const Taps rows, region_taps(c, r, down, true, x.sizes[0]));
  GRAFT_TRY_ASSIGN(const Taps columns, region_taps(c, r, across, false, x.sizes[1]));
  // [R, height, 1, a, 1] and [R, 1, width, 1, b].
  const auto spread_rows = [&](ValueId v) { return c.reshape(v, Shape{r.count, r.height, 1, rows.count, 1}); };
  const auto spread_columns = [&](ValueId v) { return c.reshape(v, Shape{r.count, 1, r.width, 1, columns.count}); };
  ValueId index = c.emit(Op::add, {c.emit(Op::mul, {spread_rows(rows.index), integers(c, {}, {x.sizes[1]})}),
                                   spread_columns(columns.index)});
  const ValueId image = c.emit(Op::mul, {c.in(2), integers(c, {}, {x.sizes[0] * x.sizes[1]})});
  index = c.emit(Op::add, {index, c.reshape(image, Shape{r.count, 1, 1, 1, 1})});
  const ValueId weight = c.emit(Op::mul, {spread_rows(rows.weight), spread_columns(columns.weight)});
  const Shape flat{r.count, r.height, r.width, rows.count * columns.count};
  Taps all{c.reshape(index, flat), c.reshape(weight, flat), rows.count * columns.count};
  const Perm perm = channels_last(4);
  if (r.mode == "avg") {
    c.out(0, weighed_rows(c, x.rows, all), perm);
    return {};
  }
  const ValueId picked = c.emit(Op::gather, {x.rows, all.index}, {{"axis", std::int64_t{0}}});
  const Shape apart{r.count, r.height, r.width, all.count, 1};
  const ValueId weighed = c.emit(Op::mul, {picked, c.reshape(all.weight, apart)});
  c.out(0, c.emit(Op::reduce_max, {weighed}, {{"axes", Ints{3}}, {"keepdims", std::int64_t{0}}}), perm);
  return {};
}

// ---- deformable convolution

struct Deformed {
  Window window;
  std::int64_t groups = 1, offset_groups = 1, taps = 1;
  std::int64_t out_h = 1, out_w = 1;
  Dim points;  ///< of a result
};

/// [N, groups * taps * each, oh, ow] as [N, points, taps, groups] (one of `each`).
ValueId by_point(NodeContext& c, std::size_t i, const Deformed& d, std::int64_t each, std::int64_t which) {
  const Shape shape = c.shape(i);
  const ValueId apart = c.reshape(c.in(i), Shape{shape[0], d.offset_groups, d.taps, each, d.points});
  const ValueId one = each == 1 ? apart : part_of(c, apart, 3, which, which + 1);
  return c.transpose(c.reshape(one, Shape{shape[0], d.offset_groups, d.taps, d.points}), {0, 3, 2, 1});
}

/// Where each tap of each window lies without an offset along one axis: [1, points, taps, 1].
ValueId regular_grid(NodeContext& c, const Deformed& d, std::size_t axis) {
  std::vector<float> places;
  const Window& w = d.window;
  for (std::int64_t y = 0; y < d.out_h; ++y) {
    for (std::int64_t x = 0; x < d.out_w; ++x) {
      for (std::int64_t r = 0; r < w.kernel[0]; ++r) {
        for (std::int64_t s = 0; s < w.kernel[1]; ++s) {
          const std::int64_t o = axis == 0 ? y : x, k = axis == 0 ? r : s;
          places.push_back(static_cast<float>(o * w.strides[axis] - w.pads[axis] + k * w.dilations[axis]));
        }
      }
    }
  }
  return c.constant(HostTensor::of_floats({1, d.out_h * d.out_w, d.taps, 1}, std::move(places)));
}

Result<Deformed> read_deformed(NodeContext& c) {
  const Shape& shape = c.shape(0);
  if (shape.rank() != 4 || c.rank(1) != 4 || c.rank(2) != 4) return unsupported("other than two spatial axes");
  Deformed d;
  if (!c.shape(1)[2].is_constant() || !c.shape(1)[3].is_constant()) return unsupported("its kernel is symbolic");
  const Ints kernel = {c.shape(1)[2].value(), c.shape(1)[3].value()};
  if (c.attr_ints("kernel_shape", kernel) != kernel) return corrupt("its kernel_shape is not that of its weights");
  GRAFT_TRY_ASSIGN(d.window, read_window(c, kernel));
  d.groups = c.attr("group", 1);
  d.offset_groups = c.attr("offset_group", 1);
  d.taps = kernel[0] * kernel[1];
  GRAFT_TRY_ASSIGN(const AxisWindow rows, axis_window(c, d.window, 0, 1));
  GRAFT_TRY_ASSIGN(const AxisWindow columns, axis_window(c, d.window, 1, 2));
  if (rows.is_open() || columns.is_open())
    return unsupported("its image has the symbolic shape ", shape.text(), "; bind it (--bind NAME=SIZE)");
  d.out_h = rows.out.value();
  d.out_w = columns.out.value();
  d.points = d.out_h * d.out_w;
  GRAFT_TRY(check_table(static_cast<std::uint64_t>(std::max<std::int64_t>(d.offset_groups, 0)), "groups of offsets"));
  const bool fits = shape[1].is_constant() && d.offset_groups >= 1 && shape[1].value() % d.offset_groups == 0;
  if (!fits) return corrupt("its channels cannot be parted into ", d.offset_groups, " groups of offsets");
  if (c.shape(2) != Shape{shape[0], 2 * d.offset_groups * d.taps, d.out_h, d.out_w}) {
    return corrupt("its offsets have the shape ", c.shape(2).text());
  }
  if (c.has(4) && c.shape(4) != Shape{shape[0], d.offset_groups * d.taps, d.out_h, d.out_w}) {
    return corrupt("its mask has the shape ", c.shape(4).text());
  }
  constexpr std::int64_t kMost = 1 << 24;
  if (d.out_h * d.out_w > kMost / d.taps) return unsupported("its result is too large");
  return d;
}

Status deform_conv(NodeContext& c) {
  GRAFT_TRY(check_floats(c, {0, 1, 2, 3, 4}));
  GRAFT_TRY_ASSIGN(const Deformed d, read_deformed(c));
  const Shape shape = c.shape(0);
  const std::int64_t channels = shape[1].value(), height = shape[2].value(), width = shape[3].value();
  const auto taps_of = [&](std::size_t axis, std::int64_t size) {
    const ValueId at =
        c.emit(Op::add, {by_point(c, 2, d, 2, static_cast<std::int64_t>(axis)), regular_grid(c, d, axis)});
    return linear_taps(c, at, {size, Beyond::zeros, false});
  };
  Taps all = combined(c, {taps_of(0, height), taps_of(1, width)}, {height, width});
  if (!c.status().ok()) return c.status();
  // Channels are parted: pixel by pixel, group by group. Indices are [N, points, taps, groups, 4].
  const ValueId first = c.emit(Op::mul, {counted(c, shape[0], 4), integers(c, {}, {height * width})});
  all.index = c.emit(Op::add, {all.index, first});
  if (d.offset_groups > 1) {
    HostTensor group = HostTensor::of_ints({});
    for (std::int64_t g = 0; g < d.offset_groups; ++g) group.ints.push_back(g);
    all.index = c.emit(Op::add, {c.emit(Op::mul, {all.index, integers(c, {}, {d.offset_groups})}),
                                 integers(c, {d.offset_groups, 1}, group.ints)});
  }
  GRAFT_TRY_ASSIGN(const Dim rows, dims_product({shape[0], Dim(height * width * d.offset_groups)}));
  const ValueId pixels = c.reshape(c.in(0, channels_last(4)), Shape{rows, channels / d.offset_groups});
  ValueId columns = weighed_rows(c, pixels, all);  // [N, points, taps, groups, channels / groups]
  if (c.has(4)) {
    const ValueId mask = by_point(c, 4, d, 1, 0);
    columns = c.emit(Op::mul, {columns, c.reshape(mask, Shape{shape[0], d.points, d.taps, d.offset_groups, 1})});
  }
  const Shape weight = c.shape(1);
  std::vector<ValueId> inputs = {c.reshape(columns, Shape{shape[0], d.points, d.taps, channels}),
                                 c.reshape(c.in(1, channels_last(4)), Shape{weight[0], 1, d.taps, weight[1]})};
  if (c.has(3)) inputs.push_back(c.in(3));
  const ValueId y = c.emit(Op::conv, inputs, {{"groups", d.groups}});
  c.out(0, c.reshape(y, Shape{shape[0], d.out_h, d.out_w, weight[0]}), channels_last(4));
  return {};
}

}  // namespace

const RuleEntry kSampleRules[] = {
    {"GridSample", 2, 2, grid_sample}, {"AffineGrid", 2, 2, affine_grid}, {"RoiAlign", 3, 3, roi_align},
    {"DeformConv", 3, 5, deform_conv}, {nullptr, 0, 0, nullptr},
};

}  // namespace graft::convert
