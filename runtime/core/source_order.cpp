#include "runtime/core/source_order.h"

namespace graft {

Shape source_shape(const Value& value) {
  if (value.source_perm.empty()) return value.shape;
  std::vector<Dim> dims(value.shape.rank());
  for (std::size_t i = 0; i < dims.size(); ++i) dims[value.source_perm[i]] = value.shape[i];
  return Shape(std::move(dims));
}

Result<ValueId> to_source_order(Graph& graph, ValueId value, const SourcePerm& perm) {
  if (perm.empty()) return value;
  // Source axis perm[i] is graft's axis i, so output axis a comes from the i with perm[i] = a.
  Ints axes(perm.size());
  for (std::size_t i = 0; i < perm.size(); ++i) axes[perm[i]] = static_cast<std::int64_t>(i);
  GRAFT_TRY_ASSIGN(const NodeId node, graph.add_node(Op::transpose, {value}, {{"perm", axes}}, "to_source"));
  return graph.node(node).outputs[0];
}

}  // namespace graft
