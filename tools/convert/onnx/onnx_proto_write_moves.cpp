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

std::string write_slice(OnnxWriter& w, const Node& node) {
  Ints axes;
  for (std::size_t i = 0; i < node.attrs.integers("starts").size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  return w.add("Slice", {w.name(node.inputs[0]), w.ints(node.attrs.integers("starts")),
                         w.ints(node.attrs.integers("ends")), w.ints(axes), w.ints(node.attrs.integers("steps"))});
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
    case Op::slice: y = write_slice(w, node); break;
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
