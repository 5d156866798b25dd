// In which order of axes each value is held.
//
// Convolutions and poolings know images channels-last alone; models come with channels first, so that importers put
// transposes around each. Most ops in between run in any order. This pass chooses an arrangement for every node, so
// that the fewest bytes are moved in all: it begins with the orders that the graph names, and at each edge where
// elements must move it lets one side's order flow through the graph, node by node, as far as nodes allow it; the
// stretch that saves most is kept. Transposes of the graph are then nothing but other names of axes; what has to move
// is moved where the orders still differ.
#include <algorithm>
#include <deque>
#include <map>

#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/passes/layout_rules.h"
#include "runtime/passes/passes.h"

namespace graft::passes {
namespace {

constexpr std::size_t kMaxFlow = 4096;  // nodes that one try changes
constexpr int kMaxRounds = 8;

/// Arrangements of all nodes, and what they cost.
class Arrangements {
 public:
  explicit Arrangements(const PassGraph& in) : in_(in), graph_(in.graph), rules_(in.graph) {
    readers_.resize(graph_.values().size());
    for (std::uint32_t n = 0; n < graph_.nodes().size(); ++n) {
      const Node& node = graph_.nodes()[n];
      chosen_.push_back(same_order(rules_.arranged_rank(node)));
      for (std::uint32_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i].valid()) readers_[node.inputs[i].index].push_back({n, i});
      }
    }
    is_output_.resize(graph_.values().size());
    for (const Output& output : graph_.outputs()) is_output_[output.value.index] = true;
  }

  const LayoutRules& rules() const { return rules_; }
  const Order& of(std::size_t node) const { return chosen_[node]; }

  /// In what order readers find it. A pinned value is there as the graph names it.
  Order held(ValueId v) const { return in_.is_pinned(v) ? same_order(graph_.value(v).shape.rank()) : produced(v); }

  /// What the producer gives, before anything is moved.
  Order produced(ValueId v) const {
    const Value& value = graph_.value(v);
    if (!value.producer.valid()) return same_order(value.shape.rank());
    const Node& node = graph_.node(value.producer);
    const auto k = std::find(node.outputs.begin(), node.outputs.end(), v) - node.outputs.begin();
    return rules_.output_order(node, chosen_[value.producer.index], static_cast<std::size_t>(k));
  }

  void choose() {
    for (int round = 0; round < kMaxRounds; ++round) {
      bool better = false;
      for (std::uint32_t n = 0; n < graph_.nodes().size(); ++n) {
        for (std::uint32_t i = 0; i < graph_.nodes()[n].inputs.size(); ++i) better = try_edge(n, i) || better;
      }
      if (!better) return;
    }
  }

 private:
  struct Reader {
    std::uint32_t node;
    std::uint32_t input;
  };
  struct Change {
    std::uint32_t node;
    Order arrangement;
  };

  std::uint64_t bytes(ValueId v) const { return graph_.value(v).shape.elements() * 4; }

  /// Bytes that are moved so that every reader gets the value as it takes it: once for each order.
  std::uint64_t cost(ValueId v) const {
    const Shape& shape = graph_.value(v).shape;
    if (shape.rank() < 2) return 0;
    const Order have = held(v);
    std::vector<Order> orders;
    const auto need = [&](const Order& order) {
      if (same_elements(shape, have, order)) return;
      const bool known = std::any_of(orders.begin(), orders.end(),
                                     [&](const Order& other) { return same_elements(shape, other, order); });
      if (!known) orders.push_back(order);
    };
    if (is_output_[v.index]) need(same_order(shape.rank()));
    for (const Reader& reader : readers_[v.index]) {
      const Node& node = graph_.nodes()[reader.node];
      const Order& arrangement = chosen_[reader.node];
      if (rules_.takes_swapped(node, arrangement, reader.input, have)) continue;
      need(rules_.input_order(node, arrangement, reader.input));
    }
    const bool settles = in_.is_pinned(v) && !same_elements(shape, produced(v), have);
    return (orders.size() + (settles ? 1 : 0)) * bytes(v);
  }

  std::uint64_t cost_around(const Node& node) const {
    std::vector<ValueId> values = node.outputs;
    for (const ValueId v : node.inputs) {
      if (v.valid() && std::find(values.begin(), values.end(), v) == values.end()) values.push_back(v);
    }
    std::uint64_t total = 0;
    for (const ValueId v : values) total += cost(v);
    return total;
  }

  /// Where elements are moved between a producer and this reader: lets either side's order flow to the other.
  bool try_edge(std::uint32_t n, std::uint32_t i) {
    const ValueId v = graph_.nodes()[n].inputs[i];
    if (!v.valid()) return false;
    const auto moves = [&] {
      const Node& node = graph_.nodes()[n];
      const Order have = held(v);
      return !same_elements(graph_.value(v).shape, have, rules_.input_order(node, chosen_[n], i)) &&
             !rules_.takes_swapped(node, chosen_[n], i, have);
    };
    bool better = false;
    if (moves()) better = flow_up(v, rules_.input_order(graph_.nodes()[n], chosen_[n], i));
    if (!moves()) return better;
    const auto arrangement = rules_.arrange_input(graph_.nodes()[n], i, held(v));
    return (arrangement && flow({n, *arrangement})) || better;
  }

  bool flow_up(ValueId v, const Order& wanted) {
    const auto change = above(v, wanted);
    return change && flow(*change);
  }

  std::optional<Change> above(ValueId v, const Order& wanted) const {
    const NodeId producer = graph_.value(v).producer;
    if (!producer.valid()) return std::nullopt;
    const Node& node = graph_.node(producer);
    const auto k = std::find(node.outputs.begin(), node.outputs.end(), v) - node.outputs.begin();
    auto arrangement = rules_.arrange_output(node, static_cast<std::size_t>(k), wanted);
    if (!arrangement) return std::nullopt;
    return Change{producer.index, std::move(*arrangement)};
  }

  /// Makes the change, and then at its neighbours what lets their values stay where they are, and so on. Keeps the
  /// first changes up to where the sum of costs is lowest; none where it is not lower than before.
  bool flow(Change first) {
    std::vector<std::pair<std::uint32_t, Order>> before;  // what was changed
    std::vector<char> seen(graph_.nodes().size());
    std::deque<Change> waiting = {std::move(first)};
    std::int64_t total = 0, best = 0;
    std::size_t keep = 0;
    while (!waiting.empty() && before.size() < kMaxFlow) {
      const Change change = std::move(waiting.front());
      waiting.pop_front();
      if (seen[change.node] != 0 || chosen_[change.node] == change.arrangement) continue;
      seen[change.node] = 1;
      const Node& node = graph_.nodes()[change.node];
      const auto old_cost = static_cast<std::int64_t>(cost_around(node));
      before.emplace_back(change.node, chosen_[change.node]);
      chosen_[change.node] = change.arrangement;
      total += static_cast<std::int64_t>(cost_around(node)) - old_cost;
      if (total < best) {
        best = total;
        keep = before.size();
      }
      add_neighbours(node, change.node, waiting);
    }
    while (before.size() > keep) {
      chosen_[before.back().first] = std::move(before.back().second);
      before.pop_back();
    }
    return keep > 0;
  }

  void add_neighbours(const Node& node, std::uint32_t n, std::deque<Change>& waiting) const {
    for (std::uint32_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.inputs[i].valid()) continue;
      if (auto change = above(node.inputs[i], rules_.input_order(node, chosen_[n], i))) {
        waiting.push_back(std::move(*change));
      }
    }
    for (const ValueId v : node.outputs) {
      for (const Reader& reader : readers_[v.index]) {
        auto arrangement = rules_.arrange_input(graph_.nodes()[reader.node], reader.input, held(v));
        if (arrangement) waiting.push_back({reader.node, std::move(*arrangement)});
      }
    }
  }

  const PassGraph& in_;
  const Graph& graph_;
  LayoutRules rules_;
  std::vector<Order> chosen_;  // by node
  std::vector<std::vector<Reader>> readers_;
  std::vector<bool> is_output_;
};

/// Writes the graph with every node in its arrangement.
class Arranger {
 public:
  Arranger(const PassGraph& in, const Arrangements& arrangements)
      : rewriter_(in), arrangements_(arrangements), held_(in.graph.values().size()) {}

  Result<PassGraph> run() {
    const Graph& graph = rewriter_.source();
    for (std::uint32_t v = 0; v < graph.values().size(); ++v) {
      const Value& value = graph.values()[v];
      if (value.kind == ValueKind::temporary) continue;
      held_[v] = {rewriter_.at(ValueId{v}), same_order(value.shape.rank()), {}};
    }
    for (std::uint32_t n = 0; n < graph.nodes().size(); ++n) GRAFT_TRY(write(graph.nodes()[n], arrangements_.of(n)));
    return rewriter_.finish();
  }

 private:
  struct Held {
    ValueId value;  // in the copy
    Order order;
    std::map<Order, ValueId> others;  // the same in other orders
  };

  ValueId in_order(ValueId v, const Order& wanted) {
    Held& held = held_[v.index];
    if (held.order == wanted) return held.value;
    if (const auto found = held.others.find(wanted); found != held.others.end()) return found->second;
    const ValueId moved = move(v, wanted);
    held.others.emplace(wanted, moved);
    return moved;
  }

  /// A value of its own, even where nothing has to move.
  ValueId move(ValueId v, const Order& wanted) {
    const Held& held = held_[v.index];
    const Shape& shape = rewriter_.value(v).shape;
    Builder& b = rewriter_.builder();
    if (same_elements(shape, held.order, wanted)) {
      return b.node(Op::reshape, {held.value}, {{"shape", ordered(shape, wanted)}});
    }
    Ints perm;
    for (const std::uint8_t axis : wanted) perm.push_back(static_cast<std::int64_t>(place_of(held.order, axis)));
    return b.transpose(held.value, std::move(perm));
  }

  Status write(const Node& node, const Order& arrangement) {
    const LayoutRules& rules = arrangements_.rules();
    if (node.op == Op::transpose) {
      Held& y = held_[node.outputs[0].index];
      y = {in_order(node.inputs[0], arrangement), rules.output_order(node, arrangement, 0), {}};
      return settle(node.outputs[0], true);
    }
    Attrs attrs = rules.attrs(node, arrangement);
    std::vector<ValueId> inputs;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      inputs.push_back(node.inputs[i].valid() ? operand(node, arrangement, i, attrs) : kNoValue);
    }
    const auto made = rewriter_.builder().nodes(node.op, std::move(inputs), std::move(attrs), node.name);
    GRAFT_TRY(rewriter_.builder().status());
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      held_[node.outputs[k].index] = {made[k], rules.output_order(node, arrangement, k), {}};
      GRAFT_TRY(settle(node.outputs[k], false));
    }
    return {};
  }

  ValueId operand(const Node& node, const Order& arrangement, std::size_t i, Attrs& attrs) {
    const LayoutRules& rules = arrangements_.rules();
    const ValueId v = node.inputs[i];
    const Order& have = held_[v.index].order;
    const Order wanted = rules.input_order(node, arrangement, i);
    if (have != wanted && rules.takes_swapped(node, arrangement, i, have)) {
      const char* name = i == 0 ? "trans_a" : "trans_b";
      attrs.set(name, std::int64_t{!attrs.flag(name)});
      return held_[v.index].value;
    }
    const ValueId x = in_order(v, wanted);
    const Shape& shape = rewriter_.value(v).shape;
    const bool spread = LayoutRules::broadcasts(node.op) && shape.rank() > 0 && shape.rank() < arrangement.size() &&
                        !is_same_order(arrangement);
    if (!spread) return x;
    // An axis of size 1 for each that it lacks, where the result holds that.
    const std::size_t missing = arrangement.size() - shape.rank();
    std::vector<Dim> dims;
    for (const std::uint8_t axis : arrangement) dims.push_back(axis < missing ? Dim(1) : shape[axis - missing]);
    return rewriter_.builder().reshape(x, Shape(std::move(dims)));
  }

  /// Names the value. Outputs and pinned values are there as the graph names them; a pinned one is what all read.
  Status settle(ValueId v, bool alias) {
    Held& held = held_[v.index];
    const bool pinned = rewriter_.is_pinned(v);
    const Order named = same_order(rewriter_.value(v).shape.rank());
    if (!rewriter_.is_output(v) && !pinned) {
      if (held.order == named) {
        rewriter_.replace(v, held.value);
      } else if (!alias) {
        rewriter_.name(held.value, v, held.order);
      }
      return rewriter_.builder().status();
    }
    // An alias of what has a name already gets a value of its own.
    const ValueId own = alias ? move(v, named) : in_order(v, named);
    rewriter_.replace(v, own);
    if (pinned) {
      held = {own, named, {}};
    } else {
      held.others.emplace(named, own);
    }
    return rewriter_.builder().status();
  }

  Rewriter rewriter_;
  const Arrangements& arrangements_;
  std::vector<Held> held_;  // by the source's value
};

}  // namespace

Result<PassGraph> choose_layouts(const PassGraph& graph, const PrepareOptions&) {
  const auto& nodes = graph.graph.nodes();
  const bool moves = std::any_of(nodes.begin(), nodes.end(), [](const Node& n) { return n.op == Op::transpose; });
  if (!moves) return graph;
  Arrangements arrangements(graph);
  arrangements.choose();
  return Arranger(graph, arrangements).run();
}

}  // namespace graft::passes
