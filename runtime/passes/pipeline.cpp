#include "runtime/passes/pipeline.h"

#include "platform/base/text.h"
#include "runtime/core/graph_text.h"
#include "runtime/passes/passes.h"

namespace graft::passes {
namespace {

struct Entry {
  std::string_view name;
  Pass run;
};

constexpr Entry kPasses[] = {
    {"merge moves", merge_moves},
    {"slices first", slices_first},
    {"share equal nodes", share_equal},
    {"constant arithmetic", constant_arithmetic},
    {"activations", canonicalise_activations},
    {"softmax", canonicalise_softmax},
    {"norms", canonicalise_norms},
    {"group norm", canonicalise_group_norm},
    {"linear", canonicalise_linear},
    {"rotary embedding", canonicalise_rope},
    {"attention", canonicalise_attention},
    {"gated MLP", canonicalise_gated},
    {"merge moves", merge_moves},
    {"choose layouts", choose_layouts},
    {"merge moves", merge_moves},
};

}  // namespace

Result<Prepared> prepare(const Graph& graph, const std::vector<ValueId>& pinned, const PrepareOptions& options) {
  PassGraph current(graph);
  for (const ValueId v : pinned) current.pin(v);
  Prepared prepared;
  for (const Entry& entry : kPasses) {
    PassNote note{entry.name, current.graph.nodes().size(), 0, {}};
    auto next = entry.run(current, options);
    if (!next.ok()) return std::move(next).status().with_context(cat("In the pass \"", entry.name, "\""));
    current = std::move(next).value();
    note.nodes_after = current.graph.nodes().size();
    if (options.keep_text) note.text = graph_text(current.graph);
    prepared.notes.push_back(std::move(note));
  }
  prepared.graph = std::move(current.graph);
  prepared.values = std::move(current.values);
  return prepared;
}

}  // namespace graft::passes
