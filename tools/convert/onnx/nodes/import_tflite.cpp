// Operators of TensorFlow Lite whose images are channels-last, as graft's are. All others of that format are said in
// ONNX's terms (tools/convert/tflite).
#include <algorithm>

#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/nodes/spatial.h"

namespace graft::convert {
namespace {

Status need_images(NodeContext& c, std::size_t i) {
  if (!is_float(c.type(i))) return unsupported("its input ", i, " is ", elem_name(c.type(i)), ", not floating-point");
  if (c.rank(i) == 4) return {};
  return corrupt("its input ", i, " has ", c.rank(i), " axes instead of 4");
}

Result<Ints> pair_of(NodeContext& c, const char* name) {
  const Ints values = c.attr_ints(name, {1, 1});
  for (const std::int64_t v : values) {
    if (v < 1 || v > (1 << 20)) return corrupt("its ", name, " holds ", v);
  }
  return values;
}

/// Sets padding of an image's axes 1 and 2: top, left, bottom, right.
void set_padding(NodeContext& c, const Ints& kernel, const Ints& strides, const Ints& dilations, Attrs& attrs) {
  Ints pads(4, 0), same(2, 0);
  for (std::size_t i = 0; i < 2; ++i) {
    if (c.attr("same", 0) == 0) break;
    const Dim& size = c.shape(0)[i + 1];
    const std::int64_t extent = (kernel[i] - 1) * dilations[i] + 1;
    if (!size.is_constant() && strides[i] != 1) {
      same[i] = 1;
      continue;
    }
    const std::int64_t n = size.is_constant() ? size.value() : 1;
    const std::int64_t out = (n + strides[i] - 1) / strides[i];
    same_padding("SAME_UPPER", (out - 1) * strides[i] + extent - n, pads[i], pads[i + 2]);
  }
  attrs.set("pads", std::move(pads));
  if (same != Ints{0, 0}) attrs.set("same", std::move(same));
}

Result<Ints> kernel_of(NodeContext& c) {
  const Shape& w = c.shape(1);
  for (std::size_t i = 0; i < 4; ++i) {
    if (!w[i].is_constant()) return unsupported("its weights have the shape ", w.text());
    if (w[i].value() < 1 || w[i].value() > (1 << 24)) return corrupt("its weights have the shape ", w.text());
  }
  if (w[1].value() > (1 << 20) || w[2].value() > (1 << 20)) return corrupt("its weights have the shape ", w.text());
  return Ints{w[1].value(), w[2].value()};
}

Status convolve(NodeContext& c, bool depthwise) {
  GRAFT_TRY(need_images(c, 0));
  GRAFT_TRY(need_images(c, 1));
  GRAFT_TRY_ASSIGN(const Ints kernel, kernel_of(c));
  GRAFT_TRY_ASSIGN(const Ints strides, pair_of(c, "strides"));
  GRAFT_TRY_ASSIGN(const Ints dilations, pair_of(c, "dilations"));
  const Dim channels = c.shape(0)[3];
  if (!channels.is_constant()) return unsupported("its channels are symbolic: ", channels.text());
  const std::int64_t per_group = depthwise ? 1 : c.shape(1)[3].value();
  if (channels.value() % per_group != 0 || (depthwise && c.shape(1)[0] != Dim(1))) {
    return corrupt("its weights ", c.shape(1).text(), " do not fit ", channels.value(), " channels");
  }
  // [1, kh, kw, channels * multiplier] where there is a group for each channel; [out, kh, kw, in] else.
  std::vector<ValueId> inputs = {c.in(0), c.in(1, depthwise ? Perm{3, 1, 2, 0} : Perm{})};
  if (c.has(2)) inputs.push_back(c.in(2));
  Attrs attrs = {{"strides", strides}, {"dilations", dilations}, {"groups", channels.value() / per_group}};
  set_padding(c, kernel, strides, dilations, attrs);
  c.out(0, c.emit(Op::conv, inputs, attrs));
  return {};
}

Status conv_2d(NodeContext& c) { return convolve(c, false); }
Status depthwise_conv_2d(NodeContext& c) { return convolve(c, true); }

/// Inputs: weights [out, kh, kw, in], image, the output's shape, bias.
Status transpose_conv(NodeContext& c) {
  GRAFT_TRY(need_images(c, 0));
  GRAFT_TRY(need_images(c, 1));
  GRAFT_TRY_ASSIGN(const Ints kernel, kernel_of(c));
  GRAFT_TRY_ASSIGN(const Ints strides, pair_of(c, "strides"));
  GRAFT_TRY_ASSIGN(const std::vector<Dim> wanted, c.dims(2, "output shape"));
  if (wanted.size() != 4) return corrupt("its output shape has ", wanted.size(), " numbers instead of 4");
  Ints pads(4, 0), output_padding(2, 0);
  for (std::size_t i = 0; i < 2; ++i) {
    const Dim &in = c.shape(0)[i + 1], &out = wanted[i + 1];
    if (!in.is_constant() || !out.is_constant()) {
      return unsupported("it needs the sizes of axis ", i + 1, ", which are ", in.text(), " and ", out.text());
    }
    if (out.value() < 1 || out.value() > (1 << 24)) return corrupt("its output shape holds ", out.value());
    if (c.attr("same", 0) != 0) {
      const std::int64_t steps = (out.value() + strides[i] - 1) / strides[i];
      same_padding("SAME_UPPER", (steps - 1) * strides[i] + kernel[i] - out.value(), pads[i], pads[i + 2]);
    }
    // What is left over, at the end.
    pads[i + 2] = (in.value() - 1) * strides[i] + kernel[i] - pads[i] - out.value();
    output_padding[i] = std::max<std::int64_t>(0, -pads[i + 2]);
    pads[i + 2] = std::max<std::int64_t>(0, pads[i + 2]);
  }
  std::vector<ValueId> inputs = {c.in(0), c.in(1, Perm{3, 1, 2, 0})};
  if (c.has(3)) inputs.push_back(c.in(3));
  c.out(0, c.emit(Op::conv_transpose, inputs,
                  {{"strides", strides},
                   {"pads", pads},
                   {"dilations", Ints{1, 1}},
                   {"groups", std::int64_t{1}},
                   {"output_padding", output_padding}}));
  return {};
}

Status pool_2d(NodeContext& c) {
  GRAFT_TRY(need_images(c, 0));
  GRAFT_TRY_ASSIGN(const Ints kernel, pair_of(c, "kernel"));
  GRAFT_TRY_ASSIGN(const Ints strides, pair_of(c, "strides"));
  Attrs window = {{"kernel", kernel}, {"strides", strides}, {"ceil_mode", std::int64_t{0}}};
  set_padding(c, kernel, strides, {1, 1}, window);
  c.out(0, c.emit(c.target, {c.in(0)}, window));
  return {};
}

/// [.., in] times [out, in] transposed.
Status fully_connected(NodeContext& c) {
  if (c.rank(1) != 2) return corrupt("its weights have ", c.rank(1), " axes instead of 2");
  for (std::size_t i = 0; i < c.inputs(); ++i) {
    if (c.has(i) && !is_float(c.type(i))) return unsupported("its input ", i, " is ", elem_name(c.type(i)));
  }
  ValueId x = c.in(0);
  if (c.attr("keep_num_dims", 0) == 0) {
    GRAFT_TRY_ASSIGN(const Dim count, c.shape(0).element_count());
    const auto rows = divide_exactly(count, c.shape(1)[1]);
    if (!rows) return corrupt("its input ", c.shape(0).text(), " has no rows of ", c.shape(1)[1].text());
    x = c.reshape(x, Shape{*rows, c.shape(1)[1]});
  }
  std::vector<ValueId> inputs = {x, c.in(1)};
  if (c.has(2)) inputs.push_back(c.in(2));
  c.out(0, c.emit(Op::matmul, inputs, {{"trans_a", std::int64_t{0}}, {"trans_b", std::int64_t{1}}}));
  return {};
}

Status resize_image(NodeContext& c) {
  GRAFT_TRY(need_images(c, 0));
  GRAFT_TRY_ASSIGN(const Ints sizes, c.ints(1, "size"));
  if (sizes.size() != 2) return corrupt("its size has ", sizes.size(), " numbers instead of 2");
  double scales[2] = {1, 1};
  for (std::size_t i = 0; i < 2; ++i) {
    const Dim& in = c.shape(0)[i + 1];
    if (sizes[i] < 1 || sizes[i] > (1 << 24)) return corrupt("its size holds ", sizes[i]);
    if (!in.is_constant())
      return unsupported("it resizes the symbolic axis ", in.text(), "; bind it (--bind NAME=SIZE)");
    scales[i] = static_cast<double>(sizes[i]) / static_cast<double>(in.value());
  }
  const bool linear = c.node.op == "RESIZE_BILINEAR", corners = c.attr("align_corners", 0) != 0;
  const bool centers = c.attr("half_pixel_centers", 0) != 0;
  // The nearest of two equally near ones is the latter; without centers pixels begin at their corners.
  c.out(0, c.emit(Op::resize, {c.in(0)},
                  {{"sizes", sizes},
                   {"mode", std::string(linear ? "linear" : "nearest")},
                   {"coordinates", std::string(corners   ? "align_corners"
                                               : centers ? "half_pixel"
                                                         : "asymmetric")},
                   {"nearest", std::string(corners || centers ? "round_prefer_ceil" : "floor")},
                   {"scale_h", scales[0]},
                   {"scale_w", scales[1]}}));
  return {};
}

}  // namespace

const RuleEntry kTfliteRules[] = {
    {"tflite.CONV_2D", 2, 3, conv_2d},
    {"tflite.DEPTHWISE_CONV_2D", 2, 3, depthwise_conv_2d},
    {"tflite.TRANSPOSE_CONV", 3, 4, transpose_conv},
    {"tflite.AVERAGE_POOL_2D", 1, 1, pool_2d, Op::avg_pool},
    {"tflite.MAX_POOL_2D", 1, 1, pool_2d, Op::max_pool},
    {"tflite.FULLY_CONNECTED", 2, 3, fully_connected},
    {"tflite.RESIZE_BILINEAR", 2, 2, resize_image},
    {"tflite.RESIZE_NEAREST_NEIGHBOR", 2, 2, resize_image},
    {nullptr, 0, 0, nullptr},
};

}  // namespace graft::convert
