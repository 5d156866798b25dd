// Slices before moves: of queries, keys and values that were made, parted and moved as one, each is moved by itself,
// so that its move can meet the next and go away.
#include <algorithm>

#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/passes/match.h"
#include "runtime/passes/passes.h"

namespace graft::passes {
namespace {

/// slice(transpose(x)) as transpose(slice(x)), where slices are all that reads the transposed value.
Result<bool> slice_first(Rewriter& r, const Match& m, const Node& node) {
  const Node* moved = node.op == Op::slice ? m.node(Op::transpose, node.inputs[0]) : nullptr;
  if (moved == nullptr || !r.may_vanish(node.inputs[0])) return false;
  constexpr std::size_t kMaxParts = 64;
  const bool only_slices = r.readers(node.inputs[0]).size() <= kMaxParts &&
                           std::ranges::all_of(r.readers(node.inputs[0]),
                                               [&](NodeId reader) { return r.source().node(reader).op == Op::slice; });
  if (!only_slices) return false;
  const Ints perm = moved->attrs.integers("perm");
  Attrs attrs;
  for (const char* name : {"starts", "ends", "steps"}) {
    const Ints given = node.attrs.integers(name);
    Ints list(given.size());
    for (std::size_t i = 0; i < perm.size(); ++i) list[static_cast<std::size_t>(perm[i])] = given[i];
    attrs.set(name, std::move(list));
  }
  Builder& b = r.builder();
  const ValueId part = b.node(Op::slice, {r.at(moved->inputs[0])}, std::move(attrs), node.name);
  GRAFT_TRY(r.replace(node.outputs[0], Op::transpose, {part}, {{"perm", perm}}));
  return true;
}

constexpr Rule kRules[] = {slice_first};

}  // namespace

Result<PassGraph> slices_first(const PassGraph& graph, const PrepareOptions&) { return apply_rules(graph, kRules); }

}  // namespace graft::passes
