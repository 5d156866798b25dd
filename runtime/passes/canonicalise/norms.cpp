// Normalisations spelled out: c / sqrt(mean(c^2) + epsilon) * w + b, where c is x - mean(x) (layer norm) or x (RMS
// norm). And the norm of a vector: sqrt(sum(x^2)).
#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/passes/match.h"
#include "runtime/passes/passes.h"

namespace graft::passes {
namespace {

using Axes = std::vector<std::size_t>;

/// power of (mean over axes of c^2 + epsilon) = -1/2, times a number.
struct Deviation {
  ValueId c;
  Axes axes;
  double epsilon = 0;
  double scale = 1;  ///< what 1 / sqrt(v) is to be multiplied by to give the factor
};

double count(const Shape& shape, const Axes& axes) {
  double n = 1;
  for (const std::size_t axis : axes) n *= static_cast<double>(shape[axis].value());
  return n;
}

/// v as weight * (mean of c^2 + epsilon).
std::optional<Deviation> variance(const Match& m, ValueId v) {
  const Sum s = m.sum(v);
  if (s.terms.size() != 1 || s.offset < 0) return std::nullopt;
  double weight = s.terms[0].weight;
  const Node* mean = m.node(Op::reduce_mean, s.terms[0].value);
  const Node* total = mean != nullptr ? mean : m.node(Op::reduce_sum, s.terms[0].value);
  if (total == nullptr || !total->attrs.flag("keepdims")) return std::nullopt;
  const Shape& shape = m.shape(total->inputs[0]);
  Deviation d{kNoValue, reduced_axes(*total, shape.rank())};
  if (mean == nullptr) weight *= count(shape, d.axes);
  const Product square = m.product(total->inputs[0]);
  if (square.factors.size() != 1 || square.factors[0].power != 2) return std::nullopt;
  weight *= square.scale;
  if (!(weight > 0)) return std::nullopt;
  d.c = square.factors[0].value;
  d.epsilon = s.offset / weight;
  d.scale = 1 / std::sqrt(near(weight, 1) ? 1 : weight);
  return m.shape(d.c) == shape ? std::optional(d) : std::nullopt;
}

/// A factor that is 1 / sqrt(variance), or 1 / l2 norm.
std::optional<Deviation> inverse_deviation(const Match& m, const Factor& f) {
  if (f.power == -0.5) return variance(m, f.value);
  const Node* norm = f.power == -1 ? m.node(Op::reduce_l2, f.value) : nullptr;
  if (norm == nullptr || !norm->attrs.flag("keepdims")) return std::nullopt;
  const Shape& shape = m.shape(norm->inputs[0]);
  Deviation d{norm->inputs[0], reduced_axes(*norm, shape.rank())};
  d.scale = 1 / std::sqrt(count(shape, d.axes));
  return d;
}

/// x, where c is x - mean(x) over these axes.
ValueId centred_of(const Match& m, ValueId c, const Axes& axes) {
  const Sum s = m.sum(c);
  if (s.offset != 0 || s.terms.size() != 2) return kNoValue;
  for (const std::size_t i : {0, 1}) {
    const ValueId x = s.terms[i].value;
    const Node* mean = m.node(Op::reduce_mean, s.terms[1 - i].value);
    if (mean == nullptr || mean->inputs[0] != x || !mean->attrs.flag("keepdims")) continue;
    if (s.terms[i].weight != 1 || s.terms[1 - i].weight != -1) continue;
    if (reduced_axes(*mean, m.shape(x).rank()) == axes && m.shape(x) == m.shape(c)) return x;
  }
  return kNoValue;
}

struct Norm {
  Deviation deviation;
  ValueId x;
  ValueId c;  ///< what is divided: x, or x less its mean
  bool centred = false;
  double scale = 1;           ///< a number that is left over
  ValueId weight = kNoValue;  ///< multiplied, broadcast over what is not normalised
  bool add_unit = false;      ///< 1 + weight is meant
  ValueId bias = kNoValue;
};

/// Whether w broadcasts along exactly the axes that are not normalised, and has all the others.
bool fits(const Match& m, ValueId w, const Norm& n) {
  const Shape& x = m.shape(n.x);
  const Shape& shape = m.shape(w);
  if (m.value(w).dtype != DType::f32 || shape.rank() > x.rank()) return false;
  for (std::size_t axis = 0; axis < x.rank(); ++axis) {
    const std::size_t missing = x.rank() - shape.rank();
    const Dim size = axis < missing ? Dim(1) : shape[axis - missing];
    if (size != (std::ranges::find(n.deviation.axes, axis) != n.deviation.axes.end() ? x[axis] : Dim(1))) return false;
  }
  return true;
}

/// The product around 1 / sqrt(variance): c, that factor, and at most one more.
std::optional<Norm> norm_of(const Match& m, const Product& p) {
  if (p.factors.size() < 2 || p.factors.size() > 3) return std::nullopt;
  for (const Factor& f : p.factors) {
    const auto deviation = inverse_deviation(m, f);
    if (!deviation) continue;
    Norm n{*deviation, kNoValue, deviation->c};
    bool found = false;
    for (const Factor& other : p.factors) {
      if (&other == &f) continue;
      if (other.value == n.c && other.power == 1 && !found) {
        found = true;
      } else if (other.power == 1) {
        n.weight = other.value;
      } else {
        return std::nullopt;
      }
    }
    if (!found || (p.factors.size() == 3) != n.weight.valid()) return std::nullopt;
    n.x = centred_of(m, n.c, deviation->axes);
    n.centred = n.x.valid();
    if (!n.centred) n.x = n.c;
    n.scale = p.scale * deviation->scale;
    return n;
  }
  return std::nullopt;
}

/// w * something + b as a product and a bias; without a sum, the product alone.
std::optional<Norm> affine_norm(const Match& m, ValueId v) {
  const Sum s = m.sum(v);
  for (const std::size_t i : {0, 1}) {
    if (s.terms.size() != 2 || s.offset != 0 || s.terms[i].weight != 1 || s.terms[1 - i].weight != 1) break;
    auto n = norm_of(m, m.product(s.terms[i].value));
    if (!n || !n->centred) continue;
    n->bias = s.terms[1 - i].value;
    return n;
  }
  return norm_of(m, m.product(v));
}

/// TensorFlow's order: x * inv + (b - mean(x) * inv), where inv is w / sqrt(variance).
std::optional<Norm> folded_norm(const Match& m, ValueId v) {
  const Sum s = m.sum(v);
  if (s.offset != 0 || s.terms.size() < 2 || s.terms.size() > 3) return std::nullopt;
  for (const Term& shifted : s.terms) {
    const Node* product = shifted.weight == -1 ? m.node(Op::mul, shifted.value) : nullptr;
    for (std::size_t i = 0; product != nullptr && i < 2; ++i) {
      const ValueId inverse = product->inputs[1 - i];
      const Node* mean = m.node(Op::reduce_mean, product->inputs[i]);
      if (mean == nullptr) continue;
      Norm n{{}, mean->inputs[0], kNoValue, true};
      bool scaled = false;
      for (const Term& term : s.terms) {
        const Node* mul = m.node(Op::mul, term.value);
        if (term.weight != 1) continue;
        const bool is_x = mul != nullptr && ((mul->inputs[0] == n.x && mul->inputs[1] == inverse) ||
                                             (mul->inputs[1] == n.x && mul->inputs[0] == inverse));
        if (is_x) {
          scaled = true;
        } else {
          n.bias = term.value;
        }
      }
      const Product p = m.product(inverse);
      if (!scaled || (s.terms.size() == 3) != n.bias.valid() || p.factors.empty() || p.factors.size() > 2) continue;
      for (const Factor& f : p.factors) {
        const auto deviation = inverse_deviation(m, f);
        if (deviation) {
          n.deviation = *deviation;
        } else if (f.power == 1) {
          n.weight = f.value;
        }
      }
      n.c = n.deviation.c;
      n.scale = p.scale * n.deviation.scale;
      if (n.c.valid() && (p.factors.size() == 2) == n.weight.valid() && centred_of(m, n.c, n.deviation.axes) == n.x) {
        return n;
      }
    }
  }
  return std::nullopt;
}

/// Moves the normalised axes to the end, where they are not there; empty where they are.
Ints to_the_end(const Axes& axes, std::size_t rank) {
  Ints perm;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    if (std::ranges::find(axes, axis) == axes.end()) perm.push_back(static_cast<std::int64_t>(axis));
  }
  if (perm.empty() || axes.front() == perm.size()) return {};
  for (const std::size_t axis : axes) perm.push_back(static_cast<std::int64_t>(axis));
  return perm;
}

Ints inverse(const Ints& perm) {
  Ints out(perm.size());
  for (std::size_t i = 0; i < perm.size(); ++i) out[static_cast<std::size_t>(perm[i])] = static_cast<std::int64_t>(i);
  return out;
}

Status emit(Rewriter& r, const Match& m, const Node& node, const Norm& n) {
  Builder& b = r.builder();
  const Shape& shape = m.shape(n.x);
  const Axes& axes = n.deviation.axes;
  const Ints perm = to_the_end(axes, shape.rank());
  std::vector<Dim> tail;
  for (const std::size_t axis : axes) tail.push_back(shape[axis]);
  const auto operand = [&](ValueId v) { return v.valid() ? b.reshape(r.at(v), Shape(tail)) : kNoValue; };
  const ValueId x = perm.empty() ? r.at(n.x) : b.transpose(r.at(n.x), perm);
  Attrs attrs = {{"axis", static_cast<std::int64_t>(shape.rank() - axes.size())}, {"epsilon", n.deviation.epsilon}};
  std::vector<ValueId> inputs = {x, operand(n.weight)};
  if (n.centred) {
    inputs.push_back(operand(n.bias));
  } else if (n.add_unit) {
    attrs.set("add_unit", std::int64_t{1});
  }
  while (!inputs.back().valid()) inputs.pop_back();
  ValueId y = b.node(n.centred ? Op::layer_norm : Op::rms_norm, std::move(inputs), std::move(attrs), node.name);
  if (!perm.empty()) y = b.transpose(y, inverse(perm));
  if (n.scale != 1) y = b.scale(y, n.scale);
  r.replace(node.outputs[0], y);
  return b.status();
}

/// The largest part of what was found that the op can say and that nothing else reads.
Result<bool> normalisation(Rewriter& r, const Match& m, const Node& node) {
  switch (node.op) {
    case Op::mul:
    case Op::div:
    case Op::add:
    case Op::sub: break;
    default: return false;
  }
  const ValueId v = node.outputs[0];
  if (m.value(v).dtype != DType::f32) return false;
  auto found = node.op == Op::mul || node.op == Op::div ? norm_of(m, m.product(v)) : affine_norm(m, v);
  if (!found && (node.op == Op::add || node.op == Op::sub)) found = folded_norm(m, v);
  if (!found || m.shape(found->x) != m.shape(v)) return false;
  Norm& n = *found;
  if (near(n.scale, 1)) n.scale = 1;
  if (n.weight.valid() && !n.centred) {
    const Sum unit = m.sum(n.weight);
    if (unit.terms.size() == 1 && unit.is(1, {{unit.terms[0].value, 1}}) && fits(m, unit.terms[0].value, n)) {
      n.weight = unit.terms[0].value;
      n.add_unit = true;
    }
  }
  if (n.weight.valid() && !fits(m, n.weight, n)) return false;
  if (n.bias.valid() && (!fits(m, n.bias, n) || n.scale != 1)) return false;
  // The scale of a product that a sum was taken of belongs to it.
  if (n.scale != 1 && (n.weight.valid() || n.centred)) return false;
  std::vector<ValueId> leaves = {n.x};
  for (const ValueId leaf : {n.weight, n.bias}) {
    if (leaf.valid()) leaves.push_back(leaf);
  }
  if (!m.owns(v, leaves)) return false;
  GRAFT_TRY(emit(r, m, node, n));
  return true;
}

/// sqrt(sum(x^2)) or sqrt(sum(|x|^2)), as exporters write PyTorch's norms, cdist and pairwise distances. Its gradient
/// at x = 0 is 0, as theirs is: that of a square root of 0 is not a number.
Result<bool> vector_norm(Rewriter& r, const Match& m, const Node& node) {
  const ValueId v = node.outputs[0];
  if (node.op != Op::sqrt || m.value(v).dtype != DType::f32) return false;
  const Node* total = m.node(Op::reduce_sum, node.inputs[0]);
  if (total == nullptr) return false;
  const Product square = m.product(total->inputs[0]);
  if (square.scale != 1 || square.factors.size() != 1 || square.factors[0].power != 2) return false;
  ValueId x = square.factors[0].value;
  if (m.shape(x) != m.shape(total->inputs[0])) return false;
  if (const ValueId signed_x = m.argument(Op::abs, x); signed_x.valid()) x = signed_x;
  if (!m.owns(v, {x})) return false;
  GRAFT_TRY(r.replace(v, Op::reduce_l2, {r.at(x)}, total->attrs));
  return true;
}

constexpr Rule kRules[] = {normalisation, vector_norm};

}  // namespace

Result<PassGraph> canonicalise_norms(const PassGraph& graph, const PrepareOptions&) {
  return apply_rules(graph, kRules);
}

}  // namespace graft::passes
