#include <algorithm>

#include "runtime/core/op_def.h"
#include "runtime/plan/draft.h"

namespace graft {
namespace {

/// Nodes that wait, and what of memory that concerns.
class Waiting {
 public:
  explicit Waiting(const Draft& draft) : d_(draft), read_(draft.graph.values().size(), 0), written_(read_) {}

  /// Whether `node` must run after those that wait.
  bool before(const Node& node) const {
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.inputs[i].valid()) continue;
      const std::uint32_t root = d_.roots[node.inputs[i].index];
      if (written_[root] != 0 || (mutates(node, i) && read_[root] != 0)) return true;
    }
    return false;
  }

  void add(NodeId id, std::uint32_t time) {
    const Node& node = d_.graph.node(id);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.inputs[i].valid()) continue;
      const std::uint32_t root = d_.roots[node.inputs[i].index];
      (mutates(node, i) ? written_ : read_)[root] = 1;
      const std::uint32_t storage = d_.storages.of_value[root];
      if (storage != kNoStorage && d_.storages.blocks[storage].last == time)
        bytes_ += d_.storages.blocks[storage].bytes;
    }
    nodes_.push_back(id);
  }

  void release(std::vector<NodeId>& order) {
    order.insert(order.end(), nodes_.begin(), nodes_.end());
    for (const NodeId id : nodes_) {
      for (const ValueId v : d_.graph.node(id).inputs) {
        if (v.valid()) read_[d_.roots[v.index]] = written_[d_.roots[v.index]] = 0;
      }
    }
    nodes_.clear();
    bytes_ = 0;
  }

  /// Kept alive by those that wait, and by nothing else.
  std::uint64_t bytes() const { return bytes_; }
  bool empty() const { return nodes_.empty(); }

 private:
  static bool mutates(const Node& node, std::size_t i) { return i < 32 && (op_def(node.op).mutates >> i & 1) != 0; }

  const Draft& d_;
  std::vector<NodeId> nodes_;
  std::vector<char> read_;  // per root
  std::vector<char> written_;
  std::uint64_t bytes_ = 0;
};

/// It gives nothing to any other node, and its dispatches can be merged with others.
bool may_wait(const Draft& d, NodeId id) {
  const Emission& emission = d.emissions[id.index];
  return d.graph.node(id).outputs.empty() && emission.scratch.empty() && !emission.dispatches.empty() &&
         std::all_of(emission.dispatches.begin(), emission.dispatches.end(),
                     [](const DispatchDesc& dispatch) { return table_kernel(dispatch.kernel).has_value(); });
}

}  // namespace

void gather_updates(Draft& d, const PlanOptions& options, std::uint64_t limit) {
  if (limit < peak(d)) return;
  const std::vector<NodeId> before = d.order;
  std::vector<NodeId> order;
  order.reserve(before.size());
  Waiting waiting(d);
  // Updates of what updates that wait have read (an accumulator that is set to zero) wait in a second line.
  Waiting second(d);
  const auto release = [&] {
    waiting.release(order);
    second.release(order);
  };
  for (std::uint32_t p = 0; p < before.size(); ++p) {
    const Node& node = d.graph.node(before[p]);
    const std::uint32_t time = p + 1;
    if (waiting.bytes() + second.bytes() + d.live[time] > limit) release();
    const bool after_first = waiting.before(node);
    const bool after_second = second.before(node);
    if (!may_wait(d, before[p])) {
      if (after_first || after_second) release();
      order.push_back(before[p]);
    } else if (after_second) {
      release();
      waiting.add(before[p], time);
    } else {
      (after_first ? second : waiting).add(before[p], time);
    }
  }
  release();
  if (order == before) return;
  use_order(d, std::move(order), options.in_place);
  // What overwrites its operand may find it still waited for, and then needs memory of its own.
  if (peak(d) > limit) use_order(d, before, options.in_place);
}

}  // namespace graft
