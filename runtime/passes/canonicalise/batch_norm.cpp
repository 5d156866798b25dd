// Batch norm behind a product (a convolution or a linear layer) is a factor of its filters and a bias of its own:
//   (w x + b - mean) s + shift = (s w) x + (b - mean) s + shift,   s = scale / sqrt(var + epsilon).
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
      if (product.attrs.integer("groups", 1) != 1) return std::nullopt;
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

Result<bool> fold(Rewriter& r, const std::vector<bool>& fixed, const Node& node) {
  if (node.op != Op::batch_norm || !r.is_inner(node.inputs[0])) return false;
  const Node* product = r.producer(node.inputs[0]);
  if (product == nullptr || product->outputs.size() != 1) return false;
  if (!all_fixed(fixed, node.inputs, 1) || !all_fixed(fixed, product->inputs, 1)) return false;
  const ValueId weight = product->inputs.size() > 1 ? product->inputs[1] : kNoValue;
  if (!weight.valid() || r.value(weight).dtype != DType::f32) return false;
  const auto shape = per_output(*product, r.value(weight).shape);
  if (!shape) return false;

  Builder& b = r.builder();
  const double epsilon = node.attrs.number("epsilon", 1e-5);
  const std::vector<ValueId> norm = r.at(node.inputs);  // x, scale, shift, mean, var
  const ValueId factor = b.mul(norm[1], b.node(Op::rsqrt, {b.affine(norm[4], 1, epsilon)}));
  const bool has_bias = product->inputs.size() > 2 && product->inputs[2].valid();
  const ValueId centre = has_bias ? b.sub(r.at(product->inputs[2]), norm[3]) : b.neg(norm[3]);
  std::vector<ValueId> inputs = r.at(product->inputs);
  inputs.resize(3, kNoValue);
  inputs[1] = b.node(Op::mul, {inputs[1], b.reshape(factor, *shape)}, {}, cat(product->name, "/folded weight"));
  inputs[2] = b.node(Op::add, {b.mul(centre, factor), norm[2]}, {}, cat(product->name, "/folded bias"));
  r.replace(node.outputs[0], b.node(product->op, std::move(inputs), product->attrs, product->name));
  GRAFT_TRY(b.status());
  return true;
}

}  // namespace

Result<PassGraph> fold_batch_norms(const PassGraph& graph, const PrepareOptions& options) {
  if (!options.fixed_weights) return graph;
  const std::vector<bool> fixed = depends_on_weights_alone(graph.graph);
  Rewriter rewriter(graph);
  for (const Node& node : graph.graph.nodes()) {
    GRAFT_TRY_ASSIGN(const bool done, fold(rewriter, fixed, node));
    if (!done) GRAFT_TRY(rewriter.copy(node));
  }
  return rewriter.finish();
}

}  // namespace graft::passes
