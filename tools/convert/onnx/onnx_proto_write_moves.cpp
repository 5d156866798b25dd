// Ops that move elements.
#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/onnx_proto_writer.h"

namespace graft::convert {
namespace {

/// Between the two orders of images nothing is written: the value is known in both.
void write_transpose(OnnxWriter& w, const Node& node) {
  const Ints perm = node.attrs.integers("perm");
  const ValueId x = node.inputs[0], y = node.outputs[0];
  Ints last = {0}, first = {0, static_cast<std::int64_t>(perm.size()) - 1};
  for (std::size_t i = 2; i < perm.size(); ++i) last.push_back(static_cast<std::int64_t>(i));
  last.push_back(1);
  for (std::size_t i = 1; i + 1 < perm.size(); ++i) first.push_back(static_cast<std::int64_t>(i));
  if (perm.size() >= 3 && perm == last) {
    w.is_channels_first(y, w.name(x));
  } else if (perm.size() >= 3 && perm == first) {
    w.is(y, w.channels_first(x));
  } else {
    w.is(y, w.add("Transpose", {w.name(x)}, {{"perm", perm}}));
  }
}

Result<std::string> write_slice(OnnxWriter& w, const Node& node) {
  const Ints ends = node.attrs.integers("ends");
  Ints axes;
  for (std::size_t i = 0; i < ends.size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  std::string stops = node.attrs.has("stops") ? "" : w.ints(ends);
  if (stops.empty()) {  // some are sizes of other tensors
    Shape all = node.attrs.shape("stops");
    for (std::size_t i = 0; i < ends.size(); ++i) {
      if (all[i].is_constant()) all[i] = Dim(ends[i]);
    }
    GRAFT_TRY_ASSIGN(stops, w.sizes(all));
  }
  return w.add("Slice", {w.name(node.inputs[0]), w.ints(node.attrs.integers("starts")), stops, w.ints(axes),
                         w.ints(node.attrs.integers("steps"))});
}

/// Whether data and indices differ in nothing but one axis, as ONNX has it; graft's may share an index along a run.
bool indexes_lines(const OnnxWriter& w, const Node& node) {
  const Shape &data = w.shape(node.inputs[0]), &indices = w.shape(node.inputs[1]);
  const auto axis = normalize_axis(node.attrs.integer("axis"), data.rank());
  if (!axis.ok() || indices.rank() != data.rank()) return false;
  for (std::size_t i = 0; i < data.rank(); ++i) {
    if (i != *axis && data[i] != indices[i]) return false;
  }
  return true;
}

}  // namespace

Result<bool> write_move(OnnxWriter& w, const Node& node) {
  const Attrs& a = node.attrs;
  std::string y;
  switch (node.op) {
    case Op::transpose: write_transpose(w, node); return true;
    case Op::reshape: {
      GRAFT_TRY_ASSIGN(const std::string sizes, w.reshape_sizes(w.shape(node.outputs[0])));
      y = w.add("Reshape", {w.name(node.inputs[0]), sizes});
      break;
    }
    case Op::expand: {
      GRAFT_TRY_ASSIGN(const std::string sizes, w.sizes(w.shape(node.outputs[0])));
      y = w.add("Expand", {w.name(node.inputs[0]), sizes});
      break;
    }
    case Op::full: {
      GRAFT_TRY_ASSIGN(const std::string sizes, w.sizes(w.shape(node.outputs[0])));
      y = w.add("Expand", {w.number(a.number("value"), w.dtype(node.outputs[0])), sizes});
      break;
    }
    case Op::gather_elements:
      if (!indexes_lines(w, node) || a.flag("zero_miss")) return false;
      y = w.add("GatherElements", {w.name(node.inputs[0]), w.name(node.inputs[1])}, {{"axis", a.integer("axis")}});
      break;
    case Op::scatter_elements: {
      const std::string reduction = a.text("reduction", "none");
      if (!indexes_lines(w, node) || (reduction != "none" && reduction != "add" && reduction != "mul")) return false;
      y = w.add("ScatterElements", {w.name(node.inputs[0]), w.name(node.inputs[1]), w.name(node.inputs[2])},
                {{"axis", a.integer("axis")}, {"reduction", reduction}});
      break;
    }
    case Op::top_k: {  // graft's gives the indices alone
      const auto made = w.add_all("TopK", {w.name(node.inputs[0]), w.ints({a.integer("k")})}, 2,
                                  {{"axis", a.integer("axis")}, {"largest", std::int64_t{!a.flag("smallest")}}});
      y = w.add("Cast", {made[1]}, {{"to", std::int64_t{onnx::TensorProto::INT32}}});
      break;
    }
    case Op::slice: {
      GRAFT_TRY_ASSIGN(y, write_slice(w, node));
      break;
    }
    case Op::concat: {
      std::vector<std::string> inputs;
      for (const ValueId v : node.inputs) inputs.push_back(w.name(v));
      y = w.add("Concat", inputs, {{"axis", a.integer("axis")}});
      break;
    }
    case Op::pad: {
      std::vector<std::string> inputs = {w.name(node.inputs[0]), w.ints(a.integers("pads"))};
      const std::string mode = a.text("mode", "constant");
      if (mode == "constant") inputs.push_back(w.number(a.number("value", 0), w.dtype(node.inputs[0])));
      y = w.add("Pad", inputs, {{"mode", mode}});
      break;
    }
    case Op::gather:
      y = w.add("Gather", {w.name(node.inputs[0]), w.name(node.inputs[1])}, {{"axis", a.integer("axis")}});
      break;
    default: return false;
  }
  w.is(node.outputs[0], y);
  return true;
}

}  // namespace graft::convert
