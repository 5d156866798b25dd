#include "runtime/reference/probe.h"

#include "runtime/autodiff/autodiff.h"

namespace graft {

Result<Probe> make_probe(Op op, const std::vector<ProbeInput>& inputs, const Attrs& attrs, std::size_t cotangents) {
  Probe probe;
  Graph& graph = probe.graph;
  std::vector<ValueId> ids;
  std::vector<ValueId> wrt;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    ids.push_back(kNoValue);
    if (inputs[i].missing) continue;
    const std::string name = cat("in", i);
    GRAFT_TRY_ASSIGN(ids.back(), graph.add_value(name, inputs[i].dtype, inputs[i].shape, inputs[i].kind));
    if (cotangents == 0 || !inputs[i].grad || !is_float(inputs[i].dtype)) continue;
    probe.wrt.push_back(name);
    wrt.push_back(ids.back());
  }
  GRAFT_TRY_ASSIGN(const NodeId node, graph.add_node(op, ids, attrs, "y"));
  std::vector<Target> targets;
  const std::vector<ValueId> outputs = graph.node(node).outputs;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Value value = graph.value(outputs[i]);
    graph.add_output(cat("out", i), outputs[i]);
    if (i >= cotangents || !is_float(value.dtype)) continue;
    const std::string name = cat("cotangent", i);
    GRAFT_TRY_ASSIGN(const ValueId cotangent, graph.add_value(name, value.dtype, value.shape, ValueKind::input));
    probe.weighted.emplace_back(value.name, name);
    targets.push_back({outputs[i], cotangent});
  }
  if (targets.empty()) probe.wrt.clear();
  if (probe.wrt.empty()) return probe;
  GRAFT_TRY_ASSIGN(const auto gradients, add_gradients(graph, targets, wrt));
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    probe.gradients.push_back(graph.value(gradients[i]).name);
    graph.add_output(cat("grad_", probe.wrt[i]), gradients[i]);
  }
  return probe;
}

}  // namespace graft
