#include <set>

#include "runtime/core/node_check.h"

namespace graft {
namespace {

Status validate_values(const Graph& graph) {
  for (const Value& value : graph.values()) {
    const std::string context = cat("In the value \"", value.name, "\"");
    GRAFT_TRY(check_shape(value.shape).with_context(context));
    GRAFT_TRY(check_storage(value).with_context(context));
    if ((value.kind == ValueKind::temporary) != value.producer.valid()) {
      return invalid(context, ": its kind and its producer contradict each other.");
    }
    if (value.source_perm.empty()) continue;
    std::uint32_t seen = 0;
    for (const std::uint8_t axis : value.source_perm) seen |= axis < 32 ? 1u << axis : 0u;
    if (value.source_perm.size() != value.shape.rank() || seen != (1u << value.shape.rank()) - 1) {
      return invalid(context, ": its source axes are not a permutation of its ", value.shape.rank(), " axes.");
    }
  }
  return ok_status();
}

Status validate_node(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  GRAFT_TRY(check_node(graph, node));
  for (const ValueId input : node.inputs) {
    if (!input.valid()) continue;
    const NodeId producer = graph.value(input).producer;
    if (producer.valid() && producer >= id) {
      return invalid("It uses \"", graph.value(input).name, "\" before that value is produced.");
    }
  }
  if (node.forward_of.valid() && node.forward_of >= id) return invalid("Its forward node does not stand before it.");
  GRAFT_TRY_ASSIGN(const auto inferred, infer_node(graph, node));
  if (inferred.size() != node.outputs.size()) {
    return invalid("It has ", node.outputs.size(), " outputs; ", inferred.size(), " are expected.");
  }
  for (std::size_t i = 0; i < inferred.size(); ++i) {
    if (!node.outputs[i].valid() || node.outputs[i].index >= graph.values().size()) {
      return invalid("Its output ", i, " names no value.");
    }
    const Value& value = graph.value(node.outputs[i]);
    if (value.producer != id) return invalid("Its output \"", value.name, "\" names another producer.");
    if (value.dtype != inferred[i].dtype || value.shape != inferred[i].shape) {
      return invalid("Its output \"", value.name, "\" is stated as ", dtype_name(value.dtype), value.shape.text(),
                     "; it is ", dtype_name(inferred[i].dtype), inferred[i].shape.text(), ".");
    }
  }
  return ok_status();
}

}  // namespace

Status validate(const Graph& graph) {
  GRAFT_TRY(validate_values(graph));
  std::set<ValueId> produced;
  for (std::uint32_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    GRAFT_TRY(validate_node(graph, {i}).with_context(cat("In the node \"", node.name, "\"")));
    for (const ValueId output : node.outputs) {
      if (!produced.insert(output).second) {
        return invalid("In the node \"", node.name, "\": its output \"", graph.value(output).name,
                       "\" is produced twice.");
      }
    }
  }
  for (const Output& output : graph.outputs()) {
    if (!output.value.valid() || output.value.index >= graph.values().size()) {
      return invalid("The output \"", output.name, "\" names no value.");
    }
  }
  return ok_status();
}

}  // namespace graft
