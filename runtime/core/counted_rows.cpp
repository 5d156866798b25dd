#include "runtime/core/counted_rows.h"

#include <vector>

#include "runtime/core/op_id.gen.h"

namespace graft {

Status check_no_counted_rows(const Graph& graph, ValueId value) {
  std::vector<bool> seen(graph.values().size());
  std::vector<ValueId> open = {value};
  while (!open.empty()) {
    const ValueId at = open.back();
    open.pop_back();
    if (!at.valid() || seen[at.index]) continue;
    seen[at.index] = true;
    const NodeId producer = graph.value(at).producer;
    if (!producer.valid()) continue;
    const Node& node = graph.node(producer);
    if (node.op == Op::compact) {
      return unsupported("\"", graph.value(value).name, "\" is as long as the data decide (by the node \"", node.name,
                         "\"), so that rows which are not there would be trained on; take a value before that.");
    }
    open.insert(open.end(), node.inputs.begin(), node.inputs.end());
  }
  return ok_status();
}

}  // namespace graft
