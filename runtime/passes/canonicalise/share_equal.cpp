// Nodes that compute the same from the same become one: exporters write x - mean(x) or exp(x) wherever code says it.
#include <cstring>
#include <map>

#include "runtime/core/graph_text.h"
#include "runtime/core/op_def.h"
#include "runtime/passes/passes.h"

namespace graft::passes {
namespace {

/// What two nodes must have in common: op, inputs and attributes.
std::string key_of(const Rewriter& r, const Node& node) {
  std::string key(op_name(node.op));
  for (const ValueId input : node.inputs) key += cat(" ", input.valid() ? cat(r.at(input).index) : "_");
  return cat(key, " ", attrs_text(node.attrs));
}

/// Small constants with the same contents are one too: each use of a number has its own in most files.
class Constants {
 public:
  explicit Constants(const Graph& graph) : graph_(graph) {}

  /// The first value with these contents, v itself where it is the first.
  ValueId first_equal(ValueId v) {
    constexpr std::size_t kMaxBytes = 64;
    const Value& value = graph_.value(v);
    if (value.kind != ValueKind::constant || value.contents.empty() || value.contents.size() > kMaxBytes) return v;
    std::string key = cat(dtype_name(value.dtype), value.shape.text());
    key.append(reinterpret_cast<const char*>(value.contents.data()), value.contents.size());
    return first_.emplace(std::move(key), v).first->second;
  }

 private:
  const Graph& graph_;
  std::map<std::string, ValueId> first_;
};

}  // namespace

Result<PassGraph> share_equal(const PassGraph& graph, const PrepareOptions&) {
  Rewriter r(graph);
  Constants constants(graph.graph);
  for (std::uint32_t v = 0; v < graph.graph.values().size(); ++v) {
    const ValueId first = constants.first_equal({v});
    if (first != ValueId{v} && r.may_vanish({v}) && r.may_vanish(first)) r.replace({v}, r.at(first));
  }
  std::map<std::string, std::vector<ValueId>> made;
  for (const Node& node : graph.graph.nodes()) {
    const OpDef& def = op_def(node.op);
    bool alone = def.mutates != 0 || def.uses_step_state;
    for (const ValueId v : node.outputs) alone = alone || !r.may_vanish(v);
    if (alone) {
      GRAFT_TRY(r.copy(node));
      continue;
    }
    const auto [found, first] = made.try_emplace(key_of(r, node));
    if (first) {
      GRAFT_TRY(r.copy(node));
      found->second = r.at(node.outputs);
      continue;
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i) r.replace(node.outputs[i], found->second[i]);
  }
  return r.finish();
}

}  // namespace graft::passes
