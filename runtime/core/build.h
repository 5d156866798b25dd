// Building graphs in code: expressions over ValueIds with one sticky error instead of a check per call.
#pragma once

#include <string_view>
#include <vector>

#include "runtime/core/graph.h"

namespace graft {

/// Adds nodes to a graph. After the first error every call returns kNoValue and adds nothing; status() tells it.
class Builder {
 public:
  explicit Builder(Graph& graph) : graph_(graph) {}

  Graph& graph() { return graph_; }
  const Shape& shape(ValueId v) const { return graph_.value(v).shape; }
  Status status() const { return status_; }
  void fail(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

  /// Names of the nodes to come start with this; forward_of is set on them.
  void set_scope(std::string_view prefix, NodeId forward_of);

  /// All outputs of a new node; empty after an error.
  std::vector<ValueId> nodes(Op op, std::vector<ValueId> inputs, Attrs attrs = {}, std::string_view name = {});
  /// Output 0 of a new node.
  ValueId node(Op op, std::vector<ValueId> inputs, Attrs attrs = {}, std::string_view name = {});

  // Shorthands for what gradients and losses are made of.
  ValueId add(ValueId a, ValueId b);
  ValueId sub(ValueId a, ValueId b);
  ValueId mul(ValueId a, ValueId b);
  ValueId div(ValueId a, ValueId b);
  ValueId neg(ValueId a);
  /// alpha * a + beta.
  ValueId affine(ValueId a, double alpha, double beta);
  ValueId scale(ValueId a, double alpha) { return affine(a, alpha, 0.0); }
  ValueId full(Shape shape, double value, DType dtype = DType::f32);
  ValueId reshape(ValueId a, Shape shape);  ///< nothing is added where the shape is already so
  ValueId transpose(ValueId a, Ints perm);
  ValueId reduce_sum(ValueId a, Ints axes, bool keepdims);
  ValueId expand(ValueId a, Shape shape);  ///< broadcast to; nothing is added where the shape is already so
  /// Sums over the axes along which `shape` was broadcast to a's shape; the inverse of expand in gradients.
  ValueId sum_to(ValueId a, const Shape& shape);

 private:
  Graph& graph_;
  Status status_;
  std::string scope_;
  NodeId forward_of_;
};

}  // namespace graft
