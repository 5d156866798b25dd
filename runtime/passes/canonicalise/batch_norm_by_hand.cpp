// Batch norm with statistics that are given, spelled out: (x - mean) / sqrt(var + epsilon) * weight + bias, or
// x * k + (bias - mean * k) where k = weight / sqrt(var + epsilon). It stays with these statistics when it is trained,
// as the source does.
#include <algorithm>

#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/passes/match.h"
#include "runtime/passes/passes.h"

namespace graft::passes {
namespace {

struct Affine {
  ValueId x, weight, bias, mean, variance;
  double epsilon = 0;
  std::size_t axis = 0;  ///< of channels
};

/// The axis of x that v, which broadcasts to it, is not the same along; the rank of x where there is not just one.
std::size_t channel_axis(const Match& m, ValueId v, const Shape& x) {
  const Shape& shape = m.shape(v);
  std::size_t found = x.rank();
  for (std::size_t i = 0; i < shape.rank() && shape.rank() <= x.rank(); ++i) {
    const std::size_t at = x.rank() - shape.rank() + i;
    if (shape[i] == Dim(1)) continue;
    if (found != x.rank() || shape[i] != x[at]) return x.rank();
    found = at;
  }
  return found;
}

/// What stands in the file, as a view or as it is.
bool is_given(const Match& m, ValueId v) {
  const ValueId whole = m.argument(Op::reshape, v);
  const Value& value = m.value(whole.valid() ? whole : v);
  return value.dtype == DType::f32 &&
         (value.kind == ValueKind::constant || value.kind == ValueKind::parameter || value.kind == ValueKind::state);
}

/// weight / sqrt(variance + epsilon), and what else is multiplied with it, or kNoValue.
std::optional<Affine> factor(const Match& m, const Product& p, ValueId other) {
  if (p.scale != 1 || p.factors.size() != (other.valid() ? 3 : 2)) return std::nullopt;
  Affine a;
  bool scaled = false;
  for (const Factor& f : p.factors) {
    if (f.value == other && f.power == 1) {
      scaled = true;
    } else if (f.power == 1) {
      a.weight = f.value;
    } else if (f.power == -0.5) {
      const Sum s = m.sum(f.value);
      if (s.terms.size() != 1 || s.terms[0].weight != 1 || !(s.offset > 0)) return std::nullopt;
      a.variance = s.terms[0].value;
      a.epsilon = s.offset;
    }
  }
  const bool complete = a.weight.valid() && a.variance.valid() && scaled == other.valid();
  return complete ? std::optional(a) : std::nullopt;
}

/// (x - mean) * .. + bias.
std::optional<Affine> centred_first(const Match& m, const Sum& s) {
  if (s.terms.size() != 2) return std::nullopt;
  for (const std::size_t i : {0, 1}) {
    const Product p = m.product(s.terms[i].value);
    for (const Factor& f : p.factors) {
      const Sum centred = f.power == 1 ? m.sum(f.value) : Sum();
      if (centred.offset != 0 || centred.terms.size() != 2) continue;
      auto a = factor(m, p, f.value);
      for (const std::size_t k : {0, 1}) {
        if (!a || centred.terms[k].weight != 1 || centred.terms[1 - k].weight != -1) continue;
        a->x = centred.terms[k].value;
        a->mean = centred.terms[1 - k].value;
        a->bias = s.terms[1 - i].value;
        return a;
      }
    }
  }
  return std::nullopt;
}

/// x * k + bias - mean * k.
std::optional<Affine> scaled_first(const Match& m, const Sum& s) {
  if (s.terms.size() != 3) return std::nullopt;
  for (const Term& shifted : s.terms) {
    const Node* less = shifted.weight == -1 ? m.node(Op::mul, shifted.value) : nullptr;
    for (const Term& term : s.terms) {
      const Node* more = less != nullptr && term.weight == 1 ? m.node(Op::mul, term.value) : nullptr;
      for (std::size_t i = 0; more != nullptr && i < 4; ++i) {
        const ValueId k = less->inputs[i / 2];
        if (more->inputs[i % 2] != k) continue;
        auto a = factor(m, m.product(k), kNoValue);
        if (!a) continue;
        a->mean = less->inputs[1 - i / 2];
        a->x = more->inputs[1 - i % 2];
        for (const Term& rest : s.terms) {
          if (rest.value != shifted.value && rest.value != term.value && rest.weight == 1) a->bias = rest.value;
        }
        if (a->bias.valid()) return a;
      }
    }
  }
  return std::nullopt;
}

Status emit(Rewriter& r, const Match& m, const Node& node, const Affine& a) {
  Builder& b = r.builder();
  const Shape& shape = m.shape(a.x);
  const std::size_t last = shape.rank() - 1;
  Ints to_end, back;
  for (std::size_t i = 0; i <= last && a.axis != last; ++i) {
    if (i != a.axis) to_end.push_back(static_cast<std::int64_t>(i));
    back.push_back(static_cast<std::int64_t>(i < a.axis ? i : i == a.axis ? last : i - 1));
  }
  if (a.axis != last) to_end.push_back(static_cast<std::int64_t>(a.axis));
  const auto row = [&](ValueId v) { return b.reshape(r.at(v), Shape{shape[a.axis]}); };
  // Behind a convolution, whose channels stand last, nothing moves.
  const Node* moved = m.node(Op::transpose, a.x);
  const bool undone = moved != nullptr && !to_end.empty() && moved->attrs.integers("perm") == back;
  const ValueId x = undone ? r.at(moved->inputs[0]) : to_end.empty() ? r.at(a.x) : b.transpose(r.at(a.x), to_end);
  ValueId y = b.node(Op::batch_norm, {x, row(a.weight), row(a.bias), row(a.mean), row(a.variance)},
                     {{"epsilon", a.epsilon}}, node.name);
  if (!back.empty()) y = b.transpose(y, back);
  r.replace(node.outputs[0], y);
  return b.status();
}

Result<bool> batch_norm(Rewriter& r, const Match& m, const Node& node) {
  if (node.op != Op::add && node.op != Op::sub) return false;
  const ValueId v = node.outputs[0];
  if (m.value(v).dtype != DType::f32) return false;
  const Sum s = m.sum(v);
  if (s.offset != 0) return false;
  auto a = centred_first(m, s);
  if (!a) a = scaled_first(m, s);
  if (!a || m.shape(a->x) != m.shape(v)) return false;
  const Shape& x = m.shape(v);
  a->axis = channel_axis(m, a->mean, x);
  if (a->axis == 0 || a->axis == x.rank()) return false;
  for (const ValueId one : {a->weight, a->bias, a->mean, a->variance}) {
    if (!is_given(m, one) || channel_axis(m, one, x) != a->axis) return false;
  }
  if (!m.owns(v, {a->x, a->weight, a->bias, a->mean, a->variance})) return false;
  GRAFT_TRY(emit(r, m, node, *a));
  return true;
}

constexpr Rule kRules[] = {batch_norm};

}  // namespace

Result<PassGraph> canonicalise_batch_norm(const PassGraph& graph, const PrepareOptions&) {
  return apply_rules(graph, kRules);
}

}  // namespace graft::passes
