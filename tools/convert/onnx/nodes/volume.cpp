#include "tools/convert/onnx/nodes/volume.h"

#include <algorithm>

#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/import/fold.h"

namespace graft::convert {

Result<Dim> dims_product(std::initializer_list<Dim> dims) {
  Dim all(1);
  for (const Dim& dim : dims) {
    const auto next = multiply(all, dim);
    if (!next) return corrupt("its tensors are too large");
    all = *next;
  }
  return all;
}

std::int64_t AxisWindow::taps(std::int64_t o, bool with_pads) const {
  const std::int64_t size = in.value();
  std::int64_t count = 0;
  for (std::int64_t k = 0; k < kernel; ++k) {
    const std::int64_t at = o * stride - begin + k * dilation;
    if (with_pads ? at < size + end : (at >= 0 && at < size)) ++count;
  }
  return count;
}

namespace {

Status count_windows(AxisWindow& w, bool ceil_mode) {
  const std::int64_t extent = w.dilation * (w.kernel - 1) + 1;
  if (w.is_open()) {
    if (ceil_mode && w.end > extent) {
      return unsupported("its padding is more than its window, and its axis has the symbolic size ", w.in.text(),
                         "; bind it (--bind NAME=SIZE)");
    }
    // With ceil_mode as pools count (runtime/ops/pool): a last window begins in the image or the padding before it.
    w.slack = w.begin - (ceil_mode ? std::max<std::int64_t>(1 + extent - w.end - w.stride, 1) : extent - w.end);
    const auto room = add(w.in, Dim(w.slack));
    const auto steps = room ? divide_floor(*room, w.stride) : std::nullopt;
    const auto count = steps ? add(*steps, Dim(1)) : std::nullopt;
    if (!count)
      return unsupported("its windows over the symbolic size ", w.in.text(),
                         " cannot be written; bind it (--bind NAME=SIZE)");
    w.out = *count;
    return {};
  }
  const std::int64_t size = w.in.value(), room = size + w.begin + w.end - extent;
  const bool one_cut_off = ceil_mode && room < 0 && room > -w.stride;
  if (room < 0 && !one_cut_off) return corrupt("its kernel is larger than a padded axis of ", size);
  std::int64_t out = one_cut_off ? 1 : room / w.stride + 1;
  // A last window that is not whole counts where it begins in the image or the padding before it.
  if (ceil_mode && !one_cut_off && room % w.stride != 0 && out * w.stride < size + w.begin) ++out;
  w.out = out;
  return check_table(static_cast<std::uint64_t>(out), "windows along an axis");
}

}  // namespace

Result<AxisWindow> axis_window(NodeContext& c, const Window& window, std::size_t i, std::size_t axis) {
  AxisWindow w{axis,
               window.kernel[i],
               window.strides[i],
               window.dilations[i],
               window.pads[i],
               window.pads[i + window.axes],
               c.shape(0)[i + 2],
               1};
  constexpr std::int64_t kMostTaps = 1024;
  if (w.kernel > kMostTaps) return unsupported("its kernel of ", w.kernel, " is larger than ", kMostTaps);
  GRAFT_TRY(count_windows(w, window.ceil_mode));
  return w;
}

ValueId tap(NodeContext& c, ValueId x, const AxisWindow& w, std::int64_t k, double fill) {
  if (!c.status().ok() || !x.valid()) return kNoValue;
  const std::size_t rank = c.shape_of(x).rank();
  const std::int64_t first = k * w.dilation - w.begin;
  // How far the last window's tap is beyond the axis; of a symbol, how far it may be.
  const std::int64_t beyond =
      w.is_open() ? w.slack + first + 1 : first + (w.out.value() - 1) * w.stride - (w.in.value() - 1);
  Ints pads(2 * rank, 0);
  pads[w.axis] = std::max<std::int64_t>(-first, 0);
  pads[w.axis + rank] = std::max<std::int64_t>(beyond, 0);
  if (pads[w.axis] > 0 || pads[w.axis + rank] > 0) {
    x = c.emit(Op::pad, {x}, {{"pads", pads}, {"mode", std::string("constant")}, {"value", fill}});
  }
  const std::int64_t begin = first + pads[w.axis];
  if (begin == 0 && w.stride == 1 && beyond >= 0) return x;
  constexpr std::int64_t kAll = 0x7fffffff;
  Ints starts(rank, 0), ends(rank, kAll), steps(rank, 1);
  starts[w.axis] = begin;
  steps[w.axis] = w.stride;
  if (!w.is_open()) {
    ends[w.axis] = begin + (w.out.value() - 1) * w.stride + 1;
  } else if (beyond < 0) {
    ends[w.axis] = beyond;  // from its end
  }
  return c.emit(Op::slice, {x}, {{"starts", starts}, {"ends", ends}, {"steps", steps}});
}

namespace {

ValueId sum_of_taps(NodeContext& c, ValueId x, const AxisWindow& w) {
  ValueId sum;
  for (std::int64_t k = 0; k < w.kernel; ++k) {
    const ValueId part = tap(c, x, w, k);
    sum = sum.valid() ? c.emit(Op::add, {sum, part}) : part;
  }
  return sum;
}

/// 1 / taps of each window along a symbol: the taps are windows over ones.
Result<ValueId> open_shares(NodeContext& c, const AxisWindow& w, std::size_t rank, bool with_pads) {
  AxisWindow counted = w;
  counted.axis = 0;
  if (with_pads) {
    const auto padded = add(w.in, Dim(w.begin + w.end));
    if (!padded) return unsupported("its padded axis ", w.in.text(), " cannot be written; bind it (--bind NAME=SIZE)");
    counted.in = *padded;
    counted.slack -= w.begin + w.end;
    counted.begin = counted.end = 0;
  }
  std::vector<Dim> dims(rank - w.axis, 1);
  dims[0] = counted.in;
  const ValueId taps = sum_of_taps(c, c.full(Shape(dims), 1), counted);
  // A window without taps has a sum of 0.
  return c.emit(Op::reciprocal, {c.emit(Op::maximum, {taps, c.full(Shape{}, 1)})});
}

}  // namespace

Result<ValueId> window_sums(NodeContext& c, ValueId x, const AxisWindow& w, Averaged averaged) {
  const ValueId sum = sum_of_taps(c, x, w);
  if (averaged == Averaged::no || !c.status().ok()) return sum;
  const std::size_t rank = c.shape_of(x).rank();
  const bool with_pads = averaged == Averaged::over_padding;
  if (w.is_open()) {
    GRAFT_TRY_ASSIGN(const ValueId shares, open_shares(c, w, rank, with_pads));
    return c.emit(Op::mul, {sum, shares});
  }
  std::vector<float> shares;
  for (std::int64_t o = 0; o < w.out.value(); ++o) {
    const std::int64_t taps = w.taps(o, with_pads);
    shares.push_back(taps == 0 ? 0.0f : 1.0f / static_cast<float>(taps));
  }
  std::vector<std::int64_t> dims(rank - w.axis, 1);
  dims[0] = w.out.value();
  return c.emit(Op::mul, {sum, c.constant(HostTensor::of_floats(dims, std::move(shares)))});
}

namespace {

/// Of the axes behind the first.
Attrs plane_attrs(const Window& w, std::int64_t groups) {
  return {{"strides", Ints{w.strides[1], w.strides[2]}},
          {"pads", Ints{w.pads[1], w.pads[2], w.pads[4], w.pads[5]}},
          {"dilations", Ints{w.dilations[1], w.dilations[2]}},
          {"groups", groups}};
}

}  // namespace

// The taps along the depth lie side by side as channels of images, so that one convolution sums over them all.
Result<ValueId> conv_volume(NodeContext& c, ValueId x, ValueId weight, ValueId bias, const Window& window,
                            std::int64_t groups) {
  if (!c.status().ok()) return c.status();
  const Shape in = c.shape_of(x), w = c.shape_of(weight);
  GRAFT_TRY_ASSIGN(const AxisWindow depth, axis_window(c, window, 0, 1));
  if (!in[4].is_constant() || groups < 1 || in[4].value() % groups != 0) {
    return corrupt("its ", in[4].text(), " channels cannot be parted into ", groups, " groups");
  }
  const std::int64_t channels = in[4].value() / groups;
  if (w[4] != Dim(channels)) return corrupt("its weights take ", w[4].text(), " channels of a group's ", channels);
  std::vector<ValueId> taps;
  const Shape apart{in[0], depth.out, in[2], in[3], groups, 1, channels};
  for (std::int64_t k = 0; k < depth.kernel; ++k) taps.push_back(c.reshape(tap(c, x, depth, k), apart));
  const ValueId together = taps.size() == 1 ? taps[0] : c.emit(Op::concat, taps, {{"axis", std::int64_t{5}}});
  GRAFT_TRY_ASSIGN(const Dim images, dims_product({in[0], depth.out}));
  const Shape planes{images, in[2], in[3], groups * depth.kernel * channels};
  std::vector<ValueId> inputs = {c.reshape(together, planes),
                                 c.reshape(weight, Shape{w[0], w[1], w[2], depth.kernel * channels})};
  if (bias.valid()) inputs.push_back(bias);
  const ValueId y = c.emit(Op::conv, inputs, plane_attrs(window, groups));
  if (!c.status().ok()) return c.status();
  const Shape out = c.shape_of(y);
  return c.reshape(y, Shape{in[0], depth.out, out[1], out[2], out[3]});
}

// Each tap along the depth is a group of channels of transposed images, and is added at its place.
Result<ValueId> conv_transpose_volume(NodeContext& c, ValueId x, ValueId weight, ValueId bias, const Window& window,
                                      const Ints& output_padding, std::int64_t groups) {
  if (!c.status().ok()) return c.status();
  const Shape in = c.shape_of(x), w = c.shape_of(weight);
  if (!w[4].is_constant()) return unsupported("its channels are symbolic");
  const Dim depth = in[1];
  const std::int64_t kernel = window.kernel[0], stride = window.strides[0], channels = w[4].value();
  // The result's depth is that of the input with zeros between its positions, and so many more.
  const std::int64_t more =
      window.dilations[0] * (kernel - 1) + 1 + output_padding[0] - window.pads[0] - window.pads[3] - stride;
  GRAFT_TRY_ASSIGN(const Dim spread, dims_product({depth, Dim(stride)}));
  const auto all = add(spread, Dim(more));
  if (!all) return unsupported("its depth of ", depth.text(), " cannot be written; bind it (--bind NAME=SIZE)");
  if (all->is_constant() && all->value() < 1) return corrupt("its result would have a depth of ", all->value());
  GRAFT_TRY_ASSIGN(const Dim images, dims_product({in[0], in[1]}));
  Attrs attrs = plane_attrs(window, groups);
  attrs.set("output_padding", Ints{output_padding[1], output_padding[2]});
  const ValueId planes = c.emit(
      Op::conv_transpose,
      {c.reshape(x, Shape{images, in[2], in[3], in[4]}), c.reshape(weight, Shape{w[0], w[1], w[2], kernel * channels})},
      attrs);
  if (!c.status().ok()) return c.status();
  const Shape out = c.shape_of(planes);
  GRAFT_TRY_ASSIGN(const Dim plane, dims_product({out[1], out[2], Dim(groups * channels)}));
  const ValueId apart = c.reshape(planes, Shape{in[0], depth, out[1], out[2], groups, kernel, channels});
  ValueId sum;
  for (std::int64_t k = 0; k < kernel; ++k) {
    Ints starts(7, 0), ends(7, 0x7fffffff);
    starts[5] = k;
    ends[5] = k + 1;
    ValueId part =
        kernel == 1 ? apart : c.emit(Op::slice, {apart}, {{"starts", starts}, {"ends", ends}, {"steps", Ints(7, 1)}});
    // Zeros between the positions, then those before and behind them.
    part = c.reshape(part, Shape{in[0], depth, 1, plane});
    const auto padded = [&](ValueId v, Ints pads) {
      return c.emit(Op::pad, {v}, {{"pads", std::move(pads)}, {"mode", std::string("constant")}, {"value", 0.0}});
    };
    if (stride > 1) part = padded(part, {0, 0, 0, 0, 0, 0, stride - 1, 0});
    part = c.reshape(part, Shape{in[0], spread, plane});
    const std::int64_t begin = k * window.dilations[0] - window.pads[0];
    const std::int64_t end = more - begin;
    if (begin != 0 || end != 0) part = padded(part, {0, begin, 0, 0, end, 0});
    sum = sum.valid() ? c.emit(Op::add, {sum, part}) : part;
  }
  ValueId y = c.reshape(sum, Shape{in[0], *all, out[1], out[2], groups * channels});
  if (bias.valid()) y = c.emit(Op::add, {y, bias});
  return y;
}

}  // namespace graft::convert
