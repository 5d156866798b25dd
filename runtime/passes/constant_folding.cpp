#include "runtime/passes/constant_folding.h"

#include <algorithm>

#include "platform/base/stable_sort.h"
#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/passes/rewriter.h"

namespace graft::passes {
namespace {

bool is_weight(const Value& value) {
  return value.kind == ValueKind::constant || value.kind == ValueKind::parameter || value.kind == ValueKind::state;
}

/// Part of a graph: the nodes that one value is made of, and the weights that they begin with.
struct Cone {
  std::vector<NodeId> nodes;  ///< in their order
  std::vector<ValueId> weights;
  bool computes = false;  ///< it holds more than views
  bool is_f32 = true;
};

class Folder {
 public:
  explicit Folder(const Graph& graph)
      : graph_(graph), fixed_(depends_on_weights_alone(graph)), needed_(graph.values().size()) {
    for (const Output& output : graph.outputs()) needed_[output.value.index] = true;
    for (const Node& node : graph.nodes()) {
      if (!node.outputs.empty() && fixed_[node.outputs[0].index]) continue;
      for (const ValueId v : node.inputs) {
        if (v.valid()) needed_[v.index] = true;
      }
    }
  }

  Result<FoldedGraph> run(const MayFold& may) {
    const PassGraph source(graph_);
    Rewriter rewriter(source);
    FoldedGraph folded;
    for (const Node& node : graph_.nodes()) {
      const bool root = node.outputs.size() == 1 && fixed_[node.outputs[0].index] && needed_[node.outputs[0].index];
      const Cone cone = root ? cone_of(node.outputs[0]) : Cone{};
      if (!root || !pays(cone, node.outputs[0])) {
        GRAFT_TRY(rewriter.copy(node));
        continue;
      }
      const Value& value = graph_.value(node.outputs[0]);
      GRAFT_TRY_ASSIGN(Graph graph, graph_of(cone, node.outputs[0]));
      FoldedConstant constant{value.name, std::move(graph)};
      if (may && !may(constant)) {
        GRAFT_TRY(rewriter.copy(node));
        continue;
      }
      GRAFT_TRY_ASSIGN(const ValueId made,
                       rewriter.graph().add_value(value.name, value.dtype, value.shape, ValueKind::constant));
      rewriter.replace(node.outputs[0], made);
      folded.constants.push_back(std::move(constant));
    }
    GRAFT_TRY_ASSIGN(PassGraph rest, rewriter.finish());
    folded.graph = std::move(rest.graph);
    return folded;
  }

 private:
  Cone cone_of(ValueId root) const {
    Cone cone;
    std::vector<bool> inside(graph_.values().size());
    inside[root.index] = true;
    for (std::size_t n = graph_.value(root).producer.index + 1; n-- > 0;) {
      const Node& node = graph_.nodes()[n];
      if (node.outputs.empty() || !inside[node.outputs[0].index]) continue;
      cone.nodes.insert(cone.nodes.begin(), NodeId{static_cast<std::uint32_t>(n)});
      cone.computes = cone.computes || op_def(node.op).alias_input < 0;
      for (const ValueId v : node.inputs) {
        if (!v.valid() || inside[v.index]) continue;
        inside[v.index] = true;
        if (is_weight(graph_.value(v))) cone.weights.push_back(v);
      }
    }
    graft::stable_sort(cone.weights);
    for (const ValueId v : cone.weights) cone.is_f32 = cone.is_f32 && graph_.value(v).dtype == DType::f32;
    return cone;
  }

  bool pays(const Cone& cone, ValueId root) const {
    const Value& value = graph_.value(root);
    if (!cone.computes || !cone.is_f32 || value.dtype != DType::f32) return false;
    std::uint64_t freed = 0;
    for (const ValueId v : cone.weights) {
      if (!needed_[v.index]) freed += graph_.value(v).shape.elements();
    }
    return value.shape.elements() <= freed;
  }

  Result<Graph> graph_of(const Cone& cone, ValueId root) const {
    Graph out;
    std::vector<ValueId> map(graph_.values().size(), kNoValue);
    for (const ValueId v : cone.weights) {
      GRAFT_TRY_ASSIGN(map[v.index], out.add_value_like(graph_.value(v)));
    }
    for (const NodeId id : cone.nodes) {
      const Node& node = graph_.node(id);
      std::vector<ValueId> inputs;
      std::vector<std::string> names;
      for (const ValueId v : node.inputs) inputs.push_back(v.valid() ? map[v.index] : kNoValue);
      for (const ValueId v : node.outputs) names.push_back(graph_.value(v).name);
      GRAFT_TRY_ASSIGN(const NodeId made, out.add_node(node.op, std::move(inputs), node.attrs, node.name, names));
      for (std::size_t i = 0; i < node.outputs.size(); ++i) map[node.outputs[i].index] = out.node(made).outputs[i];
    }
    out.add_output(graph_.value(root).name, map[root.index]);
    return out;
  }

  const Graph& graph_;
  std::vector<bool> fixed_;
  std::vector<bool> needed_;  // by value: it is an output, or read by what runs each time
};

}  // namespace

std::vector<bool> depends_on_weights_alone(const Graph& graph) {
  std::vector<bool> fixed(graph.values().size());
  for (std::size_t v = 0; v < fixed.size(); ++v) fixed[v] = is_weight(graph.values()[v]);
  for (const Node& node : graph.nodes()) {
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const bool changes = node.op == Op::lora || (i < 32 && (op_def(node.op).mutates >> i & 1) != 0);
      if (changes && node.inputs[i].valid()) fixed[node.inputs[i].index] = false;
    }
  }
  for (const Node& node : graph.nodes()) {
    bool from_weights = !node.inputs.empty() && !op_def(node.op).uses_step_state && op_def(node.op).mutates == 0;
    for (const ValueId v : node.inputs) from_weights = from_weights && (!v.valid() || fixed[v.index]);
    for (const ValueId v : node.outputs) fixed[v.index] = from_weights;
  }
  return fixed;
}

Result<FoldedGraph> fold_constants(const Graph& graph, const MayFold& may) { return Folder(graph).run(may); }

}  // namespace graft::passes
