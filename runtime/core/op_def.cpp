#include "runtime/core/op_def.h"

#include "runtime/core/op_id.gen.h"

namespace graft {

const OpDef* find_op(std::string_view name, Op* op) {
  for (std::uint16_t i = 0; i < static_cast<std::uint16_t>(Op::count_); ++i) {
    const OpDef& def = op_def(static_cast<Op>(i));
    if (def.name != name) continue;
    if (op != nullptr) *op = static_cast<Op>(i);
    return &def;
  }
  return nullptr;
}

std::uint32_t inplace_inputs(const Graph& graph, const Node& node, std::size_t output) {
  const OpDef& def = op_def(node.op);
  if (def.inplace != nullptr) return def.inplace(graph, node, output);
  return output == 0 ? def.inplace_inputs : 0;
}

}  // namespace graft
