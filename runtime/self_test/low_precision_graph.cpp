#include "runtime/self_test/low_precision_graph.h"

#include "platform/base/half.h"
#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/passes/precision.h"

namespace graft {
namespace {

// A copy that is never fused (a slice of everything, unless the value is a scalar), so that the kernels beside it are
// those of the unfused graph.
Result<ValueId> add_copy(Graph& graph, ValueId v, const std::string& node, const std::vector<std::string>& names) {
  const Ints ends = graph.value(v).shape.values();
  const Attrs all = {{"starts", Ints(ends.size(), 0)}, {"ends", ends}, {"steps", Ints(ends.size(), 1)}};
  const Attrs same = {{"alpha", 1.0}, {"beta", 0.0}};
  const bool scalar = ends.empty();
  GRAFT_TRY_ASSIGN(const NodeId id,
                   graph.add_node(scalar ? Op::affine : Op::slice, {v}, scalar ? same : all, node, names));
  return graph.node(id).outputs[0];
}

Status add_values(const Graph& from, DType storage, Graph& to, std::vector<ValueId>& map) {
  for (std::uint32_t v = 0; v < from.values().size(); ++v) {
    const Value& value = from.values()[v];
    if (value.kind == ValueKind::temporary) continue;
    GRAFT_TRY_ASSIGN(map[v], to.add_value(value.name, value.dtype, value.shape, value.kind));
    if (value.kind != ValueKind::input || value.dtype != DType::f32) continue;
    GRAFT_TRY_ASSIGN(map[v], add_copy(to, map[v], "stored/" + value.name, {}));
    to.mutable_value(map[v]).storage = storage;
  }
  return ok_status();
}

}  // namespace

Result<Graph> keep_low_precision(const Graph& from, DType storage) {
  Graph to;
  std::vector<ValueId> map(from.values().size(), kNoValue);
  GRAFT_TRY(add_values(from, storage, to, map));
  for (const Node& node : from.nodes()) {
    std::vector<ValueId> inputs;
    for (const ValueId v : node.inputs) inputs.push_back(v.valid() ? map[v.index] : kNoValue);
    std::vector<std::string> names;
    for (const ValueId v : node.outputs) {
      const Value& value = from.value(v);
      names.push_back(value.dtype == DType::f32 ? "kept/" + value.name : value.name);
    }
    GRAFT_TRY_ASSIGN(const NodeId id, to.add_node(node.op, inputs, Attrs(node.attrs), node.name, names));
    const int alias = op_def(node.op).alias_input;
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId made = to.node(id).outputs[i];
      map[node.outputs[i].index] = made;
      Value& value = to.mutable_value(made);
      if (value.dtype != DType::f32) continue;
      if (!passes::wide_output(node.op, i, node.forward_of.valid()).empty()) continue;
      const bool view = alias >= 0 && i == 0;
      value.storage = view ? to.value(inputs[static_cast<std::size_t>(alias)]).storage : storage;
    }
  }
  for (const Output& output : from.outputs()) {
    ValueId v = map[output.value.index];
    const Value& value = from.value(output.value);
    if (value.kind != ValueKind::temporary) {
      v = to.find_value(value.name);
    } else if (value.dtype == DType::f32) {
      GRAFT_TRY_ASSIGN(v, add_copy(to, v, "wide/" + output.name, {value.name}));
    }
    to.add_output(output.name, v);
  }
  return to;
}

double rounded_to(DType storage, double x) {
  const auto value = static_cast<float>(x);
  return storage == DType::f16 ? half_to_float(float_to_half(value)) : bfloat_to_float(float_to_bfloat(value));
}

}  // namespace graft
