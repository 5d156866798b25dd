// A training graph in which forward nodes may run a second time, right before the backward pass needs their results.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/core/graph.h"

namespace graft {

/// A copy of a graph with a second instance of every forward node that can run again. Instances stand behind the
/// graph's own nodes, so that ids of the original stay true, and read each other wherever a value was *dropped*: the
/// backward pass then finds it computed again, and its memory is free in between. Random numbers come from the step
/// state and a node's attributes, which an instance shares: both runs give the same bits.
class RecomputeGraph {
 public:
  /// `order` holds the joint graph's live nodes in an order of execution.
  static Result<RecomputeGraph> create(const Graph& joint, std::vector<NodeId> order);

  /// The graph as the last drop() left it. Nodes need not stand in an order of execution.
  const Graph& graph() const { return graph_; }

  /// Values (of the joint graph, roots of their views) that may be dropped, in the order of execution.
  const std::vector<std::uint32_t>& candidates() const { return candidates_; }
  /// Per candidate: the backward pass reads it, or a view of it.
  bool saved(std::size_t candidate) const { return saved_[candidates_[candidate]] != 0; }

  /// Per candidate, whether its result is computed again. Rewires the graph.
  void drop(const std::vector<char>& dropped);

  /// The order of execution for what was dropped: the joint graph's, with each second instance as late as it can be.
  std::vector<NodeId> order() const;

  /// The node that an instance repeats; other nodes are their own.
  NodeId original(NodeId node) const;
  /// The value that an instance's result repeats; other values are their own.
  std::uint32_t original_value(std::uint32_t value) const;
  std::size_t joint_nodes() const { return joint_nodes_; }
  std::size_t joint_values() const { return joint_values_; }
  const std::vector<NodeId>& joint_order() const { return order_; }
  // Of the joint graph: whether a node depends on the backward pass, its position in the order, a view's root.
  bool late(NodeId node) const { return late_[node.index] != 0; }
  std::uint32_t place(NodeId node) const { return place_[node.index]; }
  std::uint32_t root(std::uint32_t value) const { return roots_[value]; }
  bool repeatable(NodeId node) const { return repeatable_[node.index] != 0; }
  /// What it reads in the joint graph.
  const std::vector<ValueId>& joint_inputs(NodeId node) const {
    return late_[node.index] != 0 ? late_inputs_[node.index] : graph_.node(node).inputs;
  }

 private:
  explicit RecomputeGraph(const Graph& joint, std::vector<NodeId> order)
      : graph_(joint),
        order_(std::move(order)),
        joint_nodes_(joint.nodes().size()),
        joint_values_(joint.values().size()) {}

  void classify();
  Status add_instances();
  void find_candidates();
  void instances_before(std::vector<ValueId> values, std::vector<char>& done, std::vector<NodeId>& out) const;

  Graph graph_;
  std::vector<NodeId> order_;
  std::size_t joint_nodes_;
  std::size_t joint_values_;
  std::vector<char> late_;                         ///< per joint node: it depends on the backward pass
  std::vector<char> repeatable_;                   ///< per joint node
  std::vector<char> saved_;                        ///< per joint value (roots)
  std::vector<std::uint32_t> roots_;               ///< per joint value
  std::vector<NodeId> instance_of_;                ///< per joint node: its second instance
  std::vector<std::uint32_t> again_;               ///< per joint value: the instance's result, or itself
  std::vector<NodeId> originals_;                  ///< per instance
  std::vector<std::uint32_t> original_values_;     ///< per result of an instance
  std::vector<std::vector<ValueId>> late_inputs_;  ///< per joint node: its inputs in the joint graph
  std::vector<std::uint32_t> place_;               ///< per joint node: position in order_
  std::vector<std::uint32_t> candidates_;
};

}  // namespace graft
