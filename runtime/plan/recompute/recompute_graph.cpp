#include "runtime/plan/recompute/recompute_graph.h"

#include <algorithm>

#include "runtime/core/liveness.h"
#include "runtime/core/op_def.h"

namespace graft {

Result<RecomputeGraph> RecomputeGraph::create(const Graph& joint, std::vector<NodeId> order) {
  RecomputeGraph out(joint, std::move(order));
  out.roots_ = alias_roots(joint);
  out.place_.assign(out.joint_nodes_, 0);
  for (std::uint32_t p = 0; p < out.order_.size(); ++p) out.place_[out.order_[p].index] = p;
  out.classify();
  GRAFT_TRY(out.add_instances());
  out.find_candidates();
  return out;
}

/// Late: the backward pass and what depends on it. Repeatable: early, without side effects, and not reading anything
/// that the forward pass changes.
void RecomputeGraph::classify() {
  late_.assign(joint_nodes_, 0);
  repeatable_.assign(joint_nodes_, 0);
  std::vector<char> changed(joint_values_, 0);
  for (const NodeId id : order_) {
    const Node& node = graph_.node(id);
    const bool after_late = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) {
      if (!v.valid()) return false;
      const NodeId producer = graph_.value(v).producer;
      return producer.valid() && late_[producer.index] != 0;
    });
    late_[id.index] = node.forward_of.valid() || after_late;
    const std::uint32_t mutates = op_def(node.op).mutates;
    if (late_[id.index] != 0 || mutates == 0) continue;
    for (std::size_t i = 0; i < node.inputs.size() && i < 32; ++i) {
      if ((mutates >> i & 1) != 0 && node.inputs[i].valid()) changed[roots_[node.inputs[i].index]] = 1;
    }
  }
  for (const NodeId id : order_) {
    const Node& node = graph_.node(id);
    const bool reads_changed = std::any_of(node.inputs.begin(), node.inputs.end(),
                                           [&](ValueId v) { return v.valid() && changed[roots_[v.index]] != 0; });
    repeatable_[id.index] = late_[id.index] == 0 && op_def(node.op).mutates == 0 && !reads_changed;
  }
}

Status RecomputeGraph::add_instances() {
  instance_of_.assign(joint_nodes_, kNoNode);
  again_.resize(joint_values_);
  for (std::uint32_t v = 0; v < joint_values_; ++v) again_[v] = v;
  for (const NodeId id : order_) {
    if (repeatable_[id.index] == 0) continue;
    const Node node = graph_.node(id);  // by value: the graph grows
    GRAFT_TRY_ASSIGN(instance_of_[id.index],
                     graph_.add_node(node.op, node.inputs, Attrs(node.attrs), "recompute/" + node.name));
    Node& instance = graph_.mutable_node(instance_of_[id.index]);
    instance.forward_of = id;
    originals_.push_back(id);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      again_[node.outputs[i].index] = instance.outputs[i].index;
      graph_.mutable_value(instance.outputs[i]).storage = graph_.value(node.outputs[i]).storage;
      original_values_.push_back(node.outputs[i].index);
    }
  }
  return ok_status();
}

/// Results of repeatable nodes, all views of which are repeatable too, unless they are given to the caller.
void RecomputeGraph::find_candidates() {
  std::vector<char> fixed(joint_values_, 0);
  saved_.assign(joint_values_, 0);
  late_inputs_.resize(joint_nodes_);
  for (const Output& output : graph_.outputs()) fixed[roots_[output.value.index]] = 1;
  for (const NodeId id : order_) {
    const Node& node = graph_.node(id);
    for (const ValueId v : node.outputs) {
      // The backward pass's own view of a forward result becomes a view of the second one.
      const bool late_view = late_[id.index] != 0 && roots_[v.index] != v.index;
      if (repeatable_[id.index] == 0 && !late_view) fixed[roots_[v.index]] = 1;
    }
    if (late_[id.index] == 0) continue;
    late_inputs_[id.index] = node.inputs;
    for (const ValueId v : node.inputs) {
      if (v.valid()) saved_[roots_[v.index]] = 1;
    }
  }
  for (const NodeId id : order_) {
    for (const ValueId v : graph_.node(id).outputs) {
      if (roots_[v.index] == v.index && fixed[v.index] == 0 && graph_.value(v).shape.elements() != 0) {
        candidates_.push_back(v.index);
      }
    }
  }
}

void RecomputeGraph::drop(const std::vector<char>& dropped) {
  std::vector<char> gone(joint_values_, 0);
  for (std::size_t c = 0; c < candidates_.size(); ++c) gone[candidates_[c]] = dropped[c];
  const auto rewire = [&](const std::vector<ValueId>& from, std::vector<ValueId>& to) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (from[i].valid() && gone[roots_[from[i].index]] != 0) {
        to[i] = ValueId{again_[from[i].index]};
      } else {
        to[i] = from[i];
      }
    }
  };
  for (const NodeId id : order_) {
    if (late_[id.index] != 0) rewire(late_inputs_[id.index], graph_.mutable_node(id).inputs);
    if (repeatable_[id.index] != 0) {
      rewire(graph_.node(id).inputs, graph_.mutable_node(instance_of_[id.index]).inputs);
    }
  }
}

/// Appends the instances behind `values` that have not run yet, in the order of their originals.
void RecomputeGraph::instances_before(std::vector<ValueId> values, std::vector<char>& done,
                                      std::vector<NodeId>& out) const {
  const std::size_t begin = out.size();
  while (!values.empty()) {
    const ValueId v = values.back();
    values.pop_back();
    if (!v.valid() || v.index < joint_values_) continue;
    const NodeId instance = graph_.value(v).producer;
    char& seen = done[instance.index - joint_nodes_];
    if (seen != 0) continue;
    seen = 1;
    out.push_back(instance);
    const auto& inputs = graph_.node(instance).inputs;
    values.insert(values.end(), inputs.begin(), inputs.end());
  }
  std::sort(out.begin() + static_cast<std::ptrdiff_t>(begin), out.end(),
            [&](NodeId a, NodeId b) { return place_[original(a).index] < place_[original(b).index]; });
}

std::vector<NodeId> RecomputeGraph::order() const {
  std::vector<char> done(originals_.size(), 0);
  std::vector<char> live(graph_.nodes().size(), 0);
  for (const std::uint32_t n : live_nodes(graph_)) live[n] = 1;
  std::vector<NodeId> out;
  out.reserve(graph_.nodes().size());
  for (const NodeId id : order_) {
    if (live[id.index] == 0) continue;  // only the backward pass wanted it, and gets its second instance
    if (late_[id.index] != 0) instances_before(graph_.node(id).inputs, done, out);
    out.push_back(id);
  }
  return out;
}

NodeId RecomputeGraph::original(NodeId node) const {
  return node.index < joint_nodes_ ? node : originals_[node.index - joint_nodes_];
}

std::uint32_t RecomputeGraph::original_value(std::uint32_t value) const {
  return value < joint_values_ ? value : original_values_[value - joint_values_];
}

}  // namespace graft
