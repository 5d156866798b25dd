#include "runtime/passes/canonicalise/rope_tables.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/passes/canonicalise/masks.h"

namespace graft::passes {
namespace {

using Columns = std::vector<std::size_t>;

/// theta and magnitude of tables [positions, columns] of cosines and sines of position * theta^(-2i / dim), where
/// column k is of pair pairs[k]; a theta of 0 where they are none.
Angles constant_angles(const std::vector<double>& cosines, const std::vector<double>& sines, const Columns& pairs,
                       std::size_t half) {
  Angles a;
  const std::size_t width = pairs.size(), count = width == 0 ? 0 : cosines.size() / width;
  if (count < 2 || cosines.size() != sines.size() || cosines.size() != count * width) return a;
  const auto near_to = [](double value, double wanted, double tolerance) {
    return std::abs(value - wanted) <= tolerance * std::abs(wanted);
  };
  // Position 0 turns by nothing.
  a.magnitude = near_to(cosines[0], 1, 1e-6) ? 1 : cosines[0];
  if (!(a.magnitude > 0) || !std::isfinite(a.magnitude)) return a;
  // Of the second pair at position 1, where there is one.
  double theta = 10000;
  if (half > 1) {
    const auto second = static_cast<std::size_t>(std::ranges::find(pairs, std::size_t{1}) - pairs.begin());
    const double angle = std::atan2(sines[width + second], cosines[width + second]);
    if (!(angle > 0)) return a;
    theta = std::pow(angle, -static_cast<double>(half));
    // What the table's rounding leaves open is a whole number as a rule.
    if (near_to(theta, std::round(theta), 1e-4)) theta = std::round(theta);
  }
  for (std::size_t k = 0; k < cosines.size(); ++k) {
    const auto position = static_cast<double>(k / width);
    const auto pair = static_cast<double>(pairs[k % width]);
    const double angle = position * std::pow(theta, -pair / static_cast<double>(half));
    // Angles were rounded to f32 in relation to their size before the tables were taken of them.
    const double tolerance = 1e-6 * (1 + position) * a.magnitude;
    if (!(std::abs(cosines[k] - a.magnitude * std::cos(angle)) <= tolerance)) return a;
    if (!(std::abs(sines[k] - a.magnitude * std::sin(angle)) <= tolerance)) return a;
  }
  a.theta = theta;
  return a;
}

/// A table made for each token from one node: by looking up rows, or as a product of positions and frequencies.
struct ByToken {
  const Node* source = nullptr;  ///< gather, mul or matmul
  Columns columns;               ///< of what it gives, that the table is made of
  Op function = Op::count_;      ///< cos or sin, taken of it
  double magnitude = 1;
};

class TableReader {
 public:
  TableReader(const Match& m, const Turned& x, bool inference) : m_(m), x_(x.shape), inference_(inference) {
    half_ = static_cast<std::size_t>(x.shape.back().value() / 2);
    interleaved_ = x.interleaved;
  }

  std::optional<Angles> read(ValueId cosine, ValueId sine) const {
    const Shape& shape = m_.shape(cosine);
    if (shape != m_.shape(sine) || shape.rank() == 0 || shape.rank() > x_.rank()) return std::nullopt;
    const Columns pairs = pairs_of(static_cast<std::size_t>(shape.back().value()));
    if (pairs.empty()) return std::nullopt;
    if (auto found = constants(cosine, sine, pairs)) return found;
    const auto c = by_token(cosine), s = by_token(sine);
    if (!c || !s || c->columns.size() != pairs.size() || s->columns.size() != pairs.size()) return std::nullopt;
    return c->function == Op::count_ ? looked_up(cosine, *c, *s, pairs) : computed(cosine, *c, *s, pairs);
  }

 private:
  /// Which pair each column of a table is of; empty where there are too many or too few.
  Columns pairs_of(std::size_t width) const {
    if (width != half_ && width != 2 * half_) return {};
    Columns pairs;
    for (std::size_t k = 0; k < width; ++k) pairs.push_back(width == half_ || !interleaved_ ? k % half_ : k / 2);
    return pairs;
  }

  /// The one axis of x before the last that a table is not the same along; 0 where there is none.
  std::size_t only_axis(const Shape& table) const {
    std::size_t found = 0;
    const std::size_t missing = x_.rank() - table.rank();
    for (std::size_t i = 0; i + 1 < table.rank(); ++i) {
      if (table[i] == Dim(1)) continue;
      if (found != 0 || table[i] != x_[missing + i]) return 0;
      found = missing + i;
    }
    return found;
  }

  std::optional<Angles> constants(ValueId cosine, ValueId sine, const Columns& pairs) const {
    const std::size_t axis = only_axis(m_.shape(cosine));
    if (axis == 0) return std::nullopt;
    Angles a = constant_angles(evaluate(m_, cosine), evaluate(m_, sine), pairs, half_);
    a.sequence_axis = axis;
    return a.theta > 0 ? std::optional(a) : std::nullopt;
  }

  /// The shape without axes of size 1, but for the last.
  static std::vector<Dim> essential(const Shape& shape) {
    std::vector<Dim> dims;
    for (std::size_t i = 0; i < shape.rank(); ++i) {
      if (i + 1 == shape.rank() || shape[i] != Dim(1)) dims.push_back(shape[i]);
    }
    return dims;
  }

  /// y, where v is y [.., n] with each element of the last axis `times` times in a row.
  ValueId repeated(ValueId v, std::size_t& times) const {
    const ValueId spread = m_.argument(Op::reshape, v);
    const ValueId apart = spread.valid() ? m_.argument(Op::expand, spread) : kNoValue;
    const ValueId y = apart.valid() ? m_.argument(Op::reshape, apart) : kNoValue;
    if (!y.valid() || m_.shape(apart).rank() < 2 || m_.shape(apart).back() != Dim(1)) return kNoValue;
    Shape wanted = m_.shape(apart);
    wanted[wanted.rank() - 1] = m_.shape(spread).back();
    times = static_cast<std::size_t>(wanted.back().value());
    const auto count = static_cast<std::int64_t>(times) * m_.shape(y).back().value();
    const bool fits = m_.shape(spread) == wanted && wanted[wanted.rank() - 2] == m_.shape(y).back() &&
                      m_.shape(v).back() == Dim(count);
    return fits ? y : kNoValue;
  }

  std::optional<ByToken> by_token(ValueId v, int depth = 12) const {
    const NodeId producer = m_.value(v).producer;
    if (!producer.valid() || depth == 0) return std::nullopt;
    const Node& node = m_.source().node(producer);
    const auto inner = [&](std::size_t i) { return by_token(node.inputs[i], depth - 1); };
    const std::size_t rank = m_.shape(v).rank();
    switch (node.op) {
      case Op::gather:
      case Op::mul:
      case Op::matmul: {
        ByToken t;
        t.source = &node;
        t.columns.resize(static_cast<std::size_t>(m_.shape(v).back().value()));
        std::iota(t.columns.begin(), t.columns.end(), std::size_t{0});
        return t;
      }
      case Op::reshape: {
        std::size_t times = 0;
        if (const ValueId y = repeated(v, times); y.valid()) {
          auto t = by_token(y, depth - 1);
          Columns columns;
          for (std::size_t k = 0; t && k < t->columns.size() * times; ++k) columns.push_back(t->columns[k / times]);
          if (t) t->columns = columns;
          return t;
        }
        return essential(m_.shape(v)) == essential(m_.shape(node.inputs[0])) ? inner(0) : std::nullopt;
      }
      case Op::transpose: {
        // Frequencies first: [h, 1] times [1, tokens].
        const Ints perm = node.attrs.integers("perm");
        auto t = inner(0);
        if (!t || t->source->op != Op::matmul || t->source->outputs[0] != node.inputs[0] || rank < 2) return {};
        const auto last = static_cast<std::int64_t>(rank) - 1;
        if (perm.back() != last - 1 || perm[rank - 2] != last) return {};
        t->columns.resize(static_cast<std::size_t>(m_.shape(v).back().value()));
        std::iota(t->columns.begin(), t->columns.end(), std::size_t{0});
        return t;
      }
      case Op::slice: {
        Shape wanted = m_.shape(node.inputs[0]);
        wanted[rank - 1] = m_.shape(v).back();
        auto t = wanted == m_.shape(v) ? inner(0) : std::nullopt;
        Columns columns;
        const auto start = static_cast<std::size_t>(node.attrs.integers("starts").back());
        const std::int64_t step = node.attrs.integers("steps").back();
        for (std::int64_t k = 0; t && step > 0 && k < wanted.back().value(); ++k) {
          columns.push_back(t->columns[start + static_cast<std::size_t>(k * step)]);
        }
        if (t) t->columns = columns;
        return t;
      }
      case Op::concat: {
        const std::int64_t axis = node.attrs.integer("axis");
        if (axis != -1 && axis != static_cast<std::int64_t>(rank) - 1) return {};
        auto t = inner(0);
        for (std::size_t i = 1; t && i < node.inputs.size(); ++i) {
          const auto more = inner(i);
          if (!more || more->source != t->source || more->function != t->function || more->magnitude != t->magnitude) {
            return {};
          }
          t->columns.insert(t->columns.end(), more->columns.begin(), more->columns.end());
        }
        return t;
      }
      case Op::affine: {
        auto t = node.attrs.number("beta") == 0 ? inner(0) : std::nullopt;
        // What is multiplied before the function is no magnitude.
        if (t && t->source->op != Op::gather && t->function == Op::count_) return {};
        if (t) t->magnitude *= node.attrs.number("alpha");
        return t;
      }
      case Op::cos:
      case Op::sin: {
        auto t = inner(0);
        if (!t || t->function != Op::count_ || t->source->op == Op::gather) return {};
        t->function = node.op;
        return t;
      }
      default: return {};
    }
  }

  /// The axis of x that tokens stand at, for a table [batch or 1, .., tokens, .., columns]; positions are then one for
  /// each token (where it is the same for all items) or for each token of each item.
  std::size_t axis_of_tokens(const Shape& table, ValueId positions) const {
    const Shape& places = m_.shape(positions);
    if (m_.value(positions).dtype != DType::i32) return 0;
    const bool same = table.rank() < x_.rank() || table[0] == Dim(1);
    if (same) {
      const std::size_t axis = only_axis(table);
      return axis != 0 && places.elements() == static_cast<std::uint64_t>(x_[axis].value()) ? axis : 0;
    }
    if (places.rank() < 2 || places[0] != x_[0] || table[0] != x_[0]) return 0;
    Shape item = table;
    item[0] = 1;
    const std::size_t axis = only_axis(item);
    const bool all = axis != 0 && places.elements() == static_cast<std::uint64_t>(x_[0].value() * x_[axis].value());
    return all ? axis : 0;
  }

  /// Rows of tables, by positions.
  std::optional<Angles> looked_up(ValueId table, const ByToken& c, const ByToken& s, const Columns& pairs) const {
    if (s.function != Op::count_ || c.source->op != Op::gather || s.source->op != Op::gather) return std::nullopt;
    if (c.source->inputs[1] != s.source->inputs[1] || c.source->attrs != s.source->attrs) return std::nullopt;
    if (c.source->attrs.integer("axis") != 0 || c.magnitude != s.magnitude) return std::nullopt;
    const auto rows = [&](const ByToken& t) {
      const Shape& shape = m_.shape(t.source->inputs[0]);
      std::vector<double> out;
      if (shape.rank() != 2) return out;
      const std::vector<double> all = m_.contents(t.source->inputs[0]);
      const auto width = static_cast<std::size_t>(shape[1].value());
      for (std::size_t row = 0; row * width < all.size(); ++row) {
        for (const std::size_t column : t.columns) out.push_back(t.magnitude * all[row * width + column]);
      }
      return out;
    };
    const ValueId positions = c.source->inputs[1];
    const std::size_t axis = axis_of_tokens(m_.shape(table), positions);
    if (axis == 0) return std::nullopt;
    Angles a = constant_angles(rows(c), rows(s), pairs, half_);
    a.positions = positions;
    a.sequence_axis = axis;
    return a.theta > 0 ? std::optional(a) : std::nullopt;
  }

  /// Without casts and moves that keep all elements in their order, and without repetitions.
  ValueId origin(ValueId v) const {
    for (int i = 0; i < 6; ++i) {
      ValueId x = m_.argument(Op::reshape, v);
      if (!x.valid()) x = m_.argument(Op::cast, v);
      if (!x.valid()) x = m_.argument(Op::expand, v);
      if (!x.valid()) break;
      v = x;
    }
    return v;
  }

  /// The op has no gradient with respect to them.
  bool stays(ValueId v) const {
    const ValueKind kind = m_.value(v).kind;
    return kind == ValueKind::constant || (inference_ && kind == ValueKind::parameter);
  }

  /// cos and sin of positions [.., tokens, 1] times frequencies [.., 1, dim / 2], or the other way round.
  std::optional<Angles> computed(ValueId table, const ByToken& c, const ByToken& s, const Columns& pairs) const {
    if (c.function != Op::cos || s.function != Op::sin || c.source->inputs != s.source->inputs) return std::nullopt;
    if (c.source->op != s.source->op || c.magnitude != s.magnitude || c.columns != pairs || s.columns != pairs) {
      return std::nullopt;
    }
    const Node& product = *c.source;
    if (product.inputs.size() != 2 || product.attrs.flag("trans_a") || product.attrs.flag("trans_b")) {
      return std::nullopt;
    }
    for (const std::size_t i : {0, 1}) {
      const ValueId places = origin(product.inputs[i]), frequencies = origin(product.inputs[1 - i]);
      // One axis of each is summed over or multiplied, and it is of size 1.
      const Shape& by = m_.shape(product.inputs[1 - i]);
      if (!stays(frequencies) || m_.shape(frequencies).elements() != half_ || by.rank() < 1) continue;
      const bool matrix = product.op == Op::matmul;
      const bool columns = by.back() == Dim(static_cast<std::int64_t>(half_));
      const bool rows = matrix && i == 1 && by.rank() >= 2 && by.back() == Dim(1) &&
                        by[by.rank() - 2] == Dim(static_cast<std::int64_t>(half_));
      const Shape& at = m_.shape(product.inputs[i]);
      if (columns ? (matrix && i == 1) || at.back() != Dim(1) : !rows) continue;
      if (rows && (at.rank() < 2 || at[at.rank() - 2] != Dim(1))) continue;
      if (at.elements() != m_.shape(places).elements()) continue;
      const std::size_t axis = axis_of_tokens(m_.shape(table), places);
      if (axis == 0) continue;
      Angles a;
      a.magnitude = c.magnitude;
      a.positions = places;
      a.frequencies = frequencies;
      a.sequence_axis = axis;
      return a;
    }
    return std::nullopt;
  }

  const Match& m_;
  Shape x_;
  bool inference_;
  std::size_t half_ = 0;
  bool interleaved_ = false;
};

}  // namespace

std::optional<Angles> read_angles(const Match& m, const Turned& x, ValueId cosine, ValueId sine, bool inference) {
  return TableReader(m, x, inference).read(cosine, sine);
}

}  // namespace graft::passes
