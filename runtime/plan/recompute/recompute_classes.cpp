#include <algorithm>
#include <map>
#include <string>

#include "platform/base/status.h"
#include "runtime/core/op_def.h"
#include "runtime/plan/recompute/recompute_search.h"

namespace graft {
namespace {

/// Numbers equal keys alike, in the order in which they come.
class Numbers {
 public:
  std::uint32_t of(std::string key) {
    return numbers_.try_emplace(std::move(key), static_cast<std::uint32_t>(numbers_.size())).first->second;
  }

 private:
  std::map<std::string, std::uint32_t> numbers_;
};

}  // namespace

RecomputeClasses find_recompute_classes(const RecomputeGraph& graph) {
  const Graph& nodes = graph.graph();
  std::vector<std::uint32_t> kind(nodes.nodes().size(), 0);
  Numbers kinds;
  for (const NodeId id : graph.joint_order()) {
    const Node& node = nodes.node(id);
    std::string key(op_name(node.op));
    for (const ValueId v : node.outputs)
      key += cat(";", nodes.value(v).shape.text(), dtype_name(nodes.value(v).storage));
    kind[id.index] = kinds.of(std::move(key));
  }
  std::vector<std::vector<std::uint32_t>> readers(nodes.values().size());  // kinds, of roots
  for (const NodeId id : graph.joint_order()) {
    for (const ValueId v : graph.joint_inputs(id)) {
      if (v.valid() && v.index < graph.joint_values()) readers[graph.root(v.index)].push_back(kind[id.index]);
    }
  }
  std::map<std::string, std::size_t> number;
  RecomputeClasses classes;
  for (std::size_t c = 0; c < graph.candidates().size(); ++c) {
    const std::uint32_t v = graph.candidates()[c];
    const NodeId maker = nodes.values()[v].producer;
    const Node& node = nodes.node(maker);
    std::string key = cat(kind[maker.index], graph.saved(c) ? "s" : "");
    for (std::size_t o = 0; o < node.outputs.size(); ++o) key += node.outputs[o].index == v ? cat("#", o) : "";
    for (const ValueId in : graph.joint_inputs(maker)) {
      const NodeId before = in.valid() ? nodes.value(in).producer : kNoNode;
      key += before.valid() ? cat("<", kind[before.index]) : "<";
    }
    std::sort(readers[v].begin(), readers[v].end());
    for (const std::uint32_t reader : readers[v]) key += cat(">", reader);
    const auto [at, fresh] = number.try_emplace(std::move(key), classes.size());
    if (fresh) classes.emplace_back();
    classes[at->second].push_back(c);
  }
  return classes;
}

}  // namespace graft
