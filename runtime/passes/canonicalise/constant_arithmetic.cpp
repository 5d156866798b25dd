// Arithmetic with numbers: one affine for a chain of them, and powers by their names.
#include <cmath>

#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/passes/match.h"
#include "runtime/passes/passes.h"

namespace graft::passes {
namespace {

/// alpha * x + beta.
struct Affine {
  ValueId x;
  double alpha = 1;
  double beta = 0;
};

std::optional<Affine> as_affine(const Match& m, const Node& node) {
  if (node.op == Op::affine) return Affine{node.inputs[0], node.attrs.number("alpha"), node.attrs.number("beta")};
  if (node.op == Op::neg) return Affine{node.inputs[0], -1, 0};
  if (node.inputs.size() != 2) return std::nullopt;
  if (const auto b = m.number(node.inputs[1])) {
    switch (node.op) {
      case Op::add: return Affine{node.inputs[0], 1, *b};
      case Op::sub: return Affine{node.inputs[0], 1, -*b};
      case Op::mul: return Affine{node.inputs[0], *b, 0};
      case Op::div: return Affine{node.inputs[0], 1 / *b, 0};
      default: return std::nullopt;
    }
  }
  if (const auto a = m.number(node.inputs[0])) {
    switch (node.op) {
      case Op::add: return Affine{node.inputs[1], 1, *a};
      case Op::sub: return Affine{node.inputs[1], -1, *a};
      case Op::mul: return Affine{node.inputs[1], *a, 0};
      default: return std::nullopt;
    }
  }
  return std::nullopt;
}

/// v itself may be gone: x stands for it. An output may only where what stands for it is made by a node and nothing
/// else that is asked for.
Result<bool> pass_by(Rewriter& r, ValueId v, ValueId x) {
  if (r.is_pinned(v) || (r.is_output(v) && (!r.may_vanish(x) || r.producer(x) == nullptr))) return false;
  r.replace(v, r.at(x));
  return true;
}

Result<bool> affine(Rewriter& r, const Match& m, const Node& node) {
  const ValueId v = node.outputs[0];
  if (m.value(v).dtype != DType::f32) return false;
  auto a = as_affine(m, node);
  if (!a || m.shape(a->x) != m.shape(v)) return false;
  const Node* inner = r.is_inner(a->x) ? r.producer(a->x) : nullptr;
  while (inner != nullptr) {
    const auto first = as_affine(m, *inner);
    if (!first || m.shape(first->x) != m.shape(v)) break;
    a = Affine{first->x, a->alpha * first->alpha, a->alpha * first->beta + a->beta};
    inner = r.is_inner(a->x) ? r.producer(a->x) : nullptr;
  }
  // Infinities and zeros are masks: alpha * x would make something else of an infinite or missing x.
  if (!std::isfinite(a->alpha) || !std::isfinite(a->beta) || a->alpha == 0) return false;
  if (a->alpha == 1 && a->beta == 0) return pass_by(r, v, a->x);
  if (node.op == Op::neg && a->x == node.inputs[0]) return false;
  GRAFT_TRY(r.replace(v, Op::affine, {r.at(a->x)}, {{"alpha", a->alpha}, {"beta", a->beta}}));
  return true;
}

/// x^2, x^0.5, 1 / x and so on by their names; 1 / sqrt(x) as one.
Result<bool> power(Rewriter& r, const Match& m, const Node& node) {
  const ValueId v = node.outputs[0];
  if (m.value(v).dtype != DType::f32) return false;
  ValueId x = node.inputs.empty() ? kNoValue : node.inputs[0];
  double exponent = 1;
  if (node.op == Op::pow) {
    const auto given = m.number(node.inputs[1]);
    if (!given) return false;
    exponent = *given;
  } else if (node.op == Op::reciprocal) {
    exponent = -1;
  } else if (node.op == Op::div && m.number(node.inputs[0]) == 1.0) {
    x = node.inputs[1];
    exponent = -1;
  } else if (node.op == Op::mul && node.inputs[0] == node.inputs[1]) {
    exponent = 2;
  } else {
    return false;
  }
  if (m.shape(x) != m.shape(v)) return false;
  if (const ValueId root = m.argument(Op::sqrt, x); exponent == -1 && root.valid() && r.is_inner(x)) {
    x = root;
    exponent = -0.5;
  }
  if (exponent == 1) return pass_by(r, v, x);
  struct Named {
    double exponent;
    Op op;
  };
  constexpr Named kNamed[] = {{2, Op::square}, {0.5, Op::sqrt}, {-1, Op::reciprocal}, {-0.5, Op::rsqrt}};
  for (const Named& named : kNamed) {
    if (named.exponent != exponent || (named.op == node.op && x == node.inputs[0])) continue;
    GRAFT_TRY(r.replace(v, named.op, {r.at(x)}));
    return true;
  }
  return false;
}

/// Arithmetic broadcasts by itself: what was expanded to the shape of the other operand is read as it was.
Result<bool> unexpanded(Rewriter& r, const Match& m, const Node& node) {
  switch (node.op) {
    case Op::add:
    case Op::sub:
    case Op::mul:
    case Op::div:
    case Op::maximum:
    case Op::minimum: break;
    default: return false;
  }
  for (const std::size_t i : {0, 1}) {
    const ValueId small = m.argument(Op::expand, node.inputs[i]);
    if (!small.valid() || r.is_pinned(node.inputs[i]) || m.shape(node.inputs[1 - i]) != m.shape(node.outputs[0])) {
      continue;
    }
    std::vector<ValueId> inputs = r.at(node.inputs);
    inputs[i] = r.at(small);
    GRAFT_TRY(r.copy(node, std::move(inputs), node.attrs));
    return true;
  }
  return false;
}

/// Dropout that drops nothing.
Result<bool> dropout(Rewriter& r, const Match&, const Node& node) {
  if (node.op != Op::dropout || (node.attrs.flag("training") && node.attrs.number("p") != 0)) return false;
  return pass_by(r, node.outputs[0], node.inputs[0]);
}

constexpr Rule kRules[] = {affine, power, unexpanded, dropout};

}  // namespace

Result<PassGraph> constant_arithmetic(const PassGraph& graph, const PrepareOptions&) {
  return apply_rules(graph, kRules);
}

}  // namespace graft::passes
