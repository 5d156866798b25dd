// What becomes of an op when its axes stand in another order.
//
// An order is a permutation: held axis k is axis order[k] of the value as the graph names it. A node runs in one
// *arrangement*: the order of its first input, for ops that broadcast the order of their result. Ops that are not
// listed run in the order that the graph names, which is the only one that a convolution or a pooling knows.
#pragma once

#include <optional>

#include "runtime/core/graph.h"

namespace graft::passes {

/// Always as long as the rank; never empty for "the same".
using Order = std::vector<std::uint8_t>;

Order same_order(std::size_t rank);
bool is_same_order(const Order& order);
Shape ordered(const Shape& shape, const Order& order);
/// Where axis `axis` stands in a value held in this order.
std::size_t place_of(const Order& order, std::size_t axis);
/// Whether going from one order to the other moves only axes of size 1, so that the elements stay where they are.
bool same_elements(const Shape& shape, const Order& from, const Order& to);

/// The order that an operand of lower rank must be held in to broadcast against a result held in `order`: the leading
/// axes that it lacks are dropped.
Order trailing_order(const Order& order, std::size_t rank);

class LayoutRules {
 public:
  explicit LayoutRules(const Graph& graph) : graph_(graph) {}

  /// Axes of an arrangement of the node.
  std::size_t arranged_rank(const Node& node) const;
  bool allows(const Node& node, const Order& arrangement) const;
  /// In what order it takes input i, and gives output k. Require that the arrangement is allowed.
  Order input_order(const Node& node, const Order& arrangement, std::size_t i) const;
  Order output_order(const Node& node, const Order& arrangement, std::size_t k) const;
  /// Whether it takes input i in this order as well, by another attribute: a product with the operand transposed.
  bool takes_swapped(const Node& node, const Order& arrangement, std::size_t i, const Order& held) const;

  /// The arrangement in which it takes input i, or gives output k, in this order; nullopt where there is none.
  std::optional<Order> arrange_input(const Node& node, std::size_t i, const Order& held) const;
  std::optional<Order> arrange_output(const Node& node, std::size_t k, const Order& held) const;

  /// Its attributes in this arrangement.
  Attrs attrs(const Node& node, const Order& arrangement) const;
  /// Operands of lower rank broadcast: they are reshaped to have an axis for each that follows.
  static bool broadcasts(Op op);

 private:
  const Shape& shape(ValueId v) const { return graph_.value(v).shape; }
  std::vector<bool> reduced(const Node& node) const;

  const Graph& graph_;
};

}  // namespace graft::passes
