// Batch norm behind a product (a convolution or a linear layer) is a factor of its filters and a bias of its own:
//   (w x + b - mean) s + shift = (s w) x + (b - mean) s + shift,   s = scale / sqrt(var + epsilon).
#include <map>
#include <set>

#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/passes/constant_folding.h"
#include "runtime/passes/match.h"
#include "runtime/passes/passes.h"

namespace graft::passes {
namespace {

/// The shape in which a number per output channel is multiplied with the weight; nullopt where no broadcast does it.
std::optional<Shape> per_output(const Node& product, const Shape& weight) {
  switch (product.op) {
    case Op::conv: return Shape{weight[0], 1, 1, 1};
    case Op::conv_transpose:
      if (product.attrs.integer("groups") != 1) return std::nullopt;
      return Shape{weight[3]};
    case Op::matmul:
      if (weight.rank() != 2) return std::nullopt;
      return product.attrs.flag("trans_b") ? Shape{weight[0], 1} : Shape{weight[1]};
    default: return std::nullopt;
  }
}

bool all_fixed(const std::vector<bool>& fixed, const std::vector<ValueId>& inputs, std::size_t first) {
  for (std::size_t i = first; i < inputs.size(); ++i) {
    if (inputs[i].valid() && !fixed[inputs[i].index]) return false;
  }
  return true;
}

/// A batch norm, and the product whose channels it scales, perhaps behind views and transposes of the result.
struct Fold {
  const Node* product;
  std::vector<const Node*> moves;  ///< from the norm back to the product
  Shape factor;                    ///< of a number per channel that is multiplied with the weight
};

/// The axis of the input that is this axis of a view or a transpose; nullopt where it is parted or merged.
std::optional<std::size_t> axis_before(const Node& move, const Shape& from, const Shape& to, std::size_t axis) {
  if (move.op == Op::transpose) return static_cast<std::size_t>(move.attrs.integers("perm")[axis]);
  for (std::size_t i = from.rank(); i-- > 0;) {
    if (from[i] == to[axis] && from.elements(i + 1, from.rank()) == to.elements(axis + 1, to.rank())) return i;
  }
  return std::nullopt;
}

std::optional<Fold> find(const Rewriter& r, const std::vector<bool>& fixed, const Node& norm) {
  if (norm.op != Op::batch_norm || !all_fixed(fixed, norm.inputs, 1)) return std::nullopt;
  Fold fold{};
  ValueId x = norm.inputs[0];
  std::size_t axis = r.value(x).shape.rank() - 1;
  const Node* node = nullptr;
  while (true) {
    node = r.is_inner(x) ? r.producer(x) : nullptr;
    if (node == nullptr || node->outputs.size() != 1) return std::nullopt;
    if (node->op != Op::reshape && node->op != Op::transpose) break;
    const auto before = axis_before(*node, r.value(node->inputs[0]).shape, r.value(x).shape, axis);
    if (!before) return std::nullopt;
    axis = *before;
    fold.moves.push_back(node);
    x = node->inputs[0];
  }
  fold.product = node;
  const ValueId weight = node->inputs.size() > 1 ? node->inputs[1] : kNoValue;
  if (axis + 1 != r.value(x).shape.rank() || !weight.valid() || r.value(weight).dtype != DType::f32 ||
      !all_fixed(fixed, node->inputs, 1)) {
    return std::nullopt;
  }
  const auto factor = per_output(*node, r.value(weight).shape);
  if (!factor) return std::nullopt;
  fold.factor = *factor;
  return fold;
}

void apply(Rewriter& r, const Fold& fold, const Node& node) {
  Builder& b = r.builder();
  const Node& product = *fold.product;
  const double epsilon = node.attrs.number("epsilon");
  const std::vector<ValueId> norm = r.at(node.inputs);  // x, scale, shift, mean, var
  const ValueId factor = b.mul(norm[1], b.node(Op::rsqrt, {b.affine(norm[4], 1, epsilon)}));
  const bool has_bias = product.inputs.size() > 2 && product.inputs[2].valid();
  const ValueId centre = has_bias ? b.sub(r.at(product.inputs[2]), norm[3]) : b.neg(norm[3]);
  std::vector<ValueId> inputs = r.at(product.inputs);
  inputs.resize(3, kNoValue);
  inputs[1] = b.node(Op::mul, {inputs[1], b.reshape(factor, fold.factor)}, {}, cat(product.name, "/folded weight"));
  inputs[2] = b.node(Op::add, {b.mul(centre, factor), norm[2]}, {}, cat(product.name, "/folded bias"));
  ValueId y = b.node(product.op, std::move(inputs), product.attrs, product.name);
  for (auto move = fold.moves.rbegin(); move != fold.moves.rend(); ++move) {
    y = b.node((*move)->op, {y}, (*move)->attrs, (*move)->name);
  }
  r.replace(node.outputs[0], y);
}

}  // namespace

Result<PassGraph> fold_batch_norms(const PassGraph& graph, const PrepareOptions& options) {
  if (!options.fixed_weights) return graph;
  const std::vector<bool> fixed = depends_on_weights_alone(graph.graph);
  Rewriter rewriter(graph);
  std::map<const Node*, Fold> folds;  // by the norm
  std::set<const Node*> taken;        // they come again behind the folded weight, under their names
  for (const Node& node : graph.graph.nodes()) {
    const auto fold = find(rewriter, fixed, node);
    if (!fold) continue;
    taken.insert(fold->product);
    taken.insert(fold->moves.begin(), fold->moves.end());
    folds.emplace(&node, *fold);
  }
  for (const Node& node : graph.graph.nodes()) {
    if (taken.contains(&node)) continue;
    if (const auto fold = folds.find(&node); fold != folds.end()) {
      apply(rewriter, fold->second, node);
      GRAFT_TRY(rewriter.builder().status());
    } else {
      GRAFT_TRY(rewriter.copy(node));
    }
  }
  return rewriter.finish();
}

}  // namespace graft::passes
