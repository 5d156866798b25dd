// Replacing symbols: the graph is rebuilt node by node, so that every shape is inferred anew.
#include "runtime/passes/bind.h"

#include <algorithm>
#include <limits>

#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/ops/window.h"

namespace graft {
namespace {

constexpr std::int64_t kToEnd = std::numeric_limits<std::int32_t>::max();

/// Of a slice along what was a symbol: places that count from its end, or were symbols, as numbers. What lies beyond
/// the axis is cut off, as ONNX and NumPy do.
void number_slice(Attrs& attrs, const Shape& x) {
  Ints starts = attrs.integers("starts"), ends = attrs.integers("ends");
  const Ints steps = attrs.integers("steps");
  if (starts.size() != x.rank() || ends.size() != x.rank() || steps.size() != x.rank()) return;  // inference says so
  const auto open = [&](const char* name) { return attrs.has(name) ? attrs.shape(name) : Shape(); };
  const Shape begins = open("begins"), stops = open("stops");
  const auto put = [&](const Shape& places, std::size_t axis, Ints& into) {
    if (places.rank() == x.rank() && places[axis].value() != kToEnd) into[axis] = places[axis].value();
  };
  for (std::size_t axis = 0; axis < x.rank(); ++axis) {
    if (steps[axis] < 1) continue;
    const std::int64_t size = x[axis].value();
    put(begins, axis, starts);
    put(stops, axis, ends);
    if (starts[axis] < 0) starts[axis] += size;
    if (ends[axis] < 0) ends[axis] += size;
    starts[axis] = std::clamp<std::int64_t>(starts[axis], 0, size);
    if (ends[axis] != kToEnd) ends[axis] = std::clamp<std::int64_t>(ends[axis], starts[axis], size);
  }
  attrs.set("starts", std::move(starts));
  attrs.set("ends", std::move(ends));
  attrs.erase("begins");
  attrs.erase("stops");
}

void number_resize(Attrs& attrs) {
  if (!attrs.has("to")) return;
  attrs.set("sizes", attrs.shape("to").values());
  attrs.erase("to");
}

/// Of a window over images x [N, H, W, C] whose pads were to follow from its sizes.
void number_same(Attrs& attrs, const Shape& x, const Ints& kernel) {
  const auto same = read_same(attrs);
  if (!attrs.has("same") || !same.ok() || x.rank() != 4 || kernel.size() != 2) return;  // inference says so
  Ints pads = attrs.integers("pads");
  const Ints strides = attrs.integers("strides"), dilations = attrs.integers("dilations");
  pads.resize(4, 0);
  for (std::size_t axis = 0; axis < 2; ++axis) {
    if ((*same)[axis] == Same::no) continue;
    const std::int64_t stride = strides.size() == 2 ? std::max<std::int64_t>(strides[axis], 1) : 1;
    const std::int64_t extent = (kernel[axis] - 1) * (dilations.size() == 2 ? dilations[axis] : 1) + 1;
    const auto [before, behind] = same_pads((*same)[axis], x[axis + 1].value(), extent, stride);
    pads[axis] = before;
    pads[axis + 2] = behind;
  }
  attrs.set("pads", std::move(pads));
  attrs.erase("same");
}

Result<Attrs> bind(const Attrs& attrs, const Bindings& bindings) {
  Attrs out;
  for (const auto& [name, value] : attrs.items()) {
    if (const Shape* shape = std::get_if<Shape>(&value)) {
      GRAFT_TRY_ASSIGN(Shape bound, graft::bind(*shape, bindings));
      out.set(name, std::move(bound));
    } else {
      out.set(name, value);
    }
  }
  return out;
}

/// Ops whose results are as large as their inputs, broadcast: binary ones and a choice.
bool broadcasts(Op op) {
  constexpr auto number = [](Op of) { return static_cast<int>(of); };
  static_assert(number(Op::unary_grad) + 1 == number(Op::add) && number(Op::shift_right) + 1 == number(Op::binary_grad),
                "the family's line in ops.list");
  return op == Op::where || (op >= Op::add && op <= Op::shift_right);
}

/// Open sizes of such an op that were taken for one (see one_size()) are one with these numbers, too. Inferring
/// again would let a 1 pass, which broadcasts: but what the model says of the result was not meant so.
Status check_one_size(const Graph& open, const Node& node, const Graph& bound, const Node& made) {
  if (!broadcasts(node.op)) return ok_status();
  const Shape& meant = open.value(node.outputs[0]).shape;
  const Shape& result = bound.value(made.outputs[0]).shape;
  for (std::size_t back = 1; back <= meant.rank(); ++back) {
    bool taken_for_one = false, fits = true;
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      if (!node.inputs[k].valid()) continue;
      const Shape& in = open.value(node.inputs[k]).shape;
      if (back > in.rank() || in[in.rank() - back] == Dim(1)) continue;
      taken_for_one |= in[in.rank() - back] != meant[meant.rank() - back];
      fits &= bound.value(made.inputs[k]).shape[in.rank() - back] == result[result.rank() - back];
    }
    if (fits || !taken_for_one) continue;
    return invalid("With these sizes the inputs of the node \"", node.name, "\" (", op_name(node.op),
                   ") do not fit each other: sizes that are to be one are 1 and ", result[result.rank() - back].text(),
                   ".");
  }
  return ok_status();
}

}  // namespace

Result<Graph> bind(const Graph& graph, const Bindings& bindings) {
  for (const auto& [name, size] : bindings) {
    if (size < 1) return invalid("The dimension \"", name, "\" is bound to ", size, "; it must be at least 1.");
  }
  Graph out;
  std::vector<ValueId> map(graph.values().size(), kNoValue);
  for (std::uint32_t i = 0; i < graph.values().size(); ++i) {
    const Value& value = graph.values()[i];
    if (value.kind == ValueKind::temporary) continue;
    GRAFT_TRY_ASSIGN(Shape shape, bind(value.shape, bindings));
    for (std::size_t axis = 0; axis < shape.rank(); ++axis) {
      if (shape[axis].is_constant()) continue;
      return invalid("The value \"", value.name, "\" has the shape ", shape.text(),
                     "; bind each name to a size, as in ", shape[axis].names().front(), "=32.");
    }
    GRAFT_TRY_ASSIGN(map[i], out.add_value(value.name, value.dtype, std::move(shape), value.kind));
    out.mutable_value(map[i]).source_perm = value.source_perm;
    out.mutable_value(map[i]).source_type = value.source_type;
    out.mutable_value(map[i]).contents = value.contents;
  }
  for (const Node& node : graph.nodes()) {
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(input.valid() ? map[input.index] : kNoValue);
    GRAFT_TRY_ASSIGN(Attrs attrs, bind(node.attrs, bindings));
    if (node.op == Op::slice) number_slice(attrs, out.value(inputs[0]).shape);
    if (node.op == Op::resize) number_resize(attrs);
    if (node.op == Op::conv) {
      const Shape& weight = out.value(inputs[1]).shape;
      if (weight.rank() == 4) {
        number_same(attrs, out.value(inputs[0]).shape, {weight[1].value(), weight[2].value()});
      }
    }
    if (node.op == Op::max_pool || node.op == Op::avg_pool) {
      number_same(attrs, out.value(inputs[0]).shape, attrs.integers("kernel"));
    }
    std::vector<std::string> names;
    for (const ValueId output : node.outputs) names.push_back(graph.value(output).name);
    GRAFT_TRY_ASSIGN(const NodeId id, out.add_node(node.op, std::move(inputs), std::move(attrs), node.name, names));
    out.mutable_node(id).forward_of = node.forward_of;
    GRAFT_TRY(check_one_size(graph, node, out, out.node(id)));
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      map[node.outputs[i].index] = out.node(id).outputs[i];
      out.mutable_value(out.node(id).outputs[i]).source_perm = graph.value(node.outputs[i]).source_perm;
      out.mutable_value(out.node(id).outputs[i]).source_type = graph.value(node.outputs[i]).source_type;
    }
  }
  for (const Output& output : graph.outputs()) out.add_output(output.name, map[output.value.index]);
  return out;
}

}  // namespace graft
