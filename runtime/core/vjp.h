// What a gradient rule sees: the forward node, the cotangents of its outputs, and a builder for backward nodes.
#pragma once

#include <span>
#include <vector>

#include "runtime/core/build.h"

namespace graft {

/// A rule calls grad(i, g) for each input i that needs() one; leaving one out says that its gradient is zero.
/// Shapes: a cotangent has its output's shape. g may have a shape that in(i) was broadcast to: the walker
/// (runtime/autodiff) sums it back, and adds up contributions of several uses.
class VjpContext {
 public:
  VjpContext(Builder& builder, NodeId node, std::vector<ValueId> cotangents, std::vector<bool> needs)
      : b(builder),
        node_(node),
        cotangents_(std::move(cotangents)),
        needs_(std::move(needs)),
        grads_(needs_.size(), kNoValue) {}

  Builder& b;  ///< short on purpose: rules are expressions, `c.grad(0, c.b.mul(c.dy(), c.in(1)))`

  // By value: the graph grows while a rule runs.
  Node node() const { return b.graph().node(node_); }
  const Attrs& attrs() const { return b.graph().node(node_).attrs; }
  std::size_t inputs() const { return b.graph().node(node_).inputs.size(); }
  ValueId in(std::size_t i) const {
    const auto& inputs = b.graph().node(node_).inputs;
    return i < inputs.size() ? inputs[i] : kNoValue;
  }
  ValueId out(std::size_t i = 0) const { return b.graph().node(node_).outputs[i]; }
  Shape in_shape(std::size_t i) const { return b.graph().value(in(i)).shape; }
  Shape out_shape(std::size_t i = 0) const { return b.graph().value(out(i)).shape; }

  /// The cotangent of output i, or kNoValue where nothing depends on that output.
  ValueId cotangent(std::size_t i) const { return cotangents_[i]; }
  /// Output 0's cotangent.
  ValueId dy() const { return cotangents_[0]; }
  bool needs(std::size_t i) const { return i < needs_.size() && needs_[i]; }
  void grad(std::size_t i, ValueId gradient) { grads_[i] = gradient; }
  const std::vector<ValueId>& grads() const { return grads_; }

 private:
  NodeId node_;
  std::vector<ValueId> cotangents_;
  std::vector<bool> needs_;
  std::vector<ValueId> grads_;
};

}  // namespace graft
