// Activations that exporters spell out: GELU, SiLU, hard swish, hard sigmoid, Mish, softplus and the logistic function.
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "runtime/core/built_ops.gen.h"
#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/passes/match.h"
#include "runtime/passes/passes.h"

namespace graft::passes {
namespace {

struct Found {
  Op op;
  ValueId x;
  Attrs attrs = {};
};
using Reading = std::optional<Found> (*)(const Match&, ValueId);

/// The two ways to say which of a product's two factors is x.
template <typename Rest>
std::optional<Found> either_way(const Product& p, Rest rest) {
  if (p.factors.size() != 2) return std::nullopt;
  for (const std::size_t i : {0, 1}) {
    if (p.factors[i].power != 1) continue;
    if (auto found = rest(p.factors[i].value, p.factors[1 - i])) return found;
  }
  return std::nullopt;
}

/// x, where v is 1 + exp(weight x).
ValueId one_plus_exp(const Match& m, ValueId v, double weight) {
  const Sum s = m.sum(v);
  if (s.terms.size() != 1 || !s.is(1, {{s.terms[0].value, 1}})) return kNoValue;
  const ValueId exponent = m.argument(Op::exp, s.terms[0].value);
  if (!exponent.valid() || weight == 1) return exponent;
  const Sum inner = m.sum(exponent);
  return inner.terms.size() == 1 && inner.is(0, {{inner.terms[0].value, weight}}) ? inner.terms[0].value : kNoValue;
}

/// x, where v is log(1 + exp(x)).
ValueId softplus_of(const Match& m, ValueId v) {
  if (const ValueId x = m.argument(Op::softplus, v); x.valid()) return x;
  if (const ValueId e = m.argument(Op::log1p, v); e.valid()) return m.argument(Op::exp, e);
  const ValueId sum = m.argument(Op::log, v);
  return sum.valid() ? one_plus_exp(m, sum, 1) : kNoValue;
}

/// x, where a factor is sigmoid(x) or 1 / (1 + exp(-x)).
ValueId sigmoid_of(const Match& m, const Factor& f) {
  if (f.power == 1) return m.argument(Op::sigmoid, f.value);
  return f.power == -1 ? one_plus_exp(m, f.value, -1) : kNoValue;
}

std::optional<Found> sigmoid(const Match& m, ValueId v) {
  const Product p = m.product(v);
  if (p.scale != 1 || p.factors.size() != 1 || p.factors[0].power != -1) return std::nullopt;
  const ValueId x = sigmoid_of(m, p.factors[0]);
  return x.valid() ? std::optional(Found{Op::sigmoid, x}) : std::nullopt;
}

std::optional<Found> softplus(const Match& m, ValueId v) {
  const ValueId x = softplus_of(m, v);
  return x.valid() ? std::optional(Found{Op::softplus, x}) : std::nullopt;
}

std::optional<Found> silu(const Match& m, ValueId v) {
  const Product p = m.product(v);
  if (!near(p.scale, 1)) return std::nullopt;
  return either_way(p, [&](ValueId x, const Factor& gate) -> std::optional<Found> {
    return sigmoid_of(m, gate) == x ? std::optional(Found{Op::silu, x}) : std::nullopt;
  });
}

std::optional<Found> mish(const Match& m, ValueId v) {
  const Product p = m.product(v);
  if (!near(p.scale, 1)) return std::nullopt;
  return either_way(p, [&](ValueId x, const Factor& gate) -> std::optional<Found> {
    const ValueId inner = gate.power == 1 ? m.argument(Op::tanh, gate.value) : kNoValue;
    return inner.valid() && softplus_of(m, inner) == x ? std::optional(Found{Op::mish, x}) : std::nullopt;
  });
}

// --- clip(x / 6 + 1 / 2, 0, 1)

struct HardSigmoid {
  ValueId x;
  double alpha = 0;
  double beta = 0;
};

/// scale * v as clip(alpha * x + beta, 0, 1).
std::optional<HardSigmoid> hard_sigmoid_of(const Match& m, ValueId v, double scale) {
  if (const Node* node = m.node(Op::hard_sigmoid, v); node != nullptr && near(scale, 1)) {
    return HardSigmoid{node->inputs[0], node->attrs.number("alpha"), node->attrs.number("beta")};
  }
  const Node* clip = m.node(Op::clip, v);
  if (clip == nullptr) return std::nullopt;
  double low = clip->attrs.number("min");
  ValueId inner = clip->inputs[0];
  if (const ValueId positive = m.argument(Op::relu, inner); positive.valid()) {
    low = std::max(low, 0.0);
    inner = positive;
  }
  const Sum s = m.sum(inner);
  if (low != 0 || !near(scale * clip->attrs.number("max"), 1) || s.terms.size() != 1) return std::nullopt;
  return HardSigmoid{s.terms[0].value, scale * s.terms[0].weight, scale * s.offset};
}

std::optional<Found> hard_sigmoid(const Match& m, ValueId v) {
  const Product p = m.product(v);
  if (p.factors.size() != 1 || p.factors[0].power != 1) return std::nullopt;
  const auto found = hard_sigmoid_of(m, p.factors[0].value, p.scale);
  // clip(x, 0, 1) is that already.
  if (!found || found->beta == 0) return std::nullopt;
  return Found{Op::hard_sigmoid, found->x, {{"alpha", found->alpha}, {"beta", found->beta}}};
}

std::optional<Found> hard_swish(const Match& m, ValueId v) {
  const Product p = m.product(v);
  return either_way(p, [&](ValueId x, const Factor& gate) -> std::optional<Found> {
    if (gate.power != 1) return std::nullopt;
    const auto found = hard_sigmoid_of(m, gate.value, p.scale);
    if (!found || found->x != x || !near(found->alpha, 1.0 / 6) || !near(found->beta, 0.5)) return std::nullopt;
    return Found{Op::hard_swish, x};
  });
}

// --- GELU

/// The coefficients of a polynomial in x, up to x^3; nothing where v is none.
using Cubic = std::array<double, 4>;

std::optional<Cubic> times(const Cubic& a, const Cubic& b) {
  Cubic out = {};
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t j = 0; j < 4; ++j) {
      if (a[i] == 0 || b[j] == 0) continue;
      if (i + j > 3) return std::nullopt;
      out[i + j] += a[i] * b[j];
    }
  }
  return out;
}

std::optional<Cubic> cubic(const Match& m, ValueId v, ValueId x, int depth = 8) {
  if (v == x) return Cubic{0, 1, 0, 0};
  if (const auto known = m.number(v)) return Cubic{*known, 0, 0, 0};
  const NodeId producer = m.value(v).producer;
  if (depth == 0 || !producer.valid()) return std::nullopt;
  const Node& node = m.source().node(producer);
  const auto at = [&](std::size_t i) { return cubic(m, node.inputs[i], x, depth - 1); };
  const auto combined = [&](const std::optional<Cubic>& a, double factor, const std::optional<Cubic>& b,
                            double other) -> std::optional<Cubic> {
    if (!a || !b) return std::nullopt;
    Cubic out;
    for (std::size_t i = 0; i < 4; ++i) out[i] = factor * (*a)[i] + other * (*b)[i];
    return out;
  };
  const auto product = [&](const std::optional<Cubic>& a, const std::optional<Cubic>& b) -> std::optional<Cubic> {
    return a && b ? times(*a, *b) : std::nullopt;
  };
  switch (node.op) {
    case Op::add: return combined(at(0), 1, at(1), 1);
    case Op::sub: return combined(at(0), 1, at(1), -1);
    case Op::mul: return product(at(0), at(1));
    case Op::affine: return combined(at(0), node.attrs.number("alpha"), Cubic{1, 0, 0, 0}, node.attrs.number("beta"));
    case Op::square: {
      const auto a = at(0);
      return product(a, a);
    }
    case Op::pow: {
      const auto exponent = m.number(node.inputs[1]);
      const auto a = at(0);
      if (exponent == 2.0) return product(a, a);
      return exponent == 3.0 ? product(a, product(a, a)) : std::nullopt;
    }
    default: return std::nullopt;
  }
}

/// x and f(t), where v is x / 2 * (1 + f(t)).
template <typename Inner>
std::optional<Found> half_of_one_plus(const Match& m, ValueId v, Op function, std::string_view approximate,
                                      Inner is_inner) {
  const Product p = m.product(v);
  return either_way(p, [&](ValueId x, const Factor& gate) -> std::optional<Found> {
    if (gate.power != 1) return std::nullopt;
    const Sum s = m.sum(gate.value);
    if (s.terms.size() != 1 || !near(p.scale * s.offset, 0.5) || !near(p.scale * s.terms[0].weight, 0.5)) {
      return std::nullopt;
    }
    const ValueId t = m.argument(function, s.terms[0].value);
    if (!t.valid() || !is_inner(t, x)) return std::nullopt;
    return Found{Op::gelu, x, {{"approximate", std::string(approximate)}}};
  });
}

std::optional<Found> gelu(const Match& m, ValueId v) {
  return half_of_one_plus(m, v, Op::erf, "none", [&](ValueId t, ValueId x) {
    const Product inner = m.product(t);
    return near(inner.scale, 1 / std::numbers::sqrt2) && inner.is({{x, 1}});
  });
}

std::optional<Found> gelu_tanh(const Match& m, ValueId v) {
  return half_of_one_plus(m, v, Op::tanh, "tanh", [&](ValueId t, ValueId x) {
    const double k = std::sqrt(2 / std::numbers::pi);
    const auto c = cubic(m, t, x);
    return c && (*c)[0] == 0 && (*c)[2] == 0 && near((*c)[1], k) && near((*c)[3], k * 0.044715);
  });
}

/// Null where this build leaves out the op that it finds.
constexpr Reading where_built(Op op, Reading reading) { return is_built(op) ? reading : nullptr; }

constexpr Reading kReadings[] = {
    where_built(Op::gelu, gelu),
    where_built(Op::gelu, gelu_tanh),
    where_built(Op::silu, silu),
    where_built(Op::hard_swish, hard_swish),
    where_built(Op::mish, mish),
    where_built(Op::softplus, softplus),
    where_built(Op::hard_sigmoid, hard_sigmoid),
    where_built(Op::sigmoid, sigmoid),
};

Result<bool> activation(Rewriter& r, const Match& m, const Node& node) {
  switch (node.op) {
    case Op::mul:
    case Op::div:
    case Op::affine:
    case Op::neg:
    case Op::reciprocal:
    case Op::log:
    case Op::log1p:
    case Op::clip: break;
    default: return false;
  }
  const ValueId v = node.outputs[0];
  if (m.value(v).dtype != DType::f32) return false;
  for (const Reading read : kReadings) {
    if (read == nullptr) continue;
    auto found = read(m, v);
    if (!found || m.shape(found->x) != m.shape(v) || !m.owns(v, {found->x})) continue;
    GRAFT_TRY(r.replace(v, found->op, {r.at(found->x)}, std::move(found->attrs)));
    return true;
  }
  return false;
}

constexpr Rule kRules[] = {activation};

}  // namespace

Result<PassGraph> canonicalise_activations(const PassGraph& graph, const PrepareOptions&) {
  return apply_rules(graph, kRules);
}

}  // namespace graft::passes
