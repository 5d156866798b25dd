// Pooling over one to three spatial axes, and global pooling over any number.
#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/import/fold.h"
#include "tools/convert/onnx/nodes/quantized_values.h"
#include "tools/convert/onnx/nodes/volume.h"

namespace graft::convert {
namespace {

Attrs window(const Spatial& s) {
  Attrs attrs = {
      {"kernel", s.kernel}, {"strides", s.strides}, {"pads", s.pads}, {"ceil_mode", std::int64_t{s.ceil_mode}}};
  if (!s.same.empty()) attrs.set("same", s.same);
  return attrs;
}

/// Of opset 7 on, a kernel_shape is required; everything else has defaults.
Result<Window> pool_window(NodeContext& c) {
  if (!is_float(c.type(0))) return unsupported("its input is ", elem_name(c.type(0)), ", and only floats are pooled");
  if (!c.has_attr("kernel_shape")) return corrupt("its attribute kernel_shape is missing");
  return read_window(c, c.attr_ints("kernel_shape"), true);
}

bool is_dilated(const Window& w) {
  return std::any_of(w.dilations.begin(), w.dilations.end(), [](std::int64_t d) { return d != 1; });
}

/// Values over windows of a volume or an image, and where each was found: a count through one channel's elements.
struct Found {
  ValueId value;
  ValueId index;
};

/// The windows of an image's two axes.
Found max_of_images(NodeContext& c, ValueId x, const Spatial& s) {
  Attrs attrs = window(s);
  attrs.set("dilations", s.dilations);
  const auto outputs = c.emit_all(Op::max_pool, {x}, attrs);
  return outputs.size() < 2 ? Found{} : Found{outputs[0], outputs[1]};
}

/// Of three axes: images first, then the best of each window of depths.
Result<Found> max_of_volumes(NodeContext& c, const Window& w) {
  const ValueId x = c.in(0, channels_last(5));
  if (!c.status().ok()) return c.status();
  const Shape in = c.shape_of(x);
  GRAFT_TRY_ASSIGN(const AxisWindow depth, axis_window(c, w, 0, 1));
  GRAFT_TRY_ASSIGN(const Dim images, dims_product({in[0], in[1]}));
  Spatial plane;
  plane.kernel = {w.kernel[1], w.kernel[2]};
  plane.strides = {w.strides[1], w.strides[2]};
  plane.dilations = {w.dilations[1], w.dilations[2]};
  plane.pads = {w.pads[1], w.pads[2], w.pads[4], w.pads[5]};
  plane.ceil_mode = w.ceil_mode;
  const Found flat = max_of_images(c, c.reshape(x, Shape{images, in[2], in[3], in[4]}), plane);
  if (!c.status().ok()) return c.status();
  const Shape out = c.shape_of(flat.value);
  const Shape apart{in[0], in[1], out[1], out[2], out[3]};
  const ValueId values = c.reshape(flat.value, apart);
  if (!c.wants(1)) {
    GRAFT_TRY_ASSIGN(const Dim pixels, dims_product({out[1], out[2]}));
    Spatial along;
    along.kernel = {depth.kernel, 1};
    along.strides = {depth.stride, 1};
    along.dilations = {depth.dilation, 1};
    along.pads = {depth.begin, 0, depth.end, 0};
    along.ceil_mode = w.ceil_mode;
    const Found best = max_of_images(c, c.reshape(values, Shape{in[0], in[1], pixels, in[4]}), along);
    return Found{c.reshape(best.value, Shape{in[0], depth.out, out[1], out[2], in[4]}), kNoValue};
  }
  if (depth.is_open() || !in[2].is_constant() || !in[3].is_constant()) {
    return unsupported("its indices need constant shapes");
  }
  // A depth's place in the channel, and the place in its image.
  HostTensor places;
  places.type = ElemType::i32;
  GRAFT_TRY(check_table(static_cast<std::uint64_t>(depth.in.value()), "depths"));
  places.dims = {depth.in.value(), 1, 1, 1};
  for (std::int64_t d = 0; d < depth.in.value(); ++d) places.ints.push_back(d * in[2].value() * in[3].value());
  const ValueId index = c.emit(Op::add, {c.reshape(flat.index, apart), c.constant(places)});
  Found best;
  for (std::int64_t k = 0; k < depth.kernel; ++k) {
    constexpr double kLeast = std::numeric_limits<float>::lowest();
    const Found next{tap(c, values, depth, k, kLeast), tap(c, index, depth, k)};
    if (k == 0) {
      best = next;
      continue;
    }
    const ValueId better = c.emit(Op::greater, {next.value, best.value});
    best = {c.emit(Op::where, {better, next.value, best.value}), c.emit(Op::where, {better, next.index, best.index})};
  }
  return best;
}

/// ONNX's indices count through the whole source tensor; graft's through one channel. `in` is the source's shape.
Result<ValueId> source_indices(NodeContext& c, ValueId indices) {
  const Shape in = c.shape(0);
  if (!in.is_constant())
    return unsupported("its indices need constant shapes; bind the symbols of ", in.text(), " (--bind NAME=SIZE)");
  const std::uint64_t plane = in.elements(2, in.rank());
  if (in.elements() > std::uint64_t{0x7fffffff}) return unsupported("its indices exceed the range of int32");
  if (c.attr("storage_order", 0) != 0) {
    // Columns first: from h * W + w to h + w * H.
    if (in.rank() != 4) return unsupported("indices with storage_order 1 are supported of images alone");
    const auto number = [&](std::int64_t v) {
      HostTensor one = HostTensor::of_ints({v});
      one.dims = {};
      return c.constant(one);
    };
    const ValueId width = number(in[3].value());
    const ValueId row = c.emit(Op::div, {indices, width});
    const ValueId column = c.emit(Op::sub, {indices, c.emit(Op::mul, {row, width})});
    indices = c.emit(Op::add, {c.emit(Op::mul, {column, number(in[2].value())}), row});
  }
  GRAFT_TRY(check_table(in.elements(0, 2), "channels"));
  HostTensor offsets;
  offsets.type = ElemType::i64;
  const std::size_t rank = c.shape_of(indices).rank();
  offsets.dims = std::vector<std::int64_t>(rank, 1);
  offsets.dims.front() = in[0].value();
  offsets.dims.back() = in[1].value();
  for (std::uint64_t i = 0; i < in.elements(0, 2); ++i) offsets.ints.push_back(static_cast<std::int64_t>(i * plane));
  return c.emit(Op::add, {indices, c.constant(offsets)});
}

/// Integers of few bits are pooled as floats, which hold them exactly.
Status max_pool_narrow(NodeContext& c);

Status max_pool(NodeContext& c) {
  if (is_integer(c.type(0)) && is_narrow(c.type(0))) return max_pool_narrow(c);
  GRAFT_TRY_ASSIGN(const Window w, pool_window(c));
  if (w.axes == 3) {
    GRAFT_TRY_ASSIGN(const Found found, max_of_volumes(c, w));
    c.out(0, found.value, channels_last(5));
    if (!c.wants(1)) return {};
    GRAFT_TRY_ASSIGN(const ValueId indices, source_indices(c, found.index));
    c.out_typed(1, indices, ElemType::i64, channels_last(5));
    return {};
  }
  GRAFT_TRY_ASSIGN(const Spatial s, widened(w));
  const Found found = max_of_images(c, image(c, 0, s), s);
  out_image(c, 0, found.value, s, c.type(0));
  if (!c.wants(1) || !c.status().ok()) return c.status();
  GRAFT_TRY_ASSIGN(const ValueId indices, source_indices(c, found.index));
  out_image(c, 1, indices, s, ElemType::i64);
  return {};
}

Status max_pool_narrow(NodeContext& c) {
  if (!c.has_attr("kernel_shape")) return corrupt("its attribute kernel_shape is missing");
  GRAFT_TRY_ASSIGN(const Window w, read_window(c, c.attr_ints("kernel_shape")));
  GRAFT_TRY_ASSIGN(const Spatial s, widened(w));
  const Found found = max_of_images(c, c.cast(image(c, 0, s), DType::f32), s);
  out_image(c, 0, c.cast(found.value, DType::i32), s, c.type(0));
  if (!c.wants(1) || !c.status().ok()) return c.status();
  GRAFT_TRY_ASSIGN(const ValueId indices, source_indices(c, found.index));
  out_image(c, 1, indices, s, ElemType::i64);
  return {};
}

/// Sums or averages over every axis in turn.
Result<ValueId> sums(NodeContext& c, ValueId x, const Window& w, Averaged averaged) {
  for (std::size_t i = w.axes; i-- > 0;) {
    GRAFT_TRY_ASSIGN(const AxisWindow along, axis_window(c, w, i, i + 1));
    GRAFT_TRY_ASSIGN(x, window_sums(c, x, along, averaged));
  }
  return x;
}

Status average_pool(NodeContext& c) {
  GRAFT_TRY_ASSIGN(const Window w, pool_window(c));
  const bool padding = c.attr("count_include_pad", 0) != 0;
  if (w.axes == 3 || is_dilated(w)) {
    const Perm perm = channels_last(w.axes + 2);
    const Averaged averaged = padding ? Averaged::over_padding : Averaged::over_image;
    GRAFT_TRY_ASSIGN(const ValueId y, sums(c, c.in(0, perm), w, averaged));
    c.out(0, y, perm);
    return {};
  }
  GRAFT_TRY_ASSIGN(const Spatial s, widened(w));
  Attrs attrs = window(s);
  attrs.set("count_include_pad", std::int64_t{padding});
  out_image(c, 0, c.emit(Op::avg_pool, {image(c, 0, s)}, attrs), s, c.type(0));
  return {};
}

/// |x|^p, and what makes a number of its sums again.
ValueId powers(NodeContext& c, ValueId x, double p) {
  if (p == 1) return c.emit(Op::abs, {x});
  if (p == 2) return c.emit(Op::square, {x});
  return c.emit(Op::pow, {c.emit(Op::abs, {x}), c.constant(HostTensor::scalar(static_cast<float>(p)))});
}
ValueId root(NodeContext& c, ValueId x, double p) {
  if (p == 1) return x;
  if (p == 2) return c.emit(Op::sqrt, {x});
  return c.emit(Op::pow, {x, c.constant(HostTensor::scalar(static_cast<float>(1 / p)))});
}

/// (sum |x|^p)^(1/p), where windows are whole through an average that counts the padding.
Status lp_pool(NodeContext& c) {
  GRAFT_TRY_ASSIGN(const Window w, pool_window(c));
  const double p = static_cast<double>(c.attr("p", 2));
  if (p < 1) return corrupt("its p is ", p);
  if (w.axes == 3 || is_dilated(w) || w.ceil_mode) {
    const Perm perm = channels_last(w.axes + 2);
    GRAFT_TRY_ASSIGN(const ValueId sum, sums(c, powers(c, c.in(0, perm), p), w, Averaged::no));
    c.out(0, root(c, sum, p), perm);
    return {};
  }
  GRAFT_TRY_ASSIGN(const Spatial s, widened(w));
  Attrs attrs = window(s);
  attrs.set("count_include_pad", std::int64_t{1});
  const double size = static_cast<double>(s.kernel[0] * s.kernel[1]);
  const ValueId mean = c.emit(Op::avg_pool, {powers(c, image(c, 0, s), p)}, attrs);
  const ValueId sum = c.emit(Op::affine, {mean}, {{"alpha", size}, {"beta", 0.0}});
  out_image(c, 0, root(c, sum, p), s, c.type(0));
  return {};
}

Status global_pool(NodeContext& c) {
  if (!is_float(c.type(0))) return unsupported("its input is ", elem_name(c.type(0)), ", and only floats are pooled");
  const std::size_t rank = c.rank(0);
  if (rank < 3) return corrupt("its input has ", rank, " axes and nothing to pool over");
  const Perm perm = channels_last(rank);
  Ints axes;
  for (std::size_t i = 1; i + 1 < rank; ++i) axes.push_back(static_cast<std::int64_t>(i));
  const Attrs over = {{"axes", axes}, {"keepdims", std::int64_t{1}}};
  const ValueId x = c.in(0, perm);
  if (c.node.op == "GlobalLpPool") {
    const double p = static_cast<double>(c.attr("p", 2));
    if (p < 1) return corrupt("its p is ", p);
    c.out(0, root(c, c.emit(Op::reduce_sum, {powers(c, x, p)}, over), p), perm);
    return {};
  }
  c.out(0, c.emit(c.node.op == "GlobalMaxPool" ? Op::reduce_max : Op::reduce_mean, {x}, over), perm);
  return {};
}

/// Each number at the place that a pooling found it at; places count through the whole result of the pooling's own
/// size, which a given output_shape pads or crops behind.
Status max_unpool(NodeContext& c) {
  if (!is_float(c.type(0)) || !is_integer(c.type(1)) || c.shape(0) != c.shape(1)) {
    return corrupt("its indices ", c.shape(1).text(), " do not fit its input ", c.shape(0).text());
  }
  if (!c.has_attr("kernel_shape")) return corrupt("its attribute kernel_shape is missing");
  GRAFT_TRY_ASSIGN(const Window w, read_window(c, c.attr_ints("kernel_shape")));
  const Shape in = c.shape(0);
  if (!in.is_constant())
    return unsupported("its indices need constant shapes; bind the symbols of ", in.text(), " (--bind NAME=SIZE)");
  Shape out = in;
  for (std::size_t i = 0; i < w.axes; ++i) {
    out[i + 2] = (in[i + 2].value() - 1) * w.strides[i] + w.kernel[i] - w.pads[i] - w.pads[i + w.axes];
    if (out[i + 2].value() < 1) return corrupt("its result would be empty");
  }
  const auto count = out.element_count();
  if (!count.ok() || out.elements() > std::uint64_t{0x7fffffff}) return unsupported("its result is too large");
  const Shape flat{static_cast<std::int64_t>(in.elements())};
  ValueId y = c.emit(
      Op::scatter_elements,
      {c.full(Shape{static_cast<std::int64_t>(out.elements())}, 0), c.reshape(c.in(1), flat), c.reshape(c.in(0), flat)},
      {{"axis", std::int64_t{0}}, {"reduction", std::string("none")}});
  y = c.reshape(y, out);
  if (c.has(2)) {
    GRAFT_TRY_ASSIGN(const Ints wanted, c.ints(2, "output_shape"));
    if (wanted.size() != in.rank()) return corrupt("its output_shape has ", wanted.size(), " sizes");
    Ints pads(2 * in.rank(), 0);
    for (std::size_t i = 0; i < in.rank(); ++i) {
      if (wanted[i] < 1 || wanted[i] > (1 << 27)) return corrupt("its output_shape holds ", wanted[i]);
      pads[i + in.rank()] = wanted[i] - out[i].value();
    }
    if (pads != Ints(pads.size(), 0)) {
      y = c.emit(Op::pad, {y}, {{"pads", pads}, {"mode", std::string("constant")}, {"value", 0.0}});
    }
  }
  c.out(0, y);
  return {};
}

}  // namespace

const RuleEntry kPoolRules[] = {
    {"MaxPool", 1, 1, max_pool},
    {"AveragePool", 1, 1, average_pool},
    {"LpPool", 1, 1, lp_pool},
    {"GlobalAveragePool", 1, 1, global_pool},
    {"GlobalMaxPool", 1, 1, global_pool},
    {"GlobalLpPool", 1, 1, global_pool},
    {"MaxUnpool", 2, 3, max_unpool},
    {nullptr, 0, 0, nullptr},
};

}  // namespace graft::convert
