// Reshapes and transposes in a row, as exporters and rules leave them.
#include "runtime/core/op_def.h"
#include "runtime/passes/passes.h"

namespace graft::passes {
namespace {

/// Whether a transpose moves only axes of size 1, so that the elements stay in their order.
bool keeps_order(const Shape& x, const Ints& perm) {
  std::int64_t last = -1;
  for (const std::int64_t axis : perm) {
    if (x[static_cast<std::size_t>(axis)] == Dim(1)) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

class MoveMerger {
 public:
  explicit MoveMerger(const PassGraph& in) : rewriter_(in) {}

  Result<PassGraph> run() {
    for (const Node& node : rewriter_.source().nodes()) {
      const bool move = node.op == Op::reshape || node.op == Op::transpose;
      if (!move || rewriter_.is_pinned(node.outputs[0])) {
        GRAFT_TRY(rewriter_.copy(node));
      } else {
        GRAFT_TRY(node.op == Op::reshape ? reshape(node) : transpose(node));
      }
    }
    return rewriter_.finish();
  }

 private:
  /// The node behind input 0 in the copy, where it is of this op and may be passed by.
  const Node* before(const Node& node, Op op) {
    if (rewriter_.is_pinned(node.inputs[0])) return nullptr;
    const NodeId producer = rewriter_.graph().value(rewriter_.at(node.inputs[0])).producer;
    if (!producer.valid() || rewriter_.graph().node(producer).op != op) return nullptr;
    return &rewriter_.graph().node(producer);
  }

  /// The result is `x`, reshaped where need be. An output stays a value of its own: it may be an input's name
  /// otherwise.
  Status reshaped(const Node& node, ValueId x) {
    const ValueId y = node.outputs[0];
    const Shape shape = rewriter_.value(y).shape;
    const bool own = rewriter_.is_output(y) && !rewriter_.graph().value(x).producer.valid();
    if (rewriter_.graph().value(x).shape == shape && !own) {
      rewriter_.replace(y, x);
      return {};
    }
    return rewriter_.replace(y, Op::reshape, {x}, {{"shape", shape}});
  }

  Status reshape(const Node& node) {
    const Node* view = before(node, Op::reshape);
    return reshaped(node, view != nullptr ? view->inputs[0] : rewriter_.at(node.inputs[0]));
  }

  Status transpose(const Node& node) {
    Ints perm = node.attrs.integers("perm");
    ValueId x = rewriter_.at(node.inputs[0]);
    if (const Node* first = before(node, Op::transpose)) {
      const Ints inner = first->attrs.integers("perm");
      for (std::int64_t& axis : perm) axis = inner[static_cast<std::size_t>(axis)];
      x = first->inputs[0];
    }
    const Shape shape = rewriter_.graph().value(x).shape;
    if (!keeps_order(shape, perm)) return rewriter_.replace(node.outputs[0], Op::transpose, {x}, {{"perm", perm}});
    if (const Node* view = before(node, Op::reshape); view != nullptr && x == rewriter_.at(node.inputs[0])) {
      x = view->inputs[0];
    }
    return reshaped(node, x);
  }

  Rewriter rewriter_;
};

}  // namespace

Result<PassGraph> merge_moves(const PassGraph& graph, const PrepareOptions&) { return MoveMerger(graph).run(); }

}  // namespace graft::passes
