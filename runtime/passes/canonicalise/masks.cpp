#include "runtime/passes/canonicalise/masks.h"

#include <algorithm>
#include <cmath>

#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"

namespace graft::passes {
namespace {

constexpr std::uint64_t kMaxElements = 1 << 24;  // of a mask that is looked at: 4096 by 4096

/// Elements of a tensor as a larger shape repeats them.
std::vector<double> spread(const std::vector<double>& data, const Shape& from, const Shape& to) {
  std::vector<double> out;
  if (data.size() != from.elements() || to.elements() > kMaxElements) return out;
  const std::vector<std::int64_t> dims = to.values();
  std::vector<std::uint64_t> strides(dims.size(), 0);
  std::uint64_t stride = 1;
  for (std::size_t i = from.rank(); i-- > 0;) {
    const std::size_t at = dims.size() - from.rank() + i;
    if (from[i] != Dim(1)) strides[at] = stride;
    stride *= static_cast<std::uint64_t>(from[i].value());
  }
  out.resize(to.elements());
  for (std::uint64_t k = 0; k < out.size(); ++k) {
    std::uint64_t rest = k, at = 0;
    for (std::size_t i = dims.size(); i-- > 0;) {
      at += rest % static_cast<std::uint64_t>(dims[i]) * strides[i];
      rest /= static_cast<std::uint64_t>(dims[i]);
    }
    out[k] = data[at];
  }
  return out;
}

template <typename Function>
std::vector<double> combined(std::vector<double> a, const std::vector<double>& b, Function function) {
  if (a.size() != b.size()) return {};
  for (std::size_t k = 0; k < a.size(); ++k) a[k] = function(a[k], b[k]);
  return a;
}

std::vector<double> sliced(const std::vector<double>& data, const Shape& from, const Shape& to, const Attrs& attrs) {
  const Ints starts = attrs.integers("starts"), steps = attrs.integers("steps");
  std::vector<double> out;
  if (data.size() != from.elements()) return out;
  for (std::uint64_t k = 0; k < to.elements(); ++k) {
    std::uint64_t rest = k, at = 0, stride = 1;
    for (std::size_t i = to.rank(); i-- > 0;) {
      const auto size = static_cast<std::uint64_t>(to[i].value());
      at += static_cast<std::uint64_t>(starts[i] + steps[i] * static_cast<std::int64_t>(rest % size)) * stride;
      rest /= size;
      stride *= static_cast<std::uint64_t>(from[i].value());
    }
    out.push_back(data[at]);
  }
  return out;
}

/// Parts behind each other along an axis.
std::vector<double> joined(const std::vector<std::vector<double>>& parts, const Shape& whole, std::size_t axis) {
  const std::uint64_t inner = whole.elements(axis + 1, whole.rank()), outer = whole.elements(0, axis);
  std::vector<double> out;
  for (std::uint64_t row = 0; row < outer; ++row) {
    for (const std::vector<double>& part : parts) {
      const std::uint64_t size = part.size() / outer;
      out.insert(out.end(), part.begin() + static_cast<std::ptrdiff_t>(row * size),
                 part.begin() + static_cast<std::ptrdiff_t>((row + 1) * size));
    }
  }
  return out.size() == outer * inner * static_cast<std::uint64_t>(whole[axis].value()) ? out : std::vector<double>();
}

std::vector<double> evaluate_within(const Match& m, ValueId v, int& budget) {
  const Shape& shape = m.shape(v);
  if (!shape.is_constant() || shape.elements() > kMaxElements || budget == 0) return {};
  --budget;
  if (const auto known = m.number(v)) return std::vector<double>(shape.elements(), *known);
  const NodeId producer = m.value(v).producer;
  if (!producer.valid()) return m.contents(v);
  const Node& node = m.source().node(producer);
  const auto in = [&](std::size_t i) { return evaluate_within(m, node.inputs[i], budget); };
  const auto as_shape = [&](std::size_t i) { return spread(in(i), m.shape(node.inputs[i]), shape); };
  switch (node.op) {
    case Op::reshape: return in(0);
    case Op::cast: {
      std::vector<double> out = in(0);
      if (m.value(v).dtype == DType::boolean) {
        for (double& x : out) x = x != 0;
      }
      return m.value(v).dtype == DType::i32 && m.value(node.inputs[0]).dtype == DType::f32 ? std::vector<double>()
                                                                                           : out;
    }
    case Op::slice: return sliced(in(0), m.shape(node.inputs[0]), shape, node.attrs);
    case Op::logical_not: {
      std::vector<double> out = in(0);
      for (double& x : out) x = x == 0;
      return out;
    }
    case Op::add: return combined(as_shape(0), as_shape(1), [](double a, double b) { return a + b; });
    case Op::sub: return combined(as_shape(0), as_shape(1), [](double a, double b) { return a - b; });
    case Op::mul: return combined(as_shape(0), as_shape(1), [](double a, double b) { return a * b; });
    case Op::equal: return combined(as_shape(0), as_shape(1), [](double a, double b) { return a == b ? 1.0 : 0.0; });
    case Op::expand: return as_shape(0);
    case Op::cos:
    case Op::sin: {
      std::vector<double> out = in(0);
      for (double& x : out) x = node.op == Op::cos ? std::cos(x) : std::sin(x);
      return out;
    }
    case Op::concat: {
      const std::int64_t axis = node.attrs.integer("axis");
      std::vector<std::vector<double>> parts;
      for (std::size_t i = 0; i < node.inputs.size(); ++i) parts.push_back(in(i));
      return joined(parts, shape, static_cast<std::size_t>(axis < 0 ? axis + std::int64_t(shape.rank()) : axis));
    }
    case Op::affine: {
      std::vector<double> out = in(0);
      for (double& x : out) x = x * node.attrs.number("alpha") + node.attrs.number("beta");
      return out;
    }
    case Op::where: {
      const std::vector<double> condition = as_shape(0), yes = as_shape(1), no = as_shape(2);
      if (condition.empty() || yes.empty() || no.empty()) return {};
      std::vector<double> out(condition.size());
      for (std::size_t k = 0; k < out.size(); ++k) out[k] = condition[k] != 0 ? yes[k] : no[k];
      return out;
    }
    default: return {};
  }
}

/// 1 where a key is seen, of [queries, keys].
std::optional<Visible> as_band(const std::vector<char>& seen, std::int64_t queries, std::int64_t keys) {
  const auto sees = [&](std::int64_t i, std::int64_t j) { return seen[static_cast<std::size_t>(i * keys + j)] != 0; };
  if (std::ranges::all_of(seen, [](char one) { return one != 0; })) return Visible{};
  // Query i stands at key i + keys - queries; the last one tells how far back is seen.
  const std::int64_t offset = keys - queries;
  std::int64_t window = 0;
  for (std::int64_t j = 0; j < keys && !sees(queries - 1, j); ++j) window = keys - 1 - j;
  for (std::int64_t i = 0; i < queries; ++i) {
    if (i + offset < 0) return std::nullopt;  // it would see no key: a mean of all where masks are finite
    for (std::int64_t j = 0; j < keys; ++j) {
      const std::int64_t back = i + offset - j;
      if (sees(i, j) != (back >= 0 && (window == 0 || back < window))) return std::nullopt;
    }
  }
  return Visible{true, window};
}

/// Of a mask of rank 2 and more, all leading axes 1.
std::vector<double> matrix(const Match& m, ValueId v, std::int64_t queries, std::int64_t keys) {
  const Shape& shape = m.shape(v);
  if (shape.elements() != static_cast<std::uint64_t>(queries * keys) || shape.rank() < 2) return {};
  if (shape.back() != Dim(keys) || shape[shape.rank() - 2] != Dim(queries)) return {};
  return evaluate(m, v);
}

}  // namespace

std::vector<double> evaluate(const Match& m, ValueId v) {
  int budget = 24;  // of nodes: exporters leave a handful
  return evaluate_within(m, v, budget);
}

std::optional<Visible> additive_mask(const Match& m, ValueId v, double sign, std::int64_t queries, std::int64_t keys) {
  const std::vector<double> added = matrix(m, v, queries, keys);
  std::vector<char> seen;
  for (const double x : added) {
    if (x != 0 && !(sign * x <= kForbidden)) return std::nullopt;
    seen.push_back(x == 0);
  }
  return seen.empty() ? std::nullopt : as_band(seen, queries, keys);
}

std::optional<Visible> boolean_mask(const Match& m, ValueId v, bool seen, std::int64_t queries, std::int64_t keys) {
  const std::vector<double> condition = matrix(m, v, queries, keys);
  std::vector<char> visible;
  for (const double x : condition) visible.push_back((x != 0) == seen);
  return visible.empty() ? std::nullopt : as_band(visible, queries, keys);
}

}  // namespace graft::passes
