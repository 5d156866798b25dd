// Group norm and instance norm of images [batch, channels, ..]: a norm over each group's elements as one row, or over
// each channel's, and a scale and a shift per channel around it.
#include <algorithm>
#include <numeric>

#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/passes/match.h"
#include "runtime/passes/passes.h"

namespace graft::passes {
namespace {

/// Statistics of `groups` parts of the channels of x [batch, channels, ..], nothing learned.
struct Normal {
  ValueId x;
  std::int64_t groups = 0;
  double epsilon = 0;
  bool rows = false;  ///< it is a layer norm of rows already, which nothing is gained by replacing alone
};

bool all_equal(const Match& m, ValueId v, double wanted) {
  if (!v.valid()) return true;
  const std::vector<double> all = m.contents(v);
  return !all.empty() && std::ranges::all_of(all, [&](double x) { return x == wanted; });
}

ValueId input_of(const Node& node, std::size_t i) { return i < node.inputs.size() ? node.inputs[i] : kNoValue; }

/// Whether a perm takes channels (axis 1) to the end, or with `back` from there.
bool moves_channels(const Node* node, bool back) {
  if (node == nullptr) return false;
  const Ints perm = node->attrs.integers("perm");
  const auto rank = static_cast<std::int64_t>(perm.size());
  for (std::int64_t i = 0; i < rank; ++i) {
    const std::int64_t last_first = i == 0 ? 0 : i == 1 ? rank - 1 : i - 1;
    const std::int64_t first_last = i == 0 ? 0 : i == rank - 1 ? 1 : i + 1;
    if (perm[static_cast<std::size_t>(i)] != (back ? last_first : first_last)) return false;
  }
  return rank >= 3;
}

/// v as the rows of x, each less its mean and divided by its deviation: [batch, groups, elements], or where every
/// channel is a row of its own [batch, channels, ..].
std::optional<Normal> rows_of(const Match& m, ValueId v) {
  const Shape& shape = m.shape(v);
  if (shape.rank() < 3) return std::nullopt;
  if (const Node* node = m.node(Op::layer_norm, v)) {
    const std::int64_t axis = node->attrs.integer("axis");
    const bool rows = (axis < 0 ? axis + static_cast<std::int64_t>(shape.rank()) : axis) == 2;
    if (!rows || input_of(*node, 1).valid() || input_of(*node, 2).valid()) return std::nullopt;
    return Normal{node->inputs[0], shape[1].value(), node->attrs.number("epsilon"), true};
  }
  const Node* back = m.node(Op::transpose, v);
  if (!moves_channels(back, true)) return std::nullopt;
  const Node* norm = m.node(Op::group_norm, back->inputs[0]);
  const Node* last = norm != nullptr ? m.node(Op::transpose, norm->inputs[0]) : nullptr;
  if (!moves_channels(last, false) || !all_equal(m, input_of(*norm, 1), 1) || !all_equal(m, input_of(*norm, 2), 0)) {
    return std::nullopt;
  }
  return Normal{last->inputs[0], norm->attrs.integer("groups"), norm->attrs.number("epsilon")};
}

/// The same, seen as [batch, channels, ..] again where groups were made by a reshape.
std::optional<Normal> normal_of(const Match& m, ValueId v) {
  const ValueId rows = m.argument(Op::reshape, v);
  auto n = rows_of(m, rows.valid() ? rows : v);
  if (!n || !rows.valid()) return n;
  const Shape& shape = m.shape(v);
  const Shape& grouped = m.shape(rows);
  const ValueId x = m.argument(Op::reshape, n->x);
  if (!x.valid() || m.shape(x) != shape || shape.rank() < 3 || shape[0] != grouped[0]) return std::nullopt;
  // Each row must be one group: a norm of several rows of a reshaped tensor is something else.
  if (n->groups != grouped[1].value() || shape[1].value() % n->groups != 0) return std::nullopt;
  n->x = x;
  return n;
}

/// Whether w has one number per channel of [batch, channels, ..], or (with rank 1) is that already.
bool per_channel(const Match& m, ValueId w, const Shape& x) {
  const Shape& shape = m.shape(w);
  const std::size_t spatial = x.rank() - 2;
  if (shape.rank() <= spatial || shape.rank() > x.rank() || m.value(w).dtype != DType::f32) return false;
  const std::size_t channel = shape.rank() - 1 - spatial;
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    if (shape[i] != (i == channel ? x[1] : Dim(1))) return false;
  }
  return true;
}

struct Found {
  Normal normal;
  ValueId scale = kNoValue;
  ValueId bias = kNoValue;
};

/// normal * w, normal, or v itself.
std::optional<Found> scaled(const Match& m, ValueId v) {
  if (const auto n = normal_of(m, v)) return Found{*n};
  const Node* product = m.node(Op::mul, v);
  for (std::size_t i = 0; product != nullptr && i < 2; ++i) {
    const auto n = normal_of(m, product->inputs[i]);
    if (n && per_channel(m, product->inputs[1 - i], m.shape(v))) return Found{*n, product->inputs[1 - i]};
  }
  return std::nullopt;
}

std::optional<Found> find(const Match& m, ValueId v) {
  const Node* sum = m.node(Op::add, v);
  for (std::size_t i = 0; sum != nullptr && i < 2; ++i) {
    auto f = scaled(m, sum->inputs[i]);
    if (!f || !per_channel(m, sum->inputs[1 - i], m.shape(v))) continue;
    f->bias = sum->inputs[1 - i];
    return f;
  }
  return scaled(m, v);
}

Result<bool> group_norm(Rewriter& r, const Match& m, const Node& node) {
  if (node.op != Op::add && node.op != Op::mul && node.op != Op::reshape) return false;
  const ValueId v = node.outputs[0];
  const auto f = find(m, v);
  if (!f || m.shape(f->normal.x) != m.shape(v) || (f->normal.rows && !f->scale.valid() && !f->bias.valid())) {
    return false;
  }
  std::vector<ValueId> leaves = {f->normal.x};
  for (const ValueId leaf : {f->scale, f->bias}) {
    if (leaf.valid()) leaves.push_back(leaf);
  }
  if (!m.owns(v, leaves)) return false;
  const Shape& shape = m.shape(v);
  Builder& b = r.builder();
  Ints to_last = {0}, to_second = {0, static_cast<std::int64_t>(shape.rank()) - 1};
  for (std::size_t i = 2; i < shape.rank(); ++i) to_last.push_back(static_cast<std::int64_t>(i));
  to_last.push_back(1);
  for (std::size_t i = 2; i < shape.rank(); ++i) to_second.push_back(static_cast<std::int64_t>(i) - 1);
  const auto operand = [&](ValueId w) { return w.valid() ? b.reshape(r.at(w), {shape[1]}) : kNoValue; };
  std::vector<ValueId> inputs = {b.transpose(r.at(f->normal.x), to_last), operand(f->scale), operand(f->bias)};
  while (!inputs.back().valid()) inputs.pop_back();
  const ValueId y = b.node(Op::group_norm, std::move(inputs),
                           {{"groups", f->normal.groups}, {"epsilon", f->normal.epsilon}}, node.name);
  r.replace(v, b.transpose(y, to_second));
  GRAFT_TRY(b.status());
  return true;
}

constexpr Rule kRules[] = {group_norm};

}  // namespace

Result<PassGraph> canonicalise_group_norm(const PassGraph& graph, const PrepareOptions&) {
  return apply_rules(graph, kRules);
}

}  // namespace graft::passes
