// Ops that move elements.
#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/export/onnx_writer.h"

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
  Ints axes;
  // Some places may be sizes of other tensors.
  const auto places = [&](const char* known, const char* open) -> Result<std::string> {
    const Ints numbers = node.attrs.integers(known);
    if (!node.attrs.has(open)) return w.ints(numbers);
    Shape all = node.attrs.shape(open);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (all[i].is_constant()) all[i] = Dim(numbers[i]);
    }
    return w.sizes(all);
  };
  GRAFT_TRY_ASSIGN(const std::string begins, places("starts", "begins"));
  GRAFT_TRY_ASSIGN(const std::string stops, places("ends", "stops"));
  const Ints steps = node.attrs.integers("steps");
  for (std::size_t i = 0; i < steps.size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  return w.add("Slice", {w.name(node.inputs[0]), begins, stops, w.ints(axes), w.ints(steps)});
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

/// Indices in a shape that differs from the data's along one axis.
Result<std::string> line_indices(OnnxWriter& w, const Node& node, const Shape& shape) {
  const std::string indices = w.name(node.inputs[1]);
  if (indexes_lines(w, node)) return indices;
  GRAFT_TRY_ASSIGN(const std::string sizes, w.sizes(shape));
  return w.add("Expand", {indices, sizes});
}

/// An index of no element gives 0 where the node says so; else it has no meaning in ONNX.
Result<std::string> write_gather_elements(OnnxWriter& w, const Node& node) {
  GRAFT_TRY_ASSIGN(std::string indices, line_indices(w, node, w.shape(node.outputs[0])));
  const std::vector<OnnxWriter::Attr> attrs = {{"axis", node.attrs.integer("axis")}};
  if (!node.attrs.flag("zero_miss")) return w.add("GatherElements", {w.name(node.inputs[0]), indices}, attrs);
  const Shape& data = w.shape(node.inputs[0]);
  GRAFT_TRY_ASSIGN(const std::size_t axis, normalize_axis(node.attrs.integer("axis"), data.rank()));
  GRAFT_TRY_ASSIGN(const std::string sizes, w.sizes(Shape{data[axis]}));
  const std::string size = w.cast(sizes, onnx::TensorProto::INT32);
  const std::string inside =
      w.add("And", {w.add("Less", {indices, size}), w.add("GreaterOrEqual", {indices, w.add("Neg", {size})})});
  indices = w.add("Where", {inside, indices, w.number(0, DType::i32)});
  const std::string picked = w.add("GatherElements", {w.name(node.inputs[0]), indices}, attrs);
  return w.add("Where", {inside, picked, w.number(0, w.dtype(node.outputs[0]))});
}

/// Tuples of indices as numbers of rows: index by index times the size of what lies behind it.
Result<std::string> write_nd_index(OnnxWriter& w, const Node& node) {
  const Shape dims = node.attrs.shape("dims"), out = w.shape(node.outputs[0]);
  if (!dims.is_constant()) return unsupported("its sizes are symbolic");
  const auto batches = static_cast<std::size_t>(node.attrs.integer("batches"));
  const auto as_i32 = [&](const std::string& x) { return w.cast(x, onnx::TensorProto::INT32); };
  Ints steps(dims.rank(), 1);
  for (std::size_t i = dims.rank(); i-- > 1;) steps[i - 1] = steps[i] * dims[i].value();
  const std::string tuple = w.name(node.inputs[0]);
  const std::string wrapped = w.add("Add", {tuple, as_i32(w.ints(dims.values()))});
  const std::string index = w.add("Where", {w.add("Less", {tuple, w.number(0, DType::i32)}), wrapped, tuple});
  const std::string row = w.reduced("ReduceSum", w.add("Mul", {index, as_i32(w.ints(steps))}), {-1}, false);
  if (batches == 0) return row;
  if (!out.is_constant()) return unsupported("its sizes are symbolic");
  Ints firsts, shape;
  for (std::size_t i = 0; i < out.rank(); ++i) shape.push_back(i < batches ? out[i].value() : 1);
  const auto items = static_cast<std::int64_t>(out.elements(0, batches));
  for (std::int64_t i = 0; i < items; ++i) firsts.push_back(i * static_cast<std::int64_t>(dims.elements()));
  return w.add("Add", {row, as_i32(w.add("Reshape", {w.ints(firsts), w.ints(shape)}))});
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
    case Op::gather_elements: {
      GRAFT_TRY_ASSIGN(y, write_gather_elements(w, node));
      break;
    }
    case Op::scatter_elements: {
      const std::string reduction = a.text("reduction");
      if (reduction == "min" || reduction == "max") GRAFT_TRY(w.need_opset(18));
      GRAFT_TRY_ASSIGN(const std::string indices, line_indices(w, node, w.shape(node.inputs[2])));
      y = w.add("ScatterElements", {w.name(node.inputs[0]), indices, w.name(node.inputs[2])},
                {{"axis", a.integer("axis")}, {"reduction", reduction}});
      break;
    }
    case Op::nd_index: {
      GRAFT_TRY_ASSIGN(y, write_nd_index(w, node));
      break;
    }
    case Op::cumsum:
      y = w.add("CumSum", {w.name(node.inputs[0]), w.ints({a.integer("axis")})},
                {{"exclusive", a.integer("exclusive")}, {"reverse", a.integer("reverse")}});
      break;
    case Op::top_k: {  // graft's gives the indices alone
      const auto made = w.add_all("TopK", {w.name(node.inputs[0]), w.ints({a.integer("k")})}, 2,
                                  {{"axis", a.integer("axis")}, {"largest", std::int64_t{!a.flag("smallest")}}});
      y = w.cast(made[1], onnx::TensorProto::INT32);
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
      const std::string mode = a.text("mode");
      if (mode == "constant") inputs.push_back(w.number(a.number("value"), w.dtype(node.inputs[0])));
      y = w.add("Pad", inputs, {{"mode", mode}});
      break;
    }
    case Op::gather: {
      std::string table = w.name(node.inputs[0]);
      if (node.inputs.size() > 2) {  // it goes on in another
        table = w.add("Slice", {table, w.ints({0}), w.ints({a.integer("first_row")}), w.ints({0})});
        table = w.add("Concat", {table, w.name(node.inputs[2])}, {{"axis", std::int64_t{0}}});
      }
      y = w.add("Gather", {table, w.name(node.inputs[1])}, {{"axis", a.integer("axis")}});
      break;
    }
    default: return false;
  }
  w.is(node.outputs[0], y);
  return true;
}

}  // namespace graft::convert
