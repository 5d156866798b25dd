// Sums of products with axes spread against each other, as einsum is imported in general: they are products of
// matrices, and the tensor of all products need not be.
#include <algorithm>

#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/passes/match.h"
#include "runtime/passes/passes.h"

namespace graft::passes {
namespace {

/// Axes of a * b by what they are of the product of matrices.
struct Roles {
  Ints batch, rows, columns;
  std::int64_t summed = 0;
};

std::optional<Roles> roles_of(const Shape& a, const Shape& b, std::int64_t summed) {
  Roles roles;
  roles.summed = summed;
  if (a.rank() != b.rank()) return std::nullopt;
  for (std::size_t axis = 0; axis < a.rank(); ++axis) {
    const auto at = static_cast<std::int64_t>(axis);
    if (a[axis] == b[axis]) {
      if (at != summed) roles.batch.push_back(at);
    } else if (at == summed) {
      return std::nullopt;
    } else {
      (b[axis] == Dim(1) ? roles.rows : roles.columns).push_back(at);
    }
  }
  // With rows or columns alone it is a sum along one tensor.
  return roles.rows.empty() || roles.columns.empty() ? std::nullopt : std::optional(roles);
}

Ints joined(std::initializer_list<Ints> lists) {
  Ints all;
  for (const Ints& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

std::vector<Dim> sizes(const Shape& shape, const Ints& axes) {
  std::vector<Dim> dims;
  for (const std::int64_t axis : axes) dims.push_back(shape[static_cast<std::size_t>(axis)]);
  return dims;
}

Dim product(const std::vector<Dim>& dims) { return static_cast<std::int64_t>(Shape(dims).elements()); }

Result<bool> contraction(Rewriter& r, const Match& m, const Node& node) {
  if (node.op != Op::reduce_sum || m.value(node.outputs[0]).dtype != DType::f32) return false;
  const Node* mul = r.is_inner(node.inputs[0]) ? m.node(Op::mul, node.inputs[0]) : nullptr;
  const Shape& whole = m.shape(node.inputs[0]);
  const auto axes = reduced_axes(node, whole.rank());
  if (mul == nullptr || axes.size() != 1 || whole.elements() == 0) return false;
  const Shape& a = m.shape(mul->inputs[0]);
  const Shape& b = m.shape(mul->inputs[1]);
  const auto roles = roles_of(a, b, static_cast<std::int64_t>(axes[0]));
  if (!roles) return false;
  const Ints summed = {roles->summed};
  const std::vector<Dim> batch = sizes(whole, roles->batch), rows = sizes(a, roles->rows),
                         columns = sizes(b, roles->columns);
  const Dim count = whole[axes[0]];
  const auto matrices = [&](const Dim& height, const Dim& width) {
    std::vector<Dim> dims = batch;
    dims.insert(dims.end(), {height, width});
    return Shape(std::move(dims));
  };
  Builder& build = r.builder();
  const auto moved = [&](ValueId x, const Ints& perm, const Shape& shape) {
    return build.reshape(std::ranges::is_sorted(perm) ? x : build.transpose(x, perm), shape);
  };
  const ValueId left = moved(r.at(mul->inputs[0]), joined({roles->batch, roles->columns, roles->rows, summed}),
                             matrices(product(rows), count));
  const ValueId right = moved(r.at(mul->inputs[1]), joined({roles->batch, roles->rows, summed, roles->columns}),
                              matrices(count, product(columns)));
  ValueId y =
      build.node(Op::matmul, {left, right}, {{"trans_a", std::int64_t{0}}, {"trans_b", std::int64_t{0}}}, node.name);
  GRAFT_TRY(build.status());
  // The result's axes as they were, but for the one that is summed.
  const Ints order = joined({roles->batch, roles->rows, roles->columns});
  Ints back;
  for (std::int64_t axis = 0; axis < static_cast<std::int64_t>(whole.rank()); ++axis) {
    const auto at = std::ranges::find(order, axis);
    if (at != order.end()) back.push_back(at - order.begin());
  }
  y = build.reshape(y, Shape(sizes(whole, order)));
  y = build.reshape(std::ranges::is_sorted(back) ? y : build.transpose(y, back), m.shape(node.outputs[0]));
  r.replace(node.outputs[0], y);
  GRAFT_TRY(build.status());
  return true;
}

constexpr Rule kRules[] = {contraction};

}  // namespace

Result<PassGraph> canonicalise_contractions(const PassGraph& graph, const PrepareOptions&) {
  return apply_rules(graph, kRules);
}

}  // namespace graft::passes
