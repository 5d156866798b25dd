// conv, conv_transpose, conv_grad_data and conv_grad_weight: three products of the same three tensors, each bilinear,
// so that each one's gradient is made of the others. Images are [N, H, W, C], weights [O, kh, kw, C / groups].
#include <algorithm>

#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/core/vjp.h"
#include "runtime/ops/conv/conv_common.h"
#include "runtime/ops/window.h"

namespace graft::ops::conv {
namespace {

#define GRAFT_CONV_WINDOW_ATTRS \
  attr::integers("strides"), attr::integers("pads"), attr::integers("dilations"), attr::integer("groups", 1).at_least(1)
constexpr AttrSpec kConvAttrs[] = {GRAFT_CONV_WINDOW_ATTRS, attr::integers("same")};
constexpr AttrSpec kGradAttrs[] = {GRAFT_CONV_WINDOW_ATTRS, attr::shape("shape").needed()};
constexpr AttrSpec kTransposeAttrs[] = {GRAFT_CONV_WINDOW_ATTRS, attr::integers("output_padding")};
#undef GRAFT_CONV_WINDOW_ATTRS

Status expect_images(InferContext& c) {
  for (std::size_t i = 0; i < c.inputs(); ++i) {
    if (c.has(i)) GRAFT_TRY(c.expect_dtype(i, DType::f32));
  }
  GRAFT_TRY(c.expect_rank(0, 4));
  return c.expect_rank(1, 4);
}

Status expect_same(const Shape& actual, const Shape& expected, std::string_view what) {
  if (actual == expected) return ok_status();
  return invalid("The ", what, " has the shape ", actual.text(), "; the convolution's sizes ask for ", expected.text(),
                 ".");
}

Attrs with_shape(Attrs attrs, const Shape& shape) {
  attrs.set("shape", shape);
  return attrs;
}

// ---- conv(x, weight, bias?) -> y

Status infer_conv(InferContext& c) {
  GRAFT_TRY(expect_images(c));
  GRAFT_TRY_ASSIGN(const ConvWindow window, read_conv_window(c.attrs()));
  GRAFT_TRY_ASSIGN(Shape y, conv_output_shape(window, c.shape(0), c.shape(1)));
  if (c.has(2)) GRAFT_TRY(c.expect_shape(2, Shape{y[3]}));
  c.output(DType::f32, std::move(y));
  return ok_status();
}

Status emit_conv_op(Emitter& e) {
  const ConvSizes sizes = conv_sizes(e.attrs(), e.in_shape(0), e.in_shape(1), e.out_shape());
  const Binding bias = e.has(2) ? e.in(2) : Binding{};
  return emit_conv(e, sizes, e.in(0), e.in(1), e.has(2) ? &bias : nullptr, e.out());
}

Status vjp_conv(VjpContext& c) {
  if (c.attrs().has("same")) return unsupported("Its pads follow from a size that is a symbol; bind it first.");
  const Attrs window = conv_window_attrs(c.attrs());
  if (c.needs(0)) {
    c.grad(0, c.b.node(Op::conv_grad_data, {c.dy(), c.in(1)}, with_shape(window, c.in_shape(0))));
  }
  if (c.needs(1)) {
    c.grad(1, c.b.node(Op::conv_grad_weight, {c.in(0), c.dy()}, with_shape(window, c.in_shape(1))));
  }
  if (c.needs(2)) c.grad(2, c.dy());  // the walker adds up over images and pixels
  return ok_status();
}

// ---- conv_grad_data(dy, weight; shape of x) -> dx

Status infer_grad_data(InferContext& c) {
  GRAFT_TRY(expect_images(c));
  const Shape x = c.attrs().shape("shape");
  if (x.rank() != 4) return invalid("The attribute \"shape\" must have 4 axes; it is ", x.text(), ".");
  GRAFT_TRY_ASSIGN(const ConvWindow window, read_conv_window(c.attrs()));
  GRAFT_TRY_ASSIGN(const Shape y, conv_output_shape(window, x, c.shape(1)));
  GRAFT_TRY(expect_same(c.shape(0), y, "cotangent"));
  c.output(DType::f32, x);
  return ok_status();
}

Status emit_grad_data_op(Emitter& e) {
  const ConvSizes sizes = conv_sizes(e.attrs(), e.out_shape(), e.in_shape(1), e.in_shape(0));
  return emit_conv_grad_data(e, sizes, e.in(0), e.in(1), nullptr, e.out());
}

Status vjp_grad_data(VjpContext& c) {
  const Attrs window = conv_window_attrs(c.attrs());
  if (c.needs(0)) c.grad(0, c.b.node(Op::conv, {c.dy(), c.in(1)}, window));
  if (c.needs(1)) {
    c.grad(1, c.b.node(Op::conv_grad_weight, {c.dy(), c.in(0)}, with_shape(window, c.in_shape(1))));
  }
  return ok_status();
}

// ---- conv_grad_weight(x, dy; shape of weight) -> dw

Status infer_grad_weight(InferContext& c) {
  GRAFT_TRY(expect_images(c));
  const Shape weight = c.attrs().shape("shape");
  if (weight.rank() != 4) return invalid("The attribute \"shape\" must have 4 axes; it is ", weight.text(), ".");
  GRAFT_TRY_ASSIGN(const ConvWindow window, read_conv_window(c.attrs()));
  GRAFT_TRY_ASSIGN(const Shape y, conv_output_shape(window, c.shape(0), weight));
  GRAFT_TRY(expect_same(c.shape(1), y, "cotangent"));
  c.output(DType::f32, weight);
  return ok_status();
}

Status emit_grad_weight_op(Emitter& e) {
  const ConvSizes sizes = conv_sizes(e.attrs(), e.in_shape(0), e.out_shape(), e.in_shape(1));
  return emit_conv_grad_weight(e, sizes, e.in(0), e.in(1), e.out());
}

Status vjp_grad_weight(VjpContext& c) {
  const Attrs window = conv_window_attrs(c.attrs());
  if (c.needs(0)) c.grad(0, c.b.node(Op::conv_grad_data, {c.in(1), c.dy()}, with_shape(window, c.in_shape(0))));
  if (c.needs(1)) c.grad(1, c.b.node(Op::conv, {c.in(0), c.dy()}, window));
  return ok_status();
}

// ---- conv_transpose(x, weight [I, kh, kw, O / groups], bias?) -> y: the data gradient of a convolution from y to x

Status transposed_size(InferContext& c, const ConvWindow& window, std::size_t axis, std::int64_t padding, Dim& out) {
  const Dim& image = c.shape(0)[axis + 1];
  const std::int64_t in = image.is_constant() ? image.value() : 1;
  GRAFT_TRY_ASSIGN(const std::int64_t kernel, c.constant_dim(1, axis + 1));
  constexpr std::int64_t kLimit = kMaxWindowExtent;
  if (in < 1 || kernel < 1 || in > kLimit || kernel > kLimit) {
    return invalid("A transposed convolution of ", c.shape(0).text(), " by ", c.shape(1).text(),
                   " has no output: sizes must lie between 1 and ", kLimit, ".");
  }
  if (padding < 0 || padding >= std::max(window.strides[axis], window.dilations[axis])) {
    return invalid("The attribute \"output_padding\" holds ", padding, "; it must be less than the stride ",
                   window.strides[axis], " or the dilation ", window.dilations[axis], ".");
  }
  const std::int64_t more = window.dilations[axis] * (kernel - 1) + 1 + padding - window.pads[axis] -
                            window.pads[axis + 2] - window.strides[axis];
  if (!image.is_constant()) {
    const auto strided = multiply(image, Dim(window.strides[axis])),
               whole = strided ? add(*strided, Dim(more)) : std::nullopt;
    if (!whole)
      return invalid("The output of a transposed convolution over ", image.text(),
                     " cannot be written; bind it first.");
    out = *whole;
    return ok_status();
  }
  const std::int64_t size = in * window.strides[axis] + more;
  out = size;
  if (size < 1 || size > kLimit) {
    return invalid("A transposed convolution of ", c.shape(0).text(), " by ", c.shape(1).text(), " would give ", size,
                   " positions on axis ", axis + 1, "; there must be between 1 and ", kLimit, ".");
  }
  return ok_status();
}

Status infer_transpose(InferContext& c) {
  GRAFT_TRY(expect_images(c));
  GRAFT_TRY_ASSIGN(const ConvWindow window, read_conv_window(c.attrs()));
  const Ints padding = c.attrs().has("output_padding") ? c.attrs().integers("output_padding") : Ints{0, 0};
  if (padding.size() != 2) {
    return invalid("The attribute \"output_padding\" must hold 2 numbers; it holds ", padding.size(), ".");
  }
  Dim h, w;
  GRAFT_TRY(transposed_size(c, window, 0, padding[0], h));
  GRAFT_TRY(transposed_size(c, window, 1, padding[1], w));
  GRAFT_TRY_ASSIGN(const std::int64_t channels, c.constant_dim(0, 3));
  GRAFT_TRY_ASSIGN(const std::int64_t weight_channels, c.constant_dim(1, 0));
  GRAFT_TRY_ASSIGN(const std::int64_t group_o, c.constant_dim(1, 3));
  if (channels != weight_channels || channels % window.groups != 0 || group_o > (std::int64_t{1} << 31)) {
    return invalid("The weight ", c.shape(1).text(), " (input channels, height, width, output channels of a group) ",
                   "does not fit an input of shape ", c.shape(0).text(), " in ", window.groups, " groups.");
  }
  const std::optional<Dim> o = multiply(Dim(group_o), Dim(window.groups));
  if (!o) return invalid("The output channels ", group_o, " times ", window.groups, " groups overflow.");
  if (c.has(2)) GRAFT_TRY(c.expect_shape(2, Shape{*o}));
  c.output(DType::f32, Shape{c.shape(0)[0], h, w, *o});
  return ok_status();
}

Status emit_transpose(Emitter& e) {
  const ConvSizes sizes = conv_sizes(e.attrs(), e.out_shape(), e.in_shape(1), e.in_shape(0));
  const Binding bias = e.has(2) ? e.in(2) : Binding{};
  return emit_conv_grad_data(e, sizes, e.in(0), e.in(1), e.has(2) ? &bias : nullptr, e.out());
}

// dy covers more than the convolution's windows where output_padding >= stride: those last rows and columns reach no
// input, so they are left out of both gradients.
Result<ValueId> crop_to_windows(VjpContext& c, const ConvWindow& window) {
  Shape shape = c.out_shape();
  const Shape x = c.in_shape(0);
  const Shape weight = c.in_shape(1);
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const std::int64_t stride = window.strides[axis];
    const std::int64_t exact = (x[axis + 1].value() - 1) * stride +
                               window.dilations[axis] * (weight[axis + 1].value() - 1) + 1 - window.pads[axis] -
                               window.pads[axis + 2];
    if (shape[axis + 1].value() - exact >= stride) shape[axis + 1] = Dim(exact);
  }
  if (shape == c.out_shape()) return c.dy();
  constexpr std::int64_t kAll = 0x7fffffff;
  return c.b.node(Op::slice, {c.dy()},
                  {{"starts", Ints{0, 0, 0, 0}},
                   {"ends", Ints{kAll, shape[1].value(), shape[2].value(), kAll}},
                   {"steps", Ints{1, 1, 1, 1}}});
}

Status vjp_transpose(VjpContext& c) {
  const Attrs window = conv_window_attrs(c.attrs());
  GRAFT_TRY_ASSIGN(const ConvWindow sizes, read_conv_window(window));
  if (c.needs(0) || c.needs(1)) {
    GRAFT_TRY_ASSIGN(const ValueId dy, crop_to_windows(c, sizes));
    if (c.needs(0)) c.grad(0, c.b.node(Op::conv, {dy, c.in(1)}, window));
    if (c.needs(1)) {
      c.grad(1, c.b.node(Op::conv_grad_weight, {dy, c.in(0)}, with_shape(window, c.in_shape(1))));
    }
  }
  if (c.needs(2)) c.grad(2, c.dy());
  return ok_status();
}

// ---- costs

template <std::size_t kX, std::size_t kWeight, std::size_t kY>  // 0, 1: inputs; 2: the output
std::uint64_t flops(const Graph& graph, const Node& node) {
  const auto shape = [&](std::size_t which) -> const Shape& {
    return graph.value(which == 2 ? node.outputs[0] : node.inputs[which]).shape;
  };
  return 2 * conv_sizes(node.attrs, shape(kX), shape(kWeight), shape(kY)).multiply_adds();
}

}  // namespace

extern const OpDef op_conv, op_conv_transpose, op_conv_grad_data, op_conv_grad_weight;
const OpDef op_conv = {.name = "conv",
                       .attrs = kConvAttrs,
                       .min_inputs = 2,
                       .max_inputs = 3,
                       .infer = infer_conv,
                       .emit = emit_conv_op,
                       .gradient = vjp_conv,
                       .flops = flops<0, 1, 2>};
const OpDef op_conv_transpose = {.name = "conv_transpose",
                                 .attrs = kTransposeAttrs,
                                 .min_inputs = 2,
                                 .max_inputs = 3,
                                 .infer = infer_transpose,
                                 .emit = emit_transpose,
                                 .gradient = vjp_transpose,
                                 .flops = flops<2, 1, 0>};
const OpDef op_conv_grad_data = {.name = "conv_grad_data",
                                 .attrs = kGradAttrs,
                                 .min_inputs = 2,
                                 .max_inputs = 2,
                                 .infer = infer_grad_data,
                                 .emit = emit_grad_data_op,
                                 .gradient = vjp_grad_data,
                                 .flops = flops<2, 1, 0>};
const OpDef op_conv_grad_weight = {.name = "conv_grad_weight",
                                   .attrs = kGradAttrs,
                                   .min_inputs = 2,
                                   .max_inputs = 2,
                                   .infer = infer_grad_weight,
                                   .emit = emit_grad_weight_op,
                                   .gradient = vjp_grad_weight,
                                   .flops = flops<0, 2, 1>};

}  // namespace graft::ops::conv
