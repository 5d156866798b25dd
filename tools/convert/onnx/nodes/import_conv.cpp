// Convolutions: channels-last images, weights permuted once.
#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/nodes/volume.h"

namespace graft::convert {
namespace {

struct Weights {
  ValueId value;
  Ints kernel;  // source axes
};

Result<Weights> weights(NodeContext& c) {
  const Shape& shape = c.shape(1);
  if (shape.rank() != c.rank(0)) {
    return corrupt("its weights have ", shape.rank(), " axes where its input has ", c.rank(0));
  }
  if (!is_float(c.type(0)) || !is_float(c.type(1))) return unsupported("its input is ", elem_name(c.type(0)));
  Weights w;
  for (std::size_t i = 2; i < shape.rank(); ++i) {
    if (!shape[i].is_constant()) return unsupported("its kernel size is symbolic");
    w.kernel.push_back(shape[i].value());
  }
  const Ints stated = c.attr_ints("kernel_shape", w.kernel);
  if (stated != w.kernel) {
    return corrupt("its kernel_shape is not that of its weights, which are ", shape.text());
  }
  return w;
}

ValueId bias(NodeContext& c) { return c.has(2) ? c.in(2) : kNoValue; }

Status check_bias(NodeContext& c, const Dim& channels) {
  if (!c.has(2) || (c.rank(2) == 1 && c.shape(2)[0] == channels)) return {};
  return corrupt("its bias has the shape ", c.shape(2).text(), " instead of [", channels.text(), "]");
}

std::vector<ValueId> operands(NodeContext& c, const Spatial& s) {
  std::vector<ValueId> inputs = {image(c, 0, s), image(c, 1, s)};
  if (c.has(2)) inputs.push_back(bias(c));
  return inputs;
}

// A depth: its taps in the weights' last axes, before the channels.
const Perm kVolumeWeights = {0, 3, 4, 2, 1};

Status conv(NodeContext& c) {
  GRAFT_TRY_ASSIGN(const Weights w, weights(c));
  GRAFT_TRY_ASSIGN(const Window window, read_window(c, w.kernel, true));
  GRAFT_TRY(check_bias(c, c.shape(1)[0]));
  if (window.axes == 3) {
    const ValueId x = c.in(0, channels_last(5)), filters = c.in(1, kVolumeWeights);
    GRAFT_TRY_ASSIGN(const ValueId y, conv_volume(c, x, filters, bias(c), window, c.attr("group", 1)));
    c.out(0, y, channels_last(5));
    return {};
  }
  GRAFT_TRY_ASSIGN(const Spatial s, widened(window));
  Attrs attrs = {{"strides", s.strides}, {"pads", s.pads}, {"dilations", s.dilations}, {"groups", c.attr("group", 1)}};
  if (!s.same.empty()) attrs.set("same", s.same);
  const ValueId y = c.emit(Op::conv, operands(c, s), attrs);
  out_image(c, 0, y, s, c.type(0));
  return {};
}

/// Padding of a transposed convolution whose output size is given, along one axis.
Status pad_to_output(NodeContext& c, Window& s, std::size_t at, std::int64_t wanted, Ints& output_padding) {
  const Dim& size = c.shape(0)[at + 2];
  if (!size.is_constant()) return unsupported("its output_shape or auto_pad needs the size of axis ", at + 2);
  const std::int64_t full =
      s.strides[at] * (size.value() - 1) + output_padding[at] + (s.kernel[at] - 1) * s.dilations[at] + 1;
  std::int64_t total = full - (wanted < 0 ? size.value() * s.strides[at] : wanted);
  if (total < 0) {
    output_padding[at] -= total;
    total = 0;
  }
  const bool upper = c.attr_text("auto_pad", "NOTSET") == "SAME_UPPER";
  s.pads[at] = upper ? total / 2 : total - total / 2;
  s.pads[at + s.axes] = total - s.pads[at];
  return {};
}

Status conv_transpose(NodeContext& c) {
  GRAFT_TRY_ASSIGN(const Weights w, weights(c));
  GRAFT_TRY_ASSIGN(Window window, read_window(c, w.kernel));
  const std::int64_t groups = c.attr("group", 1);
  if (groups < 1 || groups > (1 << 20)) return corrupt("its group is ", groups);
  const auto channels = multiply(c.shape(1)[1], Dim(groups));
  GRAFT_TRY(check_bias(c, channels ? *channels : Dim(0)));
  const std::size_t axes = window.axes;
  Ints padding = c.attr_ints("output_padding", Ints(axes, 0));
  if (padding.size() != axes) return corrupt("its output_padding has ", padding.size(), " values instead of ", axes);
  for (const std::int64_t v : padding) {
    if (v < 0 || v > (1 << 20)) return corrupt("its output_padding holds ", v);
  }
  const std::string auto_pad = c.attr_text("auto_pad", "NOTSET");
  const bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
  Ints shape = c.attr_ints("output_shape");
  if (shape.size() == c.rank(0)) shape.erase(shape.begin(), shape.begin() + 2);
  if (!shape.empty() && shape.size() != axes) {
    return corrupt("its output_shape has ", shape.size(), " values instead of ", axes);
  }
  for (std::size_t i = 0; (same || !shape.empty()) && i < axes; ++i) {
    if (!shape.empty() && (shape[i] < 1 || shape[i] > (1 << 24))) return corrupt("its output_shape holds ", shape[i]);
    GRAFT_TRY(pad_to_output(c, window, i, shape.empty() ? -1 : shape[i], padding));
  }
  if (axes == 3) {
    const ValueId x = c.in(0, channels_last(5)), filters = c.in(1, kVolumeWeights);
    GRAFT_TRY_ASSIGN(const ValueId y, conv_transpose_volume(c, x, filters, bias(c), window, padding, groups));
    c.out(0, y, channels_last(5));
    return {};
  }
  GRAFT_TRY_ASSIGN(const Spatial s, widened(window));
  const ValueId y = c.emit(Op::conv_transpose, operands(c, s),
                           {{"strides", s.strides},
                            {"pads", s.pads},
                            {"dilations", s.dilations},
                            {"groups", groups},
                            {"output_padding", s.widened(padding, 0)}});
  out_image(c, 0, y, s, c.type(0));
  return {};
}

}  // namespace

const RuleEntry kConvRules[] = {
    {"Conv", 2, 3, conv},
    {"ConvTranspose", 2, 3, conv_transpose},
    {nullptr, 0, 0, nullptr},
};

}  // namespace graft::convert
