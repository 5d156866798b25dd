// Softmax and its logarithm as exponentials and sums, with or without the maximum taken off before.
#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/passes/match.h"
#include "runtime/passes/passes.h"

namespace graft::passes {
namespace {

/// The axis, where the node reduces one and keeps it.
std::optional<std::int64_t> single_axis(const Match& m, const Node& node) {
  const auto axes = reduced_axes(node, m.shape(node.inputs[0]).rank());
  if (axes.size() != 1 || !node.attrs.flag("keepdims")) return std::nullopt;
  return static_cast<std::int64_t>(axes[0]);
}

/// x, where v is x - max(x) over this axis; v itself where nothing is taken off.
ValueId without_maximum(const Match& m, ValueId v, std::int64_t axis) {
  const Sum s = m.sum(v);
  if (s.terms.size() != 2 || s.offset != 0) return v;
  for (const std::size_t i : {0, 1}) {
    const Term& x = s.terms[i];
    const Node* max = m.node(Op::reduce_max, s.terms[1 - i].value);
    if (max == nullptr || x.weight != 1 || s.terms[1 - i].weight != -1 || max->inputs[0] != x.value) continue;
    return single_axis(m, *max) == axis ? x.value : v;
  }
  return v;
}

Result<bool> replaced(Rewriter& r, const Match& m, ValueId v, Op op, ValueId x, std::int64_t axis) {
  if (m.shape(x) != m.shape(v) || !m.owns(v, {x})) return false;
  GRAFT_TRY(r.replace(v, op, {r.at(x)}, {{"axis", axis}}));
  return true;
}

/// exp(u) / sum(exp(u)).
Result<bool> softmax(Rewriter& r, const Match& m, const Node& node) {
  if (node.op != Op::div && node.op != Op::mul) return false;
  const ValueId v = node.outputs[0];
  const Product p = m.product(v);
  const ValueId powers = p.only(1);
  const ValueId total = p.only(-1);
  if (p.scale != 1 || p.factors.size() != 2 || !powers.valid() || !total.valid()) return false;
  const Node* sum = m.node(Op::reduce_sum, total);
  const ValueId u = m.argument(Op::exp, powers);
  if (sum == nullptr || sum->inputs[0] != powers || !u.valid()) return false;
  const auto axis = single_axis(m, *sum);
  if (!axis) return false;
  const ValueId x = without_maximum(m, u, *axis);
  GRAFT_TRY_ASSIGN(const bool done, replaced(r, m, v, Op::softmax, x, *axis));
  return done ? done : replaced(r, m, v, Op::softmax, u, *axis);
}

/// u - log(sum(exp(u))), where u may be spelled within the sum; x - logsumexp(x).
Result<bool> log_softmax(Rewriter& r, const Match& m, const Node& node) {
  if (node.op != Op::sub && node.op != Op::add) return false;
  const ValueId v = node.outputs[0];
  Sum s = m.sum(v);
  for (const Term& term : s.terms) {
    if (term.weight != -1) continue;
    if (const Node* whole = m.node(Op::reduce_logsumexp, term.value)) {
      const ValueId x = whole->inputs[0];
      const auto axis = single_axis(m, *whole);
      if (!axis || !s.is(0, {{x, 1}, {term.value, -1}})) continue;
      return replaced(r, m, v, Op::log_softmax, x, *axis);
    }
    const ValueId total = m.argument(Op::log, term.value);
    const Node* sum = total.valid() ? m.node(Op::reduce_sum, total) : nullptr;
    const ValueId u = sum != nullptr ? m.argument(Op::exp, sum->inputs[0]) : kNoValue;
    const auto axis = u.valid() ? single_axis(m, *sum) : std::nullopt;
    if (!axis) continue;
    const ValueId x = without_maximum(m, u, *axis);
    // As u - log, and as x - max - log.
    Sum whole = x == u ? Sum{0, {{u, 1}}} : m.sum(u);
    whole.terms.push_back({term.value, -1});
    const auto equal = [&](const Sum& wanted) {
      if (s.offset != 0 || s.terms.size() != wanted.terms.size()) return false;
      for (const Term& t : wanted.terms) {
        if (s.weight(t.value) != t.weight) return false;
      }
      return true;
    };
    if (!equal(whole) && !equal({0, {{u, 1}, {term.value, -1}}})) continue;
    GRAFT_TRY_ASSIGN(const bool done, replaced(r, m, v, Op::log_softmax, x, *axis));
    return done ? done : replaced(r, m, v, Op::log_softmax, u, *axis);
  }
  return false;
}

Result<bool> log_of_softmax(Rewriter& r, const Match& m, const Node& node) {
  const Node* softmax = node.op == Op::log ? m.node(Op::softmax, node.inputs[0]) : nullptr;
  if (softmax == nullptr) return false;
  return replaced(r, m, node.outputs[0], Op::log_softmax, softmax->inputs[0], softmax->attrs.integer("axis"));
}

constexpr Rule kRules[] = {softmax, log_softmax, log_of_softmax};

}  // namespace

Result<PassGraph> canonicalise_softmax(const PassGraph& graph, const PrepareOptions&) {
  return apply_rules(graph, kRules);
}

}  // namespace graft::passes
