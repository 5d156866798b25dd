// What the data choose. In graft's graph it has room for the most that there can be; ONNX's ops give what is there,
// which is laid into such room, so that all that reads it stays as it is.
#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/export/onnx_writer.h"

namespace graft::convert {
namespace {

std::string filled(OnnxWriter& w, std::int64_t value, const std::string& size) {
  return w.add("Expand", {w.ints({value}), size});
}

/// The places where running counts of a mask grow, then zeros.
Result<std::string> write_compact(OnnxWriter& w, const Node& node) {
  const std::string totals = w.name(node.inputs[0]);
  GRAFT_TRY_ASSIGN(const std::string size, w.sizes(w.shape(node.inputs[0])));
  const std::string zero = w.add("Reshape", {w.number(0, DType::i32), w.ints({1})});
  const std::string rest = w.add("Slice", {totals, w.ints({0}), w.ints({-1}), w.ints({0})});
  const std::string before = w.add("Concat", {zero, rest}, {{"axis", std::int64_t{0}}});
  const std::string grows = w.add("Greater", {totals, before});
  const std::string places = w.add("Reshape", {w.add("NonZero", {grows}), w.ints({-1})});
  const std::string behind = w.add("Sub", {size, w.add("Shape", {places})});
  const std::string pads = w.add("Concat", {w.ints({0}), behind}, {{"axis", std::int64_t{0}}});
  return w.cast(w.add("Pad", {places, pads}), onnx::TensorProto::INT32);
}

/// Rows (batch, class, box) in the order of batches and classes, to boxes by batch, class and place, -1 behind the
/// last.
Result<std::string> write_nms(OnnxWriter& w, const Node& node) {
  GRAFT_TRY(w.need_opset(16));  // ScatterElements that adds
  const Attrs& a = node.attrs;
  const Shape& out = w.shape(node.outputs[0]);
  GRAFT_TRY_ASSIGN(const std::string batches, w.sizes(Shape{out[0]}));
  GRAFT_TRY_ASSIGN(const std::string classes, w.sizes(Shape{out[1]}));
  GRAFT_TRY_ASSIGN(const std::string places, w.sizes(Shape{out[2]}));
  const auto threshold = [&](const char* attr) { return w.numbers({1}, {static_cast<float>(a.number(attr))}); };
  std::vector<std::string> inputs = {w.name(node.inputs[0]), w.name(node.inputs[1]), places,
                                     threshold("iou_threshold")};
  if (a.has("score_threshold")) inputs.push_back(threshold("score_threshold"));
  const std::string rows =
      w.add("NonMaxSuppression", inputs, {{"center_point_box", std::int64_t{a.flag("center_point_box")}}});
  const auto column = [&](int k) {
    return w.add("Gather", {rows, w.number(k, DType::i32)}, {{"axis", std::int64_t{1}}});
  };
  const std::string group = w.add("Add", {w.add("Mul", {column(0), classes}), column(1)});
  const std::string groups = w.add("Mul", {batches, classes});
  // A row's place among those of its group: its number, less that of the group's first.
  const std::string ones = filled(w, 1, w.add("Shape", {group}));
  const std::string counts = w.add("ScatterElements", {filled(w, 0, groups), group, ones},
                                   {{"axis", std::int64_t{0}}, {"reduction", std::string("add")}});
  const auto so_far = [&](const std::string& of) {
    return w.add("CumSum", {of, w.number(0, DType::i32)}, {{"exclusive", std::int64_t{1}}});
  };
  const std::string place = w.add("Sub", {so_far(ones), w.add("Gather", {so_far(counts), group})});
  const std::string at = w.add("Add", {w.add("Mul", {group, places}), place});
  const std::string none = filled(w, -1, w.add("Mul", {groups, places}));
  const std::string laid = w.add("ScatterElements", {none, at, column(2)}, {{"axis", std::int64_t{0}}});
  GRAFT_TRY_ASSIGN(const std::string sizes, w.sizes(out));
  return w.cast(w.add("Reshape", {laid, sizes}), onnx::TensorProto::INT32);
}

}  // namespace

Result<bool> write_chosen(OnnxWriter& w, const Node& node) {
  if (node.op != Op::nms && node.op != Op::compact) return false;
  GRAFT_TRY_ASSIGN(const std::string made, node.op == Op::nms ? write_nms(w, node) : write_compact(w, node));
  w.is(node.outputs[0], made);
  return true;
}

}  // namespace graft::convert
