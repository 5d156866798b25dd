#include "runtime/core/copy_graph.h"

#include "platform/base/text.h"

namespace graft {
namespace {

Status copy_node(const Graph& source, const Node& node, const AdaptNode& adapt, GraphCopy& copy) {
  std::vector<ValueId> inputs;
  for (const ValueId input : node.inputs) inputs.push_back(input.valid() ? copy.values[input.index] : kNoValue);
  Attrs attrs = node.attrs;
  GRAFT_TRY(adapt(copy.graph, node, inputs, attrs));
  std::vector<std::string> names;
  for (const ValueId output : node.outputs) names.push_back(source.value(output).name);
  GRAFT_TRY_ASSIGN(const NodeId id,
                   copy.graph.add_node(node.op, std::move(inputs), std::move(attrs), node.name, names));
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const ValueId output = copy.graph.node(id).outputs[i];
    copy.values[node.outputs[i].index] = output;
    copy.graph.mutable_value(output).source_perm = source.value(node.outputs[i]).source_perm;
    copy.graph.mutable_value(output).source_type = source.value(node.outputs[i]).source_type;
  }
  return {};
}

}  // namespace

Result<GraphCopy> copy_graph(const Graph& source, const AdaptNode& adapt, const AdaptValue& adapt_value) {
  GraphCopy copy;
  copy.values.assign(source.values().size(), kNoValue);
  for (std::uint32_t i = 0; i < source.values().size(); ++i) {
    const Value& value = source.value({i});
    if (value.kind == ValueKind::temporary) continue;
    GRAFT_TRY_ASSIGN(copy.values[i], adapt_value ? adapt_value(copy.graph, value) : copy.graph.add_value_like(value));
  }
  for (const Node& node : source.nodes()) {
    GRAFT_TRY(copy_node(source, node, adapt, copy).with_context(cat("In the node \"", node.name, "\"")));
  }
  return copy;
}

}  // namespace graft
