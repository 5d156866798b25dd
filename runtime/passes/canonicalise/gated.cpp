// The middle of a gated feed-forward layer: silu(gate) * up, or a gelu.
#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/passes/match.h"
#include "runtime/passes/passes.h"

namespace graft::passes {
namespace {

Result<bool> gated(Rewriter& r, const Match& m, const Node& node) {
  if (node.op != Op::mul) return false;
  const ValueId v = node.outputs[0];
  for (const std::size_t i : {0, 1}) {
    const ValueId active = node.inputs[i];
    const ValueId up = node.inputs[1 - i];
    const Node* activation = r.is_inner(active) ? r.producer(active) : nullptr;
    if (activation == nullptr || m.shape(active) != m.shape(up)) continue;
    std::string name = "silu";
    if (activation->op == Op::gelu) {
      name = activation->attrs.text("approximate") == "tanh" ? "gelu_tanh" : "gelu";
    } else if (activation->op != Op::silu) {
      continue;
    }
    GRAFT_TRY(r.replace(v, Op::gated, {r.at(activation->inputs[0]), r.at(up)}, {{"activation", name}}));
    return true;
  }
  return false;
}

constexpr Rule kRules[] = {gated};

}  // namespace

Result<PassGraph> canonicalise_gated(const PassGraph& graph, const PrepareOptions&) {
  return apply_rules(graph, kRules);
}

}  // namespace graft::passes
