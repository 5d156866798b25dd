// Linear layers: a bias becomes the product's own, a transpose of the last two axes its trans_a or trans_b.
#include <algorithm>

#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/passes/match.h"
#include "runtime/passes/passes.h"

namespace graft::passes {
namespace {

/// Whether all axes but the last have size 1, and the last is `columns`.
bool is_row(const Shape& shape, const Dim& columns) {
  return shape.rank() > 0 && shape.back() == columns &&
         std::all_of(shape.begin(), shape.end() - 1, [](const Dim& dim) { return dim == Dim(1); });
}

/// x, where the product's first operand is x flattened to a matrix and `result` has x's leading axes again: rows of a
/// product need no flattening.
ValueId unflattened(const Rewriter& r, const Match& m, const Node& product, const Shape& result) {
  const ValueId flat = product.inputs[0];
  const ValueId x = m.argument(Op::reshape, flat);
  if (!x.valid() || r.is_pinned(flat) || product.attrs.flag("trans_a")) return kNoValue;
  if (m.shape(flat).rank() != 2 || m.shape(product.inputs[1]).rank() != 2) return kNoValue;
  const Shape& shape = m.shape(x);
  if (shape.rank() < 2 || shape.rank() != result.rank() || shape.back() != m.shape(flat).back()) return kNoValue;
  return std::equal(shape.begin(), shape.end() - 1, result.begin()) ? x : kNoValue;
}

/// A product of rows that are flattened before and parted again behind.
Result<bool> flattened(Rewriter& r, const Match& m, const Node& node) {
  const Node* product =
      node.op == Op::reshape && r.is_inner(node.inputs[0]) ? m.node(Op::matmul, node.inputs[0]) : nullptr;
  if (product == nullptr) return false;
  const ValueId v = node.outputs[0];
  const ValueId x = unflattened(r, m, *product, m.shape(v));
  if (!x.valid() || m.shape(v).back() != m.shape(node.inputs[0]).back()) return false;
  std::vector<ValueId> inputs = r.at(product->inputs);
  inputs[0] = r.at(x);
  GRAFT_TRY(r.replace(v, Op::matmul, std::move(inputs), product->attrs));
  return true;
}

/// product + b, also where a reshape that keeps the last axis stands between.
Result<bool> bias(Rewriter& r, const Match& m, const Node& node) {
  const ValueId v = node.outputs[0];
  if (node.op != Op::add || m.shape(v).rank() == 0) return false;
  for (const std::size_t i : {0, 1}) {
    const ValueId row = node.inputs[1 - i];
    ValueId y = node.inputs[i];
    if (!is_row(m.shape(row), m.shape(v).back()) || m.shape(y) != m.shape(v) || !m.owns(v, {row, y})) continue;
    const bool viewed = m.node(Op::reshape, y) != nullptr;
    if (!r.is_inner(y)) continue;
    if (viewed) y = m.argument(Op::reshape, y);
    const Node* product = m.node(Op::matmul, y);
    if (product == nullptr || !r.is_inner(y) || product->inputs.size() > 2) continue;
    const Shape& shape = m.shape(y);
    if (m.shape(product->inputs[1]).rank() < 2 || shape.rank() == 0 || shape.back() != m.shape(v).back()) continue;
    Builder& b = r.builder();
    std::vector<ValueId> inputs = r.at(product->inputs);
    if (const ValueId x = unflattened(r, m, *product, m.shape(v)); x.valid()) inputs[0] = r.at(x);
    inputs.push_back(b.reshape(r.at(row), {shape.back()}));
    const ValueId made = b.node(Op::matmul, std::move(inputs), product->attrs, product->name);
    r.replace(v, b.reshape(made, m.shape(v)));
    GRAFT_TRY(b.status());
    return true;
  }
  return false;
}

bool swaps_last_two(const Ints& perm) {
  const auto rank = static_cast<std::int64_t>(perm.size());
  for (std::int64_t i = 0; i < rank; ++i) {
    const std::int64_t from = i < rank - 2 ? i : 2 * rank - 3 - i;
    if (perm[static_cast<std::size_t>(i)] != from) return false;
  }
  return rank >= 2;
}

Result<bool> transposed_operands(Rewriter& r, const Match& m, const Node& node) {
  if (node.op != Op::matmul) return false;
  std::vector<ValueId> inputs = r.at(node.inputs);
  Attrs attrs = node.attrs;
  bool found = false;
  for (const std::size_t i : {0, 1}) {
    const Node* swap = m.node(Op::transpose, node.inputs[i]);
    if (swap == nullptr || r.is_pinned(node.inputs[i]) || !swaps_last_two(swap->attrs.integers("perm"))) continue;
    inputs[i] = r.at(swap->inputs[0]);
    const std::string_view flag = i == 0 ? "trans_a" : "trans_b";
    attrs.set(flag, std::int64_t{!attrs.flag(flag)});
    found = true;
  }
  if (!found) return false;
  GRAFT_TRY(r.copy(node, std::move(inputs), std::move(attrs)));
  return true;
}

constexpr Rule kRules[] = {bias, flattened, transposed_operands};

}  // namespace

Result<PassGraph> canonicalise_linear(const PassGraph& graph, const PrepareOptions&) {
  return apply_rules(graph, kRules);
}

}  // namespace graft::passes
