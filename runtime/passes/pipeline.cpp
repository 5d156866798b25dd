#include "runtime/passes/pipeline.h"

#include <map>

#include "platform/base/cancel.h"
#include "platform/base/text.h"
#include "runtime/core/built_ops.gen.h"
#include "runtime/core/graph_text.h"
#include "runtime/passes/passes.h"

namespace graft::passes {
namespace {

struct Entry {
  std::string_view name;
  Pass run;  ///< null where this build has none of the ops that it makes or needs
};

/// So that what a pass makes of a graph is left out together with the ops that it would make.
template <Op... ops>
constexpr Pass where_built(Pass pass) {
  return (is_built(ops) || ...) ? pass : nullptr;
}

constexpr Entry kPasses[] = {
    {"contractions", canonicalise_contractions},
    {"merge moves", merge_moves},
    {"slices first", slices_first},
    {"share equal nodes", share_equal},
    {"fake quantization", where_built<Op::fake_quantize>(fake_quantization)},
    {"constant arithmetic", constant_arithmetic},
    {"activations",
     where_built<Op::gelu, Op::silu, Op::hard_swish, Op::mish, Op::softplus, Op::hard_sigmoid, Op::sigmoid>(
         canonicalise_activations)},
    {"softmax", where_built<Op::softmax, Op::log_softmax, Op::reduce_logsumexp>(canonicalise_softmax)},
    {"norms", where_built<Op::layer_norm, Op::rms_norm, Op::reduce_l2>(canonicalise_norms)},
    {"batch norm", where_built<Op::batch_norm>(canonicalise_batch_norm)},
    {"group norm", where_built<Op::group_norm>(canonicalise_group_norm)},
    {"linear", canonicalise_linear},
    {"fold batch norms", where_built<Op::batch_norm>(fold_batch_norms)},
    {"rotary embedding", where_built<Op::rope>(canonicalise_rope)},
    {"attention", where_built<Op::attention>(canonicalise_attention)},
    {"gated MLP", where_built<Op::gated>(canonicalise_gated)},
    {"merge moves", merge_moves},
    {"choose layouts", choose_layouts},
    {"merge moves", merge_moves},
};

/// How many nodes there are of each op.
std::map<Op, std::int64_t> ops_of(const Graph& graph) {
  std::map<Op, std::int64_t> ops;
  for (const Node& node : graph.nodes()) ++ops[node.op];
  return ops;
}

}  // namespace

PassNote note_of(std::string_view pass, const Graph& before, const Graph& after) {
  PassNote note{pass, before.nodes().size(), after.nodes().size(), {}, {}};
  std::map<Op, std::int64_t> difference = ops_of(after);
  for (const auto& [op, count] : ops_of(before)) difference[op] -= count;
  note.changes.assign(difference.begin(), difference.end());
  std::erase_if(note.changes, [](const auto& change) { return change.second == 0; });
  return note;
}

Result<Prepared> prepare(const Graph& graph, const std::vector<ValueId>& pinned, const PrepareOptions& options) {
  PassGraph current(graph);
  for (const ValueId v : pinned) current.pin(v);
  Prepared prepared;
  for (const Entry& entry : kPasses) {
    if (entry.run == nullptr) continue;
    GRAFT_TRY(cancel_point());
    auto next = entry.run(current, options);
    if (!next.ok()) return std::move(next).status().with_context(cat("In the pass \"", entry.name, "\""));
    PassNote note = note_of(entry.name, current.graph, next->graph);
    current = std::move(next).value();
    if (options.keep_text) note.text = graph_text(current.graph);
    prepared.notes.push_back(std::move(note));
  }
  prepared.graph = std::move(current.graph);
  prepared.values = std::move(current.values);
  return prepared;
}

}  // namespace graft::passes
