#include "runtime/reference/interpreter.h"

#include "runtime/core/op_def.h"
#include "runtime/reference/forward.h"

namespace graft {
namespace {

Status check_feed(const Value& value, const RefTensors& tensors) {
  const auto found = tensors.find(value.name);
  if (found == tensors.end()) return error(Code::not_found, "The value \"", value.name, "\" is not given.");
  if (found->second.data.size() == value.shape.elements()) return ok_status();
  return invalid("The value \"", value.name, "\" is given ", found->second.data.size(), " elements; its shape ",
                 value.shape.text(), " has ", value.shape.elements(), ".");
}

template <typename Function>
Status interpret_by(const Function& function, const Graph& graph, RefTensors& tensors, const RefStepState& step_state) {
  for (const Value& value : graph.values()) {
    if (!value.shape.is_constant()) return invalid("The value \"", value.name, "\" has unbound dimensions.");
    if (value.kind != ValueKind::temporary) {
      GRAFT_TRY(check_feed(value, tensors));
      tensors.find(value.name)->second.dims = value.shape.values();
    } else {
      tensors[value.name] = {value.shape.values(), std::vector<double>(value.shape.elements(), 0.0)};
    }
  }
  for (const Node& node : graph.nodes()) {
    const auto tensor = [&](ValueId id) { return id.valid() ? &tensors.find(graph.value(id).name)->second : nullptr; };
    std::vector<RefTensor*> inputs;
    std::vector<RefTensor*> outputs;
    for (const ValueId id : node.inputs) inputs.push_back(tensor(id));
    for (const ValueId id : node.outputs) outputs.push_back(tensor(id));
    const RefFn reference = function(node.op);
    if (reference == nullptr) return unsupported("The op ", op_name(node.op), " has no reference.");
    RefContext context(graph, node, std::move(inputs), std::move(outputs), step_state);
    reference(context);
  }
  return ok_status();
}

}  // namespace

Status interpret(const Graph& graph, RefTensors& tensors, const RefStepState& step_state) {
  return interpret_by(ref_function, graph, tensors, step_state);
}

Status interpret_forward(const Graph& graph, RefTensors& tensors) {
  return interpret_by(forward_ref_function, graph, tensors, {});
}

}  // namespace graft
