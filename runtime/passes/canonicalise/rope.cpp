// Rotary position embedding as LLaMA's code has it: x * cos + rotate_half(x) * sin, with tables of cosines and sines
// that stand in the file, are looked up by position or are computed from positions.
#include <algorithm>
#include <cmath>

#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/passes/canonicalise/masks.h"
#include "runtime/passes/match.h"
#include "runtime/passes/passes.h"

namespace graft::passes {
namespace {

/// What the angles of the tables are.
struct Angles {
  double theta = 0;              ///< of position * theta^(-2i / dim); 0: by frequencies
  ValueId positions = kNoValue;  ///< kNoValue: each token's index
  ValueId frequencies = kNoValue;
  std::size_t sequence_axis = 0;  ///< of x
};

/// x, where v is [-x2, x1] of x = [x1, x2], halves of the last axis.
ValueId rotated_of(const Match& m, ValueId v) {
  const Node* joined = m.node(Op::concat, v);
  const std::size_t rank = m.shape(v).rank();
  if (joined == nullptr || joined->inputs.size() != 2 || rank < 3) return kNoValue;
  const std::int64_t axis = joined->attrs.integer("axis");
  if (axis != -1 && axis != static_cast<std::int64_t>(rank) - 1) return kNoValue;
  ValueId minus = m.argument(Op::neg, joined->inputs[0]);
  if (const Node* scaled = m.node(Op::affine, joined->inputs[0])) {
    const bool negates = scaled->attrs.number("alpha", 1) == -1 && scaled->attrs.number("beta") == 0;
    if (negates) minus = scaled->inputs[0];
  }
  const Node* high = minus.valid() ? m.node(Op::slice, minus) : nullptr;
  const Node* low = m.node(Op::slice, joined->inputs[1]);
  if (high == nullptr || low == nullptr || high->inputs[0] != low->inputs[0]) return kNoValue;
  const ValueId x = low->inputs[0];
  const Shape& shape = m.shape(x);
  Shape half = m.shape(v);
  if (shape != half || half.back().value() % 2 != 0) return kNoValue;
  const std::int64_t middle = half.back().value() / 2;
  half[rank - 1] = middle;
  for (const Node* part : {low, high}) {
    // Only the last axis is cut: the others are whole and in their order.
    if (m.shape(part->outputs[0]) != half) return kNoValue;
    const Ints steps = part->attrs.integers("steps");
    if (std::ranges::any_of(steps, [](std::int64_t step) { return step != 1; })) return kNoValue;
    if (part->attrs.integers("starts").back() != (part == low ? 0 : middle)) return kNoValue;
  }
  return x;
}

/// theta, where the tables [positions, dim] hold the cosines and sines of position * theta^(-2i / dim), twice in a row;
/// 0 where they do not.
double theta_of(const std::vector<double>& cosines, const std::vector<double>& sines, std::size_t dim) {
  const std::size_t half = dim / 2, count = dim == 0 ? 0 : cosines.size() / dim;
  if (count < 2 || cosines.size() != sines.size() || cosines.size() != count * dim) return 0;
  // Of the second pair at position 1, where there is one.
  double theta = 10000;
  if (half > 1) {
    const double angle = std::atan2(sines[dim + 1], cosines[dim + 1]);
    if (!(angle > 0)) return 0;
    theta = std::pow(angle, -static_cast<double>(half));
    // What the table's rounding leaves open is a whole number as a rule.
    if (std::abs(theta - std::round(theta)) <= 1e-4 * theta) theta = std::round(theta);
  }
  for (std::size_t k = 0; k < cosines.size(); ++k) {
    const auto position = static_cast<double>(k / dim);
    const std::size_t pair = k % dim % half;
    const double angle = position * std::pow(theta, -static_cast<double>(pair) / static_cast<double>(half));
    // Angles were rounded to f32 in relation to their size before the tables were taken of them.
    const double tolerance = 1e-6 * (1 + position);
    if (!(std::abs(cosines[k] - std::cos(angle)) <= tolerance)) return 0;
    if (!(std::abs(sines[k] - std::sin(angle)) <= tolerance)) return 0;
  }
  return theta;
}

class TableReader {
 public:
  TableReader(const Match& m, ValueId x, bool inference) : m_(m), x_(m.shape(x)), inference_(inference) {}

  std::optional<Angles> read(ValueId cosine, ValueId sine) const {
    if (m_.shape(cosine) != m_.shape(sine) || m_.shape(cosine).rank() > x_.rank()) return std::nullopt;
    auto found = constants(cosine, sine);
    if (!found) found = gathered(cosine, sine);
    return found ? found : computed(cosine, sine);
  }

 private:
  Dim dim() const { return x_.back(); }

  /// The one axis of x before the last that a table [.., dim] is not the same along; 0 where there is none.
  std::size_t only_axis(const Shape& table) const {
    std::size_t found = 0;
    const std::size_t missing = x_.rank() - table.rank();
    if (table.rank() == 0 || table.back() != dim()) return 0;
    for (std::size_t i = 0; i + 1 < table.rank(); ++i) {
      if (table[i] == Dim(1)) continue;
      if (found != 0 || table[i] != x_[missing + i]) return 0;
      found = missing + i;
    }
    return found;
  }

  std::optional<Angles> constants(ValueId cosine, ValueId sine) const {
    Angles a;
    a.sequence_axis = only_axis(m_.shape(cosine));
    if (a.sequence_axis == 0) return std::nullopt;
    const auto width = static_cast<std::size_t>(dim().value());
    a.theta = theta_of(evaluate(m_, cosine), evaluate(m_, sine), width);
    return a.theta > 0 ? std::optional(a) : std::nullopt;
  }

  /// The axis of x that tokens of [batch, tokens, dim] stand at, seen as [batch, .., tokens, .., dim].
  std::size_t axis_of_tokens(const Shape& tokens, const Shape& spread) const {
    if (tokens.rank() != 3 || spread.rank() != x_.rank() || tokens[0] != x_[0] || spread[0] != x_[0]) return 0;
    std::size_t found = 0;
    for (std::size_t i = 1; i + 1 < x_.rank(); ++i) {
      if (spread[i] == Dim(1)) continue;
      if (found != 0 || spread[i] != x_[i] || spread[i] != tokens[1]) return 0;
      found = i;
    }
    return found;
  }

  ValueId unviewed(ValueId v) const {
    const ValueId x = m_.argument(Op::reshape, v);
    return x.valid() ? x : v;
  }

  /// Rows of tables, by positions.
  std::optional<Angles> gathered(ValueId cosine, ValueId sine) const {
    const Node* c = m_.node(Op::gather, unviewed(cosine));
    const Node* s = m_.node(Op::gather, unviewed(sine));
    if (c == nullptr || s == nullptr || c->inputs[1] != s->inputs[1] || c->attrs != s->attrs) return std::nullopt;
    if (c->attrs.integer("axis") != 0) return std::nullopt;
    Angles a;
    a.positions = c->inputs[1];
    const Shape& table = m_.shape(c->inputs[0]);
    if (table.rank() != 2 || table[1] != dim() || m_.value(a.positions).dtype != DType::i32) return std::nullopt;
    a.sequence_axis = axis_of_tokens(m_.shape(c->outputs[0]), m_.shape(cosine));
    a.theta = theta_of(m_.contents(c->inputs[0]), m_.contents(s->inputs[0]), static_cast<std::size_t>(dim().value()));
    return a.sequence_axis != 0 && a.theta > 0 ? std::optional(a) : std::nullopt;
  }

  /// The op has no gradient with respect to them.
  bool frequencies_stay(ValueId v) const {
    const ValueKind kind = m_.value(v).kind;
    return kind == ValueKind::constant || (inference_ && kind == ValueKind::parameter);
  }

  /// cos and sin of [angles, angles], where angles are positions [batch, tokens, 1] times frequencies [1, 1, dim / 2].
  std::optional<Angles> computed(ValueId cosine, ValueId sine) const {
    const ValueId both = m_.argument(Op::cos, unviewed(cosine));
    const Node* twice = both.valid() ? m_.node(Op::concat, both) : nullptr;
    if (twice == nullptr || m_.argument(Op::sin, unviewed(sine)) != both || twice->inputs.size() != 2) {
      return std::nullopt;
    }
    if (twice->inputs[0] != twice->inputs[1]) return std::nullopt;
    const ValueId angles = twice->inputs[0];
    const Node* product = m_.node(Op::matmul, angles);
    if (product == nullptr) product = m_.node(Op::mul, angles);
    if (product == nullptr || product->inputs.size() != 2 || product->attrs.flag("trans_a") ||
        product->attrs.flag("trans_b")) {
      return std::nullopt;
    }
    Angles a;
    a.frequencies = product->inputs[1];
    ValueId places = product->inputs[0];
    for (int i = 0; i < 3; ++i) {
      const ValueId inner = m_.argument(Op::cast, places);
      places = unviewed(inner.valid() ? inner : places);
    }
    a.positions = places;
    const Shape& tokens = m_.shape(both);
    a.sequence_axis = axis_of_tokens(tokens, m_.shape(cosine));
    const bool fits = a.sequence_axis != 0 && m_.value(places).dtype == DType::i32 &&
                      m_.shape(places) == Shape{tokens[0], tokens[1]} &&
                      m_.shape(product->inputs[0]) == Shape{tokens[0], tokens[1], 1} &&
                      m_.shape(a.frequencies).elements() * 2 == static_cast<std::uint64_t>(dim().value()) &&
                      2 * m_.shape(a.frequencies).back().value() == dim().value() && frequencies_stay(a.frequencies);
    return fits && tokens.back() == dim() ? std::optional(a) : std::nullopt;
  }

  const Match& m_;
  const Shape& x_;
  bool inference_;
};

Status emit(Rewriter& r, const Match& m, const Node& node, ValueId x, const Angles& a) {
  Builder& b = r.builder();
  const Shape& shape = m.shape(x);
  const std::size_t rank = shape.rank();
  // The op takes [.., tokens, heads, dim].
  ValueId y = r.at(x);
  const bool tokens_last = a.sequence_axis == rank - 2;
  Ints perm;
  if (tokens_last && rank >= 4) {
    for (std::size_t i = 0; i < rank; ++i) perm.push_back(static_cast<std::int64_t>(i));
    std::swap(perm[rank - 2], perm[rank - 3]);
    y = b.transpose(y, perm);
  } else if (tokens_last) {
    y = b.reshape(y, {shape[0], shape[1], 1, shape[2]});
  }
  std::vector<ValueId> inputs = {y};
  Attrs attrs;
  if (a.positions.valid()) inputs.push_back(r.at(a.positions));
  if (a.frequencies.valid()) {
    inputs.push_back(b.reshape(r.at(a.frequencies), {shape.back().value() / 2}));
  } else {
    attrs.set("theta", a.theta);
  }
  y = b.node(Op::rope, std::move(inputs), std::move(attrs), node.name);
  if (!perm.empty()) y = b.transpose(y, perm);
  r.replace(node.outputs[0], b.reshape(y, shape));
  return b.status();
}

Result<bool> rope(Rewriter& r, const Match& m, const Node& node, bool inference) {
  if (node.op != Op::add) return false;
  const ValueId v = node.outputs[0];
  for (const std::size_t i : {0, 1}) {
    const Node* plain = m.node(Op::mul, node.inputs[i]);
    const Node* turned = m.node(Op::mul, node.inputs[1 - i]);
    if (plain == nullptr || turned == nullptr) continue;
    for (const std::size_t k : {0, 1}) {
      const ValueId x = rotated_of(m, turned->inputs[k]);
      if (!x.valid() || (plain->inputs[0] != x && plain->inputs[1] != x) || m.shape(x) != m.shape(v)) continue;
      const ValueId cosine = plain->inputs[plain->inputs[0] == x ? 1 : 0];
      const ValueId sine = turned->inputs[1 - k];
      const auto angles = TableReader(m, x, inference).read(cosine, sine);
      // [.., tokens, heads, dim] or [.., heads, tokens, dim].
      if (!angles || angles->sequence_axis + 3 < m.shape(x).rank()) continue;
      if (!m.owns(v, {x, cosine, sine})) continue;
      GRAFT_TRY(emit(r, m, node, x, *angles));
      return true;
    }
  }
  return false;
}

Result<bool> for_training(Rewriter& r, const Match& m, const Node& node) { return rope(r, m, node, false); }
Result<bool> for_inference(Rewriter& r, const Match& m, const Node& node) { return rope(r, m, node, true); }

}  // namespace

Result<PassGraph> canonicalise_rope(const PassGraph& graph, const PrepareOptions& options) {
  const Rule rules[] = {options.inference ? for_inference : for_training};
  return apply_rules(graph, rules);
}

}  // namespace graft::passes
