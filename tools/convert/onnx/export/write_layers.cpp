// Products, convolutions, pools, norms, resizing: images go channels-first.
#include <algorithm>
#include <cmath>

#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/export/onnx_writer.h"

namespace graft::convert {
namespace {

bool has(const Node& node, std::size_t i) { return i < node.inputs.size() && node.inputs[i].valid(); }

std::string turned(OnnxWriter& w, ValueId v, bool turn) {
  const std::size_t rank = w.shape(v).rank();
  if (!turn || rank < 2) return w.name(v);
  Ints perm;
  for (std::size_t i = 0; i < rank; ++i) perm.push_back(static_cast<std::int64_t>(i));
  std::swap(perm[rank - 1], perm[rank - 2]);
  return w.add("Transpose", {w.name(v)}, {{"perm", perm}});
}

void write_matmul(OnnxWriter& w, const Node& node) {
  const bool a = node.attrs.flag("trans_a"), b = node.attrs.flag("trans_b");
  if (w.shape(node.inputs[0]).rank() == 2 && w.shape(node.inputs[1]).rank() == 2 && (a || b || has(node, 2))) {
    std::vector<std::string> inputs = {w.name(node.inputs[0]), w.name(node.inputs[1])};
    if (has(node, 2)) inputs.push_back(w.name(node.inputs[2]));
    w.is(node.outputs[0], w.add("Gemm", inputs, {{"transA", std::int64_t{a}}, {"transB", std::int64_t{b}}}));
    return;
  }
  std::string y = w.add("MatMul", {turned(w, node.inputs[0], a), turned(w, node.inputs[1], b)});
  if (has(node, 2)) y = w.add("Add", {y, w.name(node.inputs[2])});
  w.is(node.outputs[0], y);
}

/// Pads that follow from a size that is open; the other axis, if its size is known, has the pads that this gives it.
void take_same(const Attrs& a, std::vector<OnnxWriter::Attr>& attrs) {
  if (!a.has("same")) return;
  const Ints same = a.integers("same");
  std::erase_if(attrs, [](const OnnxWriter::Attr& attr) { return attr.first == "pads"; });
  attrs.push_back({"auto_pad", std::string(std::ranges::find(same, 2) != same.end() ? "SAME_LOWER" : "SAME_UPPER")});
}

/// A list of a window, of which an absent one has `count` times the same number.
Ints window_ints(const Attrs& attrs, std::string_view name, std::size_t count, std::int64_t absent) {
  return attrs.has(name) ? attrs.integers(name) : Ints(count, absent);
}

void write_conv(OnnxWriter& w, const Node& node) {
  const Attrs& a = node.attrs;
  std::vector<std::string> inputs = {w.channels_first(node.inputs[0]), w.channels_first(node.inputs[1])};
  if (has(node, 2)) inputs.push_back(w.name(node.inputs[2]));
  std::vector<OnnxWriter::Attr> attrs = {{"strides", window_ints(a, "strides", 2, 1)},
                                         {"pads", window_ints(a, "pads", 4, 0)},
                                         {"dilations", window_ints(a, "dilations", 2, 1)},
                                         {"group", a.integer("groups")}};
  take_same(a, attrs);
  if (node.op == Op::conv_transpose) attrs.push_back({"output_padding", window_ints(a, "output_padding", 2, 0)});
  w.is_channels_first(node.outputs[0], w.add(node.op == Op::conv ? "Conv" : "ConvTranspose", inputs, attrs));
}

Status write_pool(OnnxWriter& w, const Node& node) {
  const Attrs& a = node.attrs;
  std::vector<OnnxWriter::Attr> attrs = {{"kernel_shape", a.integers("kernel")},
                                         {"strides", window_ints(a, "strides", 2, 1)},
                                         {"pads", window_ints(a, "pads", 4, 0)},
                                         {"ceil_mode", a.integer("ceil_mode")}};
  take_same(a, attrs);
  const bool max = node.op == Op::max_pool;
  if (max) attrs.push_back({"dilations", window_ints(a, "dilations", 2, 1)});
  if (!max) attrs.push_back({"count_include_pad", a.integer("count_include_pad")});
  w.is_channels_first(node.outputs[0],
                      w.add(max ? "MaxPool" : "AveragePool", {w.channels_first(node.inputs[0])}, attrs));
  return {};
}

void write_batch_norm(OnnxWriter& w, const Node& node) {
  std::vector<std::string> inputs = {w.channels_first(node.inputs[0])};
  for (std::size_t i = 1; i < 5; ++i) inputs.push_back(w.name(node.inputs[i]));
  w.is_channels_first(node.outputs[0],
                      w.add("BatchNormalization", inputs, {{"epsilon", node.attrs.number("epsilon")}}));
}

Status write_layer_norm(OnnxWriter& w, const Node& node) {
  const Shape& x = w.shape(node.inputs[0]);
  const std::int64_t axis = node.attrs.integer("axis");
  const auto first = static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(x.rank()) : axis);
  std::string scale;
  if (has(node, 1)) {
    scale = w.name(node.inputs[1]);
  } else {
    std::vector<Dim> dims(x.begin() + static_cast<std::ptrdiff_t>(first), x.end());
    GRAFT_TRY_ASSIGN(const std::string sizes, w.sizes(Shape(std::move(dims))));
    scale = w.add("Expand", {w.number(1), sizes});
  }
  std::vector<std::string> inputs = {w.name(node.inputs[0]), scale};
  if (has(node, 2)) inputs.push_back(w.name(node.inputs[2]));
  const auto made = w.add_all("LayerNormalization", inputs, node.outputs.size(),
                              {{"axis", axis}, {"epsilon", node.attrs.number("epsilon")}});
  w.is(node.outputs[0], made[0]);
  for (std::size_t i = 1; i < made.size(); ++i) {  // mean and the inverse of the deviation: without axes of size 1 here
    if (!w.is_read(node.outputs[i])) continue;
    GRAFT_TRY_ASSIGN(const std::string sizes, w.reshape_sizes(w.shape(node.outputs[i])));
    w.is(node.outputs[i], w.add("Reshape", {made[i], sizes}));
  }
  return {};
}

/// Groups of channels as channels of their own, normalised one by one.
Status write_group_norm(OnnxWriter& w, const Node& node) {
  const Shape& x = w.shape(node.inputs[0]);
  const std::int64_t groups = node.attrs.integer("groups");
  const Dim& channels = x.back();
  if (!channels.is_constant()) return unsupported("its channels are symbolic");
  const std::string first = w.channels_first(node.inputs[0]);
  const std::string apart = w.add("Reshape", {first, w.ints({0, groups, -1})});
  const std::vector<float> ones(static_cast<std::size_t>(groups), 1), zeros(static_cast<std::size_t>(groups), 0);
  std::string y = w.add("InstanceNormalization", {apart, w.numbers({groups}, ones), w.numbers({groups}, zeros)},
                        {{"epsilon", node.attrs.number("epsilon")}});
  y = w.add("Reshape", {y, w.add("Shape", {first})});
  Ints by_channel = {channels.value()};
  for (std::size_t i = 2; i < x.rank(); ++i) by_channel.push_back(1);
  if (has(node, 1)) y = w.add("Mul", {y, w.add("Reshape", {w.name(node.inputs[1]), w.ints(by_channel)})});
  if (has(node, 2)) y = w.add("Add", {y, w.add("Reshape", {w.name(node.inputs[2]), w.ints(by_channel)})});
  w.is_channels_first(node.outputs[0], y);
  return {};
}

void write_rms_norm(OnnxWriter& w, const Node& node) {
  const auto rank = static_cast<std::int64_t>(w.shape(node.inputs[0]).rank());
  std::int64_t axis = node.attrs.integer("axis");
  Ints axes;
  for (axis = axis < 0 ? axis + rank : axis; axis < rank; ++axis) axes.push_back(axis);
  const std::string x = w.name(node.inputs[0]);
  const std::string mean = w.reduced("ReduceMean", w.add("Mul", {x, x}), axes, true);
  const std::string root = w.add("Sqrt", {w.add("Add", {mean, w.number(node.attrs.number("epsilon"))})});
  std::string y = w.add("Div", {x, root});
  if (has(node, 1)) {
    std::string scale = w.name(node.inputs[1]);
    if (node.attrs.flag("add_unit")) scale = w.add("Add", {scale, w.number(1)});
    y = w.add("Mul", {y, scale});
  }
  w.is(node.outputs[0], y);
}

/// Of rows of logits; labels that are ignored give 0.
Status write_cross_entropy(OnnxWriter& w, const Node& node) {
  const double smoothing = node.attrs.number("label_smoothing");
  const std::string labels = w.name(node.inputs[1]);
  const std::string ignored =
      w.add("Equal", {labels, w.number(static_cast<double>(node.attrs.integer("ignore_index")), DType::i32)});
  const std::string safe = w.add("Where", {ignored, w.number(0, DType::i32), labels});
  const std::string logs = w.add("LogSoftmax", {w.name(node.inputs[0])}, {{"axis", std::int64_t{-1}}});
  const std::string index = w.add("Unsqueeze", {safe, w.ints({-1})});
  std::string loss = w.add("GatherElements", {logs, index}, {{"axis", std::int64_t{-1}}});
  loss = w.add("Squeeze", {loss, w.ints({-1})});
  if (smoothing != 0) {
    const std::string all = w.reduced("ReduceMean", logs, {-1}, false);
    loss = w.add("Add", {w.add("Mul", {loss, w.number(1 - smoothing)}), w.add("Mul", {all, w.number(smoothing)})});
  }
  w.is(node.outputs[0], w.add("Where", {ignored, w.number(0), w.add("Neg", {loss})}));
  return {};
}

Status write_resize(OnnxWriter& w, const Node& node) {
  const Attrs& a = node.attrs;
  const Shape& x = w.shape(node.inputs[0]);
  const Ints sizes = a.integers("sizes");
  const std::vector<OnnxWriter::Attr> how = {{"mode", a.text("mode")},
                                             {"coordinate_transformation_mode", a.text("coordinates")},
                                             {"nearest_mode", a.text("nearest")}};
  if (a.has("to")) {
    const Shape to = a.shape("to");
    const double scale_h = a.number("scale_h"), scale_w = a.number("scale_w");
    const std::string image = w.channels_first(node.inputs[0]);
    std::vector<std::string> inputs = {
        image, "", w.numbers({4}, {1, 1, static_cast<float>(scale_h), static_cast<float>(scale_w)})};
    if (scale_h == 0 || scale_w == 0) {
      GRAFT_TRY_ASSIGN(const std::string all, w.sizes(Shape{x[0], x[3], to[0], to[1]}));
      inputs = {image, "", "", all};
    }
    w.is_channels_first(node.outputs[0], w.add("Resize", inputs, how));
    return {};
  }
  if (!x[1].is_constant() || !x[2].is_constant()) return unsupported("its sizes are symbolic");
  std::vector<float> scales = {1, 1};
  for (std::size_t i = 0; i < 2; ++i) {
    const double in = static_cast<double>(x[i + 1].value());
    const std::string_view name = i == 0 ? "scale_h" : "scale_w";
    const double given = a.has(name) ? a.number(name) : static_cast<double>(sizes[i]) / in;
    // Rounded so that the size, which is rounded down, is the one wanted.
    auto scale = static_cast<float>(given);
    while (std::floor(in * static_cast<double>(scale)) < static_cast<double>(sizes[i]))
      scale = std::nextafter(scale, 65537.0F);
    scales.push_back(scale);
  }
  w.is_channels_first(node.outputs[0],
                      w.add("Resize", {w.channels_first(node.inputs[0]), "", w.numbers({4}, scales)}, how));
  return {};
}

}  // namespace

Result<bool> write_layer(OnnxWriter& w, const Node& node) {
  switch (node.op) {
    case Op::matmul: write_matmul(w, node); return true;
    case Op::conv:
    case Op::conv_transpose: write_conv(w, node); return true;
    case Op::max_pool:
    case Op::avg_pool: GRAFT_TRY(write_pool(w, node)); return true;
    case Op::batch_norm: write_batch_norm(w, node); return true;
    case Op::layer_norm: GRAFT_TRY(write_layer_norm(w, node)); return true;
    case Op::group_norm: GRAFT_TRY(write_group_norm(w, node)); return true;
    case Op::rms_norm: write_rms_norm(w, node); return true;
    case Op::cross_entropy: GRAFT_TRY(write_cross_entropy(w, node)); return true;
    case Op::resize: GRAFT_TRY(write_resize(w, node)); return true;
    default: return false;
  }
}

}  // namespace graft::convert
