// Rotary position embedding spelled out. The two elements of each pair are halves of the last axis (LLaMA, GPT-NeoX) or
// neighbours (GPT-J), and turn as x * cos + turned(x) * sin, or as [a cos - b sin, a sin + b cos], whole heads or a
// leading part of each.
#include <algorithm>

#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/passes/canonicalise/rope_tables.h"
#include "runtime/passes/match.h"
#include "runtime/passes/passes.h"

namespace graft::passes {
namespace {

/// Every step-th element of x's last axis, from `start` on; axes of x in the order `perm`, whose last is the last.
struct Cut {
  ValueId x = kNoValue;
  Shape view;  ///< that x is seen in
  Ints perm;   ///< empty: the order of x
  std::int64_t start = 0;
  std::int64_t step = 1;
};

struct Rotation {
  Cut x;  ///< what turns: a leading part of the last axis of `x`, or all of it
  Shape shape;
  bool interleaved = false;
  ValueId cosine, sine;
};

Shape in_order(const Shape& shape, const Ints& perm) {
  if (perm.empty()) return shape;
  std::vector<Dim> dims;
  for (const std::int64_t axis : perm) dims.push_back(shape[static_cast<std::size_t>(axis)]);
  return Shape(std::move(dims));
}

class TurnReader {
 public:
  explicit TurnReader(const Match& m) : m_(m) {}

  /// v as a rotation of something, by tables that nobody has looked at yet.
  std::vector<Rotation> read(ValueId v) const {
    std::vector<Rotation> found;
    read_sum(v, found);
    if (const auto j = joined(v)) read_parts(*j, found);
    return found;
  }

  /// Whether v is `part` of some x, and `rest` what follows in it.
  std::optional<Cut> whole(const Rotation& r, ValueId rest) const {
    auto part = cut(r.x.x);
    const auto tail = cut(rest);
    if (part && !r.x.perm.empty()) {
      if (!part->perm.empty()) return std::nullopt;
      part->perm = r.x.perm;
    }
    const std::int64_t turned = r.shape.back().value();
    if (!part || !tail || part->x != tail->x || part->perm != tail->perm || part->start != 0 || part->step != 1 ||
        tail->step != 1 || tail->start != turned) {
      return std::nullopt;
    }
    const std::int64_t all = part->view.back().value();
    return all == turned + m_.shape(rest).back().value() ? part : std::nullopt;
  }

 private:
  struct Joined {
    ValueId first, second;
    bool interleaved = false;
    Shape shape;  ///< of both together; v may be a view of it
  };

  bool is_last(std::int64_t axis, std::size_t rank) const {
    return axis == -1 || axis == static_cast<std::int64_t>(rank) - 1;
  }

  /// v as a slice of the last axis, moved or not.
  std::optional<Cut> cut(ValueId v) const {
    Cut c;
    if (const Node* moved = m_.node(Op::transpose, v)) {
      c.perm = moved->attrs.integers("perm");
      if (c.perm.back() != static_cast<std::int64_t>(c.perm.size()) - 1) return std::nullopt;
      v = moved->inputs[0];
    }
    const Node* slice = m_.node(Op::slice, v);
    if (slice == nullptr || m_.shape(v).rank() == 0) return std::nullopt;
    c.x = slice->inputs[0];
    c.view = m_.shape(c.x);
    Shape wanted = c.view;
    wanted[wanted.rank() - 1] = m_.shape(v).back();
    const Ints steps = slice->attrs.integers("steps");
    // Only the last axis is cut: the others are whole and in their order.
    if (m_.shape(v) != wanted || std::any_of(steps.begin(), steps.end() - 1, [](auto step) { return step != 1; })) {
      return std::nullopt;
    }
    c.start = slice->attrs.integers("starts").back();
    c.step = steps.back();
    return c;
  }

  /// v as one element of each pair of x: `which` of them.
  std::optional<Cut> one_of_pair(ValueId v, std::int64_t which, bool interleaved) const {
    const std::int64_t half = m_.shape(v).back().value();
    if (auto c = cut(v)) {
      if (c->view.back() != Dim(2 * half)) return std::nullopt;
      const bool fits =
          interleaved ? c->step == 2 && c->start == which : (c->step == 1 || half == 1) && c->start == which * half;
      return fits ? c : std::nullopt;
    }
    // x as [.., half, 2] or [.., 2, half], of which one is taken.
    const ValueId taken = m_.argument(Op::reshape, v);
    const Node* slice = taken.valid() ? m_.node(Op::slice, taken) : nullptr;
    const std::size_t rank = m_.shape(v).rank();
    if (slice == nullptr || m_.shape(taken).rank() != rank + 1) return std::nullopt;
    const std::size_t axis = interleaved ? rank : rank - 1;
    Shape wanted = m_.shape(taken);
    if (wanted[axis] != Dim(1) || wanted[interleaved ? rank - 1 : rank] != Dim(half)) return std::nullopt;
    wanted[axis] = 2;
    if (m_.shape(slice->inputs[0]) != wanted || slice->attrs.integers("starts")[axis] != which) return std::nullopt;
    Shape all = m_.shape(v);
    all[rank - 1] = 2 * half;
    const ValueId x = m_.argument(Op::reshape, slice->inputs[0]);
    return Cut{x.valid() && m_.shape(x) == all ? x : slice->inputs[0], all, {}};
  }

  /// What pairs (a, b) are of; x kNoValue where they are none.
  Cut pairs_of(ValueId a, ValueId b, bool interleaved) const {
    const auto first = one_of_pair(a, 0, interleaved), second = one_of_pair(b, 1, interleaved);
    const bool same = first && second && first->x == second->x && first->perm == second->perm;
    return same ? Cut{first->x, first->view, first->perm} : Cut{};
  }

  /// v as two halves behind each other, or as pairs of neighbours.
  std::optional<Joined> joined(ValueId v) const {
    const Node* concat = m_.node(Op::concat, v);
    const ValueId stacked = concat == nullptr ? m_.argument(Op::reshape, v) : kNoValue;
    if (stacked.valid()) concat = m_.node(Op::concat, stacked);
    if (concat == nullptr || concat->inputs.size() != 2) return std::nullopt;
    const Shape& made = m_.shape(concat->outputs[0]);
    if (!is_last(concat->attrs.integer("axis"), made.rank())) return std::nullopt;
    Joined j{concat->inputs[0], concat->inputs[1], stacked.valid(), made};
    if (j.interleaved) {
      if (made.rank() < 4 || made.back() != Dim(2)) return std::nullopt;
      std::vector<Dim> dims(made.begin(), made.end() - 1);
      dims.back() = 2 * dims.back().value();
      j.shape = Shape(std::move(dims));
    }
    Shape half = j.shape;
    if (half.rank() < 3 || half.back().value() % 2 != 0) return std::nullopt;
    half[half.rank() - 1] = half.back().value() / 2;
    for (ValueId* part : {&j.first, &j.second}) {
      if (j.interleaved) *part = m_.argument(Op::reshape, *part);
      if (!part->valid() || m_.shape(*part) != half) return std::nullopt;
    }
    return j;
  }

  ValueId negated(ValueId v) const {
    if (const ValueId x = m_.argument(Op::neg, v); x.valid()) return x;
    const Node* scaled = m_.node(Op::affine, v);
    const bool negates = scaled != nullptr && scaled->attrs.number("alpha") == -1 && scaled->attrs.number("beta") == 0;
    return negates ? scaled->inputs[0] : kNoValue;
  }

  /// x * cos + [-b, a] * sin.
  void read_sum(ValueId v, std::vector<Rotation>& found) const {
    const Node* sum = m_.node(Op::add, v);
    if (sum == nullptr) return;
    for (const std::size_t i : {0, 1}) {
      const Node* plain = m_.node(Op::mul, sum->inputs[i]);
      const Node* turned = m_.node(Op::mul, sum->inputs[1 - i]);
      if (plain == nullptr || turned == nullptr) continue;
      for (const std::size_t k : {0, 1}) {
        const auto j = joined(turned->inputs[k]);
        const ValueId b = j ? negated(j->first) : kNoValue;
        if (!b.valid()) continue;
        const Cut of = pairs_of(j->second, b, j->interleaved);
        if (!of.x.valid() || !of.perm.empty() || j->shape != m_.shape(v) || m_.shape(of.x) != m_.shape(v)) continue;
        for (const std::size_t l : {0, 1}) {
          if (plain->inputs[l] != of.x) continue;
          found.push_back({of, m_.shape(v), j->interleaved, plain->inputs[1 - l], turned->inputs[1 - k]});
        }
      }
    }
  }

  /// [a * cos - b * sin, a * sin + b * cos].
  void read_parts(const Joined& j, std::vector<Rotation>& found) const {
    const Node* less = m_.node(Op::sub, j.first);
    const Node* more = m_.node(Op::add, j.second);
    const Node* p = less != nullptr ? m_.node(Op::mul, less->inputs[0]) : nullptr;
    const Node* q = less != nullptr ? m_.node(Op::mul, less->inputs[1]) : nullptr;
    const Node* r = more != nullptr ? m_.node(Op::mul, more->inputs[0]) : nullptr;
    const Node* s = more != nullptr ? m_.node(Op::mul, more->inputs[1]) : nullptr;
    if (p == nullptr || q == nullptr || r == nullptr || s == nullptr) return;
    const auto is_product = [](const Node& node, ValueId x, ValueId y) {
      return (node.inputs[0] == x && node.inputs[1] == y) || (node.inputs[0] == y && node.inputs[1] == x);
    };
    for (const std::size_t i : {0, 1}) {
      for (const std::size_t k : {0, 1}) {
        const ValueId a = p->inputs[i], cosine = p->inputs[1 - i], b = q->inputs[k], sine = q->inputs[1 - k];
        const bool crossed = (is_product(*r, a, sine) && is_product(*s, b, cosine)) ||
                             (is_product(*s, a, sine) && is_product(*r, b, cosine));
        const Cut of = crossed ? pairs_of(a, b, j.interleaved) : Cut{};
        if (!of.x.valid() || in_order(of.view, of.perm) != j.shape) continue;
        found.push_back({of, j.shape, j.interleaved, cosine, sine});
      }
    }
  }

  const Match& m_;
};

/// `x`: all of the last axis, of which the first elements turn.
Status emit(Rewriter& r, const Match& m, const Node& node, const Cut& x, const Rotation& rotation, const Angles& a) {
  Builder& b = r.builder();
  const Shape shape = in_order(x.view, x.perm);
  const std::size_t rank = shape.rank();
  // The op takes [.., tokens, heads, dim].
  ValueId y = b.reshape(r.at(x.x), x.view);
  if (!x.perm.empty()) y = b.transpose(y, x.perm);
  const bool tokens_last = a.sequence_axis == rank - 2;
  Ints perm;
  if (tokens_last && rank >= 4) {
    for (std::size_t i = 0; i < rank; ++i) perm.push_back(static_cast<std::int64_t>(i));
    std::swap(perm[rank - 2], perm[rank - 3]);
    y = b.transpose(y, perm);
  } else if (tokens_last) {
    y = b.reshape(y, {shape[0], shape[1], 1, shape[2]});
  }
  GRAFT_TRY(b.status());
  std::vector<ValueId> inputs = {y};
  Attrs attrs;
  if (a.positions.valid()) {
    const Shape tokens = b.shape(y);
    const Dim& length = tokens[tokens.rank() - 3];
    const Shape each(std::vector<Dim>(tokens.begin(), tokens.end() - 2));
    const bool same = m.shape(a.positions) != each && m.shape(a.positions).elements() != each.elements();
    inputs.push_back(b.reshape(r.at(a.positions), same ? Shape{length} : each));
  }
  if (a.frequencies.valid()) {
    if (!a.positions.valid()) inputs.push_back(kNoValue);
    inputs.push_back(b.reshape(r.at(a.frequencies), {rotation.shape.back().value() / 2}));
  } else {
    attrs.set("theta", a.theta);
  }
  if (rotation.shape.back() != shape.back()) attrs.set("rotated", rotation.shape.back().value());
  if (rotation.interleaved) attrs.set("interleaved", std::int64_t{1});
  if (a.magnitude != 1) attrs.set("magnitude", a.magnitude);
  y = b.node(Op::rope, std::move(inputs), std::move(attrs), node.name);
  if (!perm.empty()) y = b.transpose(y, perm);
  r.replace(node.outputs[0], b.reshape(y, m.shape(node.outputs[0])));
  return b.status();
}

/// Where the rotation stands in v, of which a leading part turns; `x`: what v is of.
Result<bool> rotate(Rewriter& r, const Match& m, const Node& node, ValueId turned, ValueId rest, bool inference) {
  const TurnReader reader(m);
  for (const Rotation& rotation : reader.read(turned)) {
    Cut x = rotation.x;
    if (rest.valid()) {
      const auto whole = reader.whole(rotation, rest);
      if (!whole || !r.is_inner(turned) || m.shape(turned) != rotation.shape) continue;
      x = *whole;
    }
    const auto angles =
        read_angles(m, {rotation.shape, rotation.interleaved}, rotation.cosine, rotation.sine, inference);
    // [.., tokens, heads, dim] or [.., heads, tokens, dim].
    if (!angles || angles->sequence_axis + 3 < rotation.shape.rank()) continue;
    if (!m.owns(node.outputs[0], {x.x, rotation.cosine, rotation.sine})) continue;
    GRAFT_TRY(emit(r, m, node, x, rotation, *angles));
    return true;
  }
  return false;
}

Result<bool> rope(Rewriter& r, const Match& m, const Node& node, bool inference) {
  if (node.op != Op::add && node.op != Op::concat && node.op != Op::reshape) return false;
  const ValueId v = node.outputs[0];
  if (m.value(v).dtype != DType::f32) return false;
  if (node.op == Op::concat && node.inputs.size() == 2) {
    const std::int64_t axis = node.attrs.integer("axis");
    const bool last = axis == -1 || axis == static_cast<std::int64_t>(m.shape(v).rank()) - 1;
    if (last) {
      GRAFT_TRY_ASSIGN(const bool done, rotate(r, m, node, node.inputs[0], node.inputs[1], inference));
      if (done) return true;
    }
  }
  return rotate(r, m, node, v, kNoValue, inference);
}

Result<bool> for_training(Rewriter& r, const Match& m, const Node& node) { return rope(r, m, node, false); }
Result<bool> for_inference(Rewriter& r, const Match& m, const Node& node) { return rope(r, m, node, true); }

}  // namespace

Result<PassGraph> canonicalise_rope(const PassGraph& graph, const PrepareOptions& options) {
  const Rule rules[] = {options.inference ? for_inference : for_training};
  return apply_rules(graph, rules);
}

}  // namespace graft::passes
