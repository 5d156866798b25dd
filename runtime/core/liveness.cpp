#include "runtime/core/liveness.h"

#include <numeric>

#include "runtime/core/op_def.h"

namespace graft {

std::vector<std::uint32_t> live_nodes(const Graph& graph) {
  std::vector<char> live(graph.nodes().size(), 0);
  std::vector<std::uint32_t> open;
  const auto need = [&](NodeId id) {
    if (!id.valid() || live[id.index] != 0) return;
    live[id.index] = 1;
    open.push_back(id.index);
  };
  for (const Output& output : graph.outputs()) need(graph.value(output.value).producer);
  for (std::uint32_t n = 0; n < graph.nodes().size(); ++n) {
    if (op_def(graph.nodes()[n].op).mutates != 0) need(NodeId{n});
  }
  while (!open.empty()) {
    const Node& node = graph.nodes()[open.back()];
    open.pop_back();
    for (const ValueId v : node.inputs) {
      if (v.valid()) need(graph.value(v).producer);
    }
  }
  std::vector<std::uint32_t> nodes;
  for (std::uint32_t n = 0; n < live.size(); ++n) {
    if (live[n] != 0) nodes.push_back(n);
  }
  return nodes;
}

std::vector<std::uint32_t> alias_roots(const Graph& graph) {
  std::vector<std::uint32_t> roots(graph.values().size());
  std::iota(roots.begin(), roots.end(), 0u);
  for (const Node& node : graph.nodes()) {
    const int alias = op_def(node.op).alias_input;
    if (alias >= 0) roots[node.outputs[0].index] = node.inputs[static_cast<std::size_t>(alias)].index;
  }
  for (std::uint32_t& root : roots) {
    while (roots[root] != root) root = roots[root];
  }
  return roots;
}

}  // namespace graft
