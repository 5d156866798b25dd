// Attention spelled out: softmax(q k^T * scale + mask) v on [.., heads, tokens, head], however the heads got there.
#include <algorithm>
#include <cmath>

#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/passes/canonicalise/masks.h"
#include "runtime/passes/match.h"
#include "runtime/passes/passes.h"

namespace graft::passes {
namespace {

constexpr std::int64_t kMaxHead = 256;  // of the op attention

constexpr double kHidden = -3.4028234663852886e38;  // the lowest f32: such a key is not seen, as with minus infinity

/// A mask that is data: what is added to the scores, or where they are seen or not.
struct DataMask {
  ValueId value;
  bool seen = true;       ///< of a boolean: what it is where a key is seen
  double fill = kHidden;  ///< with a boolean: what is added elsewhere
};

/// The scores under a softmax, down to the product of queries and keys.
struct Scores {
  const Node* product = nullptr;
  double scale = 1;
  Visible visible;
  std::vector<ValueId> masks;   ///< that are told by `visible` now
  std::vector<DataMask> added;  ///< to scores of this shape:
  Shape shape;
};

class Reader {
 public:
  Reader(const Rewriter& r, const Match& m, bool inference) : r_(r), m_(m), inference_(inference) {}

  /// Reads v times `scale`, of the shape [.., queries, keys].
  bool read(ValueId v, double scale, Scores& out, int depth = 8) const {
    const Node* node = r_.is_inner(v) ? r_.producer(v) : nullptr;
    if (node == nullptr || depth == 0) return false;
    const auto inner = [&](std::size_t i, double times) {
      return read(node->inputs[i], scale * times, out, depth - 1);
    };
    switch (node->op) {
      case Op::matmul:
        out.product = node;
        out.scale = scale;
        return node->inputs.size() == 2;
      case Op::affine:
        // A number that is added to all scores changes no weight.
        return std::isfinite(node->attrs.number("beta")) && inner(0, node->attrs.number("alpha"));
      case Op::reshape: return keeps_matrices(*node) && inner(0, 1);
      case Op::where: return read_where(*node, scale, out, depth);
      case Op::add: return read_added(*node, 0, 1, scale, out, depth) || read_added(*node, 1, 1, scale, out, depth);
      case Op::sub: return read_added(*node, 0, -1, scale, out, depth);
      default: return false;
    }
  }

 private:
  std::int64_t size(ValueId v, std::size_t from_end) const {
    const Shape& shape = m_.shape(v);
    return shape.rank() < from_end ? 1 : shape[shape.rank() - from_end].value();
  }

  bool keeps_matrices(const Node& view) const {
    const ValueId x = view.inputs[0], y = view.outputs[0];
    return m_.shape(x).rank() >= 2 && m_.shape(y).rank() >= 2 && size(x, 1) == size(y, 1) && size(x, 2) == size(y, 2);
  }

  bool accept(const std::optional<Visible>& visible, ValueId mask, Scores& out) const {
    if (!visible || (visible->causal && out.visible.causal)) return false;
    if (visible->causal) out.visible = *visible;
    out.masks.push_back(mask);
    return true;
  }

  /// where(seen, scores, -inf), or the other way round.
  bool read_where(const Node& node, double scale, Scores& out, int depth) const {
    const ValueId v = node.outputs[0];
    for (const std::size_t i : {1, 2}) {
      const auto fill = m_.number(node.inputs[3 - i]);
      if (!fill || !(scale * *fill <= kForbidden) || m_.shape(node.inputs[i]) != m_.shape(v)) continue;
      const auto visible = boolean_mask(m_, node.inputs[0], i == 1, size(v, 2), size(v, 1));
      if (visible) return read(node.inputs[i], scale, out, depth - 1) && accept(visible, node.inputs[0], out);
      // Where a number takes a score's place, queries that see no key weigh all alike; where it is added, they do not.
      // With infinities both are no numbers. Where all queries see the same keys, an item that is padding alone is
      // what differs, and nobody reads it.
      const double added = scale * *fill;
      if (std::isfinite(added) && size(node.inputs[0], 2) != 1) return false;
      Scores found = out;
      if (!read(node.inputs[i], scale, found, depth - 1)) return false;
      return accept_data({node.inputs[0], i == 1, std::max(added, kHidden)}, m_.shape(v), found) && assign(out, found);
    }
    return false;
  }

  static bool assign(Scores& out, const Scores& found) {
    out = found;
    return true;
  }

  static bool accept_data(const DataMask& mask, const Shape& shape, Scores& out) {
    if (!out.added.empty() && out.shape != shape) return false;
    out.added.push_back(mask);
    out.shape = shape;
    return true;
  }

  /// scores + mask, where operand i is the scores; scores * b - 1e4 * (1 - b) as well.
  bool read_added(const Node& node, std::size_t i, double sign, double scale, Scores& out, int depth) const {
    const ValueId scores = node.inputs[i], mask = node.inputs[1 - i], v = node.outputs[0];
    if (m_.shape(scores) != m_.shape(v)) return false;
    const auto visible = additive_mask(m_, mask, sign * scale, size(v, 2), size(v, 1));
    Scores found = out;
    if (!visible) {
      if (sign * scale != 1 || !is_data(mask) || !read(scores, scale, found, depth - 1)) return false;
      return accept_data({mask}, m_.shape(v), found) && assign(out, found);
    }
    if (const Node* kept = r_.is_inner(scores) ? m_.node(Op::mul, scores) : nullptr) {
      for (const std::size_t k : {0, 1}) {
        const ValueId seen = kept->inputs[1 - k];
        const auto same = boolean_mask(m_, seen, true, size(v, 2), size(v, 1));
        if (!same || same->causal != visible->causal || same->window != visible->window || !is_zero_or_one(seen)) {
          continue;
        }
        if (!read(kept->inputs[k], scale, found, depth - 1) || !accept(visible, mask, found)) return false;
        found.masks.push_back(seen);
        out = found;
        return true;
      }
    }
    if (!read(scores, scale, found, depth - 1) || !accept(visible, mask, found)) return false;
    out = found;
    return true;
  }

  /// Whether no gradient is asked of it: it comes from no parameter and from no pinned value. Position biases that are
  /// learned do, in training.
  bool is_data(ValueId mask) const {
    constexpr std::size_t kMaxValues = 64;
    if (m_.value(mask).dtype != DType::f32) return false;
    std::vector<ValueId> seen = {mask};
    for (std::size_t next = 0; next < seen.size(); ++next) {
      const Value& value = m_.value(seen[next]);
      if (r_.is_pinned(seen[next]) || seen.size() > kMaxValues) return false;
      if (value.kind == ValueKind::parameter && value.dtype == DType::f32 && !inference_) return false;
      if (!value.producer.valid()) continue;
      for (const ValueId input : m_.source().node(value.producer).inputs) {
        if (input.valid() && std::ranges::find(seen, input) == seen.end()) seen.push_back(input);
      }
    }
    return true;
  }

  bool is_zero_or_one(ValueId v) const {
    return std::ranges::all_of(evaluate(m_, v), [](double x) { return x == 0 || x == 1; });
  }

  const Rewriter& r_;
  const Match& m_;
  bool inference_;
};

/// An operand without the numbers it is multiplied by: its origin, and the moves from there.
struct Unscaled {
  ValueId origin;
  std::vector<const Node*> moves;  ///< the first one last
  double scale = 1;
};

Unscaled unscaled(const Rewriter& r, ValueId v) {
  Unscaled out{v, {}, 1};
  std::vector<const Node*> moves;
  double scale = 1;
  for (const Node* node = r.producer(v); node != nullptr && r.is_inner(v); node = r.producer(v)) {
    if (node->op == Op::reshape || node->op == Op::transpose || node->op == Op::expand) {
      moves.push_back(node);
    } else if (node->op == Op::affine && node->attrs.number("beta") == 0) {
      scale *= node->attrs.number("alpha");
      out = {node->inputs[0], moves, scale};
    } else {
      break;
    }
    v = node->inputs[0];
  }
  return out;
}

/// Matrices [batch, heads, rows, columns], from a tensor [.., rows, columns].
struct Heads {
  Dim batch, heads;
};

struct Found {
  ValueId root;
  const Node* mixed = nullptr;  ///< weights times values
  Scores scores;
  Unscaled q, k;
  ValueId v;
  Heads heads;
  Dim queries, keys, head;
  ValueId k_shared = kNoValue;  ///< [batch, fewer heads, 1, keys, head], where several query heads read one
  ValueId v_shared = kNoValue;
};

/// x [b, g, 1, s, d], where v is x expanded to [b, g, r, s, d] and seen as [b, g * r, s, d].
ValueId shared_heads(const Rewriter& r, const Match& m, ValueId v) {
  const ValueId expanded = r.is_inner(v) ? m.argument(Op::reshape, v) : kNoValue;
  const ValueId x = expanded.valid() && r.is_inner(expanded) ? m.argument(Op::expand, expanded) : kNoValue;
  if (!x.valid() || m.shape(x).rank() != 5 || m.shape(v).rank() != 4 || m.shape(expanded).rank() != 5) {
    return kNoValue;
  }
  Shape wanted = m.shape(expanded);
  wanted[2] = 1;
  const Shape& full = m.shape(v);
  const bool fits = m.shape(x) == wanted && wanted[0] == full[0] && wanted[3] == full[2] && wanted[4] == full[3];
  return fits ? x : kNoValue;
}

/// The four axes [batch, heads, rows, columns] that the three of v were made of, where they were.
std::optional<Heads> heads_before(const Match& m, ValueId v) {
  const ValueId apart = m.argument(Op::reshape, v);
  if (!apart.valid() || m.shape(apart).rank() != 4) return std::nullopt;
  const Shape& four = m.shape(apart);
  const bool same = four[2] == m.shape(v)[1] && four[3] == m.shape(v)[2];
  return same ? std::optional(Heads{four[0], four[1]}) : std::nullopt;
}

/// How the leading axes are parted into batch and heads: where three axes came from four, as there; where heads were
/// moved to the front, all of it is heads of one item, so that nothing has to be moved again.
Heads heads_of(const Match& m, const Shape& shape, std::initializer_list<ValueId> operands) {
  const std::size_t rank = shape.rank();
  if (rank == 2) return {1, 1};
  if (rank != 3) return {static_cast<std::int64_t>(shape.elements(0, rank - 3)), shape[rank - 3]};
  for (const ValueId v : operands) {
    if (m.shape(v).rank() != 3) continue;
    if (const auto apart = heads_before(m, v)) return *apart;
    const Node* moved = m.node(Op::transpose, v);
    if (moved != nullptr && moved->attrs.integers("perm")[0] != 0) return {1, shape[0]};
  }
  return {shape[0], 1};
}

bool same_leading(const Shape& a, const Shape& b) {
  return a.rank() == b.rank() && std::equal(a.begin(), a.end() - 2, b.begin());
}

std::optional<Found> find(const Rewriter& r, const Match& m, const Node& node, bool inference) {
  if (node.op != Op::matmul || node.inputs.size() != 2 || node.attrs.flag("trans_a")) return std::nullopt;
  const Node* softmax = r.is_inner(node.inputs[0]) ? m.node(Op::softmax, node.inputs[0]) : nullptr;
  if (softmax == nullptr) return std::nullopt;
  const Shape& weights = m.shape(softmax->outputs[0]);
  const std::int64_t axis = softmax->attrs.integer("axis");
  if (weights.rank() < 2 || (axis != -1 && axis != static_cast<std::int64_t>(weights.rank()) - 1)) return std::nullopt;
  Found f;
  f.root = node.outputs[0];
  f.mixed = &node;
  if (!Reader(r, m, inference).read(softmax->inputs[0], 1, f.scores)) return std::nullopt;
  f.q = unscaled(r, f.scores.product->inputs[0]);
  f.k = unscaled(r, f.scores.product->inputs[1]);
  f.scores.scale *= f.q.scale * f.k.scale;
  f.v = node.inputs[1];
  const Shape& q = m.shape(f.scores.product->inputs[0]);
  const Shape& k = m.shape(f.scores.product->inputs[1]);
  const Shape& v = m.shape(f.v);
  // Nothing is broadcast, and values are as long as keys.
  if (q.rank() < 2 || !same_leading(q, k) || v.rank() < 2) return std::nullopt;
  if (m.shape(f.scores.product->outputs[0]) != weights && v.rank() != weights.rank()) return std::nullopt;
  if (!same_leading(v, weights) || q.elements(0, q.rank() - 2) != v.elements(0, v.rank() - 2)) return std::nullopt;
  const bool trans_q = f.scores.product->attrs.flag("trans_a");
  f.queries = q[q.rank() - (trans_q ? 1 : 2)];
  f.head = q[q.rank() - (trans_q ? 2 : 1)];
  f.keys = weights.back();
  const Dim mixed = m.shape(f.root).back();
  if (f.head != mixed || f.head.value() > kMaxHead || !std::isfinite(f.scores.scale)) return std::nullopt;
  f.heads = heads_of(m, q, {f.v, f.scores.product->inputs[0], f.scores.product->inputs[1]});
  if (v.rank() != q.rank()) f.heads = v.rank() == 4 ? Heads{v[0], v[1]} : f.heads;
  if (f.k.moves.empty() && f.scores.product->attrs.flag("trans_b") && !node.attrs.flag("trans_b")) {
    f.k_shared = shared_heads(r, m, f.k.origin);
    f.v_shared = shared_heads(r, m, f.v);
    if (!f.k_shared.valid() || !f.v_shared.valid() || m.shape(f.k_shared) != m.shape(f.v_shared)) {
      f.k_shared = f.v_shared = kNoValue;
    }
  }
  return f;
}

class Writer {
 public:
  Writer(Rewriter& r, const Match& m, const Found& f) : r_(r), m_(m), b_(r.builder()), f_(f) {}

  Status run() {
    const Attrs& product = f_.scores.product->attrs;
    const ValueId q = tokens_first(replayed(f_.q), f_.heads.heads, product.flag("trans_a"));
    const bool shared = f_.k_shared.valid();
    const ValueId k = shared ? tokens_first(r_.at(f_.k_shared), m_.shape(f_.k_shared)[1], false)
                             : tokens_first(replayed(f_.k), f_.heads.heads, !product.flag("trans_b"));
    const ValueId v = shared ? tokens_first(r_.at(f_.v_shared), m_.shape(f_.v_shared)[1], false)
                             : tokens_first(r_.at(f_.v), f_.heads.heads, f_.mixed->attrs.flag("trans_b"));
    const Visible& visible = f_.scores.visible;
    std::vector<ValueId> inputs = {q, k, v};
    if (!f_.scores.added.empty()) inputs.insert(inputs.end(), {kNoValue, mask()});
    const ValueId y =
        b_.node(Op::attention, std::move(inputs),
                {{"scale", f_.scores.scale}, {"causal", std::int64_t{visible.causal}}, {"window", visible.window}},
                f_.mixed->name);
    if (b_.status().ok()) r_.replace(f_.root, b_.reshape(b_.transpose(y, {0, 2, 1, 3}), m_.shape(f_.root)));
    return b_.status();
  }

 private:
  /// [batch or 1, heads or 1, queries or 1, keys].
  ValueId mask() {
    ValueId x = number(f_.scores.added[0]);
    for (std::size_t i = 1; i < f_.scores.added.size(); ++i) x = b_.add(x, number(f_.scores.added[i]));
    if (!x.valid()) return x;
    const Shape& scores = f_.scores.shape;
    std::vector<Dim> dims(b_.shape(x).begin(), b_.shape(x).end());
    dims.insert(dims.begin(), scores.rank() - dims.size(), Dim(1));
    if (dims.back() != f_.keys) {
      dims.back() = f_.keys;
      x = b_.expand(x, Shape(dims));
    }
    const Dim queries = dims[dims.size() - 2];
    const bool same = std::all_of(dims.begin(), dims.end() - 2, [](const Dim& dim) { return dim == Dim(1); });
    if (same) return b_.reshape(x, {1, 1, queries, f_.keys});
    if (scores.rank() == 4 && f_.heads.batch == scores[0]) return b_.reshape(x, Shape(dims));
    // Batch and heads as one axis or as several: parted as the operands are.
    std::copy(scores.begin(), scores.end() - 2, dims.begin());
    return b_.reshape(b_.expand(x, Shape(dims)), {f_.heads.batch, f_.heads.heads, queries, f_.keys});
  }

  /// What is added to the scores.
  ValueId number(const DataMask& mask) {
    const ValueId x = r_.at(mask.value);
    if (m_.value(mask.value).dtype == DType::f32) return x;
    const ValueId one = b_.node(Op::cast, {x}, {{"to", static_cast<std::int64_t>(DType::f32)}});
    return mask.seen ? b_.affine(one, -mask.fill, mask.fill) : b_.scale(one, mask.fill);
  }

  ValueId replayed(const Unscaled& operand) {
    ValueId x = r_.at(operand.origin);
    for (std::size_t i = operand.moves.size(); i-- > 0;) {
      x = b_.node(operand.moves[i]->op, {x}, operand.moves[i]->attrs, operand.moves[i]->name);
    }
    return x;
  }

  /// [.., tokens, head], or with `columns` [.., head, tokens], as [batch, tokens, heads, head].
  ValueId tokens_first(ValueId x, const Dim& heads, bool columns) {
    if (!x.valid()) return x;
    const Shape& shape = b_.shape(x);
    const Dim rows = shape[shape.rank() - 2], last = shape.back();
    const ValueId apart = b_.reshape(x, {f_.heads.batch, heads, rows, last});
    return b_.transpose(apart, columns ? Ints{0, 3, 1, 2} : Ints{0, 2, 1, 3});
  }

  Rewriter& r_;
  const Match& m_;
  Builder& b_;
  const Found& f_;
};

Result<bool> rewrite(Rewriter& r, const Match& m, const Node& node, bool inference) {
  const auto f = find(r, m, node, inference);
  if (!f) return false;
  std::vector<ValueId> leaves = {f->q.origin, f->k_shared.valid() ? f->k_shared : f->k.origin,
                                 f->v_shared.valid() ? f->v_shared : f->v};
  leaves.insert(leaves.end(), f->scores.masks.begin(), f->scores.masks.end());
  for (const DataMask& mask : f->scores.added) leaves.push_back(mask.value);
  if (!m.owns(f->root, leaves)) return false;
  GRAFT_TRY(Writer(r, m, *f).run());
  return true;
}

Result<bool> for_training(Rewriter& r, const Match& m, const Node& node) { return rewrite(r, m, node, false); }
Result<bool> for_inference(Rewriter& r, const Match& m, const Node& node) { return rewrite(r, m, node, true); }

}  // namespace

Result<PassGraph> canonicalise_attention(const PassGraph& graph, const PrepareOptions& options) {
  const Rule rules[] = {options.inference ? for_inference : for_training};
  return apply_rules(graph, rules);
}

}  // namespace graft::passes
