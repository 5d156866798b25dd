// What computing forward results again costs, and what it saves: exactly, and without touching the graph.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/plan/recompute/recompute_graph.h"

namespace graft {

/// What one run of a node costs.
struct NodeCost {
  std::uint64_t flops = 0;
  std::uint64_t bytes = 0;  ///< read and written
  std::uint64_t scratch = 0;
  /// FLOPs, and as many as a device could do while it moves the bytes: a concatenation is no gift. Devices manage 2
  /// (CPUs) to 50 (large GPUs) in the time of a byte.
  std::uint64_t work() const { return flops + 4 * bytes; }
};

/// What a choice costs.
struct RecomputeCost {
  std::uint64_t peak = 0;   ///< largest sum of live transient bytes, under RecomputeGraph::order()
  std::uint64_t flops = 0;  ///< more than without; so are the rest
  std::uint64_t bytes = 0;
  std::uint64_t work = 0;   ///< NodeCost::work()
  std::uint64_t above = 0;  ///< live bytes above the level asked for, summed over all times
};

/// Costs of choices: those of the graph that RecomputeGraph::drop() makes, under its order() and with the storages
/// that find_storages() finds. A search asks thousands of times, so that all that no choice changes is laid out flat.
class RecomputeEvaluator {
 public:
  /// `bytes` per value and `costs` per node are of the joint graph.
  RecomputeEvaluator(const RecomputeGraph& graph, const std::vector<std::uint64_t>& bytes,
                     const std::vector<NodeCost>& costs, bool in_place);

  RecomputeCost operator()(const std::vector<char>& dropped, std::uint64_t level = 0);
  /// Per candidate: whether its first instance was alive at the peak of the last choice.
  std::vector<char> alive_at_peak() const;

  const RecomputeGraph& graph() const { return graph_; }
  std::uint64_t bytes(std::size_t candidate) const { return slots_[candidate].bytes; }
  /// Of the node that makes it.
  std::uint64_t work(std::size_t candidate) const { return items_[slots_[candidate].maker].cost.work(); }

 private:
  /// Transient memory that a node and its second instance name alike: candidates first, then the others.
  struct Slot {
    std::uint64_t bytes = 0;
    std::uint32_t maker = 0;  ///< position of the node
  };
  struct Read {
    std::uint32_t slot = 0;   ///< kNone for residents
    std::uint32_t maker = 0;  ///< position of the node that gives the value (a view, maybe); kNone for inputs
  };
  struct Over {
    std::uint32_t make = 0;  ///< index into makes_: what may be written
    std::uint32_t slot = 0;  ///< over this
  };
  struct Item {
    NodeCost cost;
    bool late = false;
    bool repeatable = false;
    bool needed = false;  ///< an output or a change is its
    // Ends of ranges that begin where those of the item before end.
    std::uint32_t reads = 0;
    std::uint32_t makes = 0;
    std::uint32_t over = 0;
  };
  static constexpr std::uint32_t kNone = 0xffffffffu;

  void number_slots(const std::vector<std::uint64_t>& bytes);
  void add_item(NodeId id, const NodeCost& cost, bool in_place);
  void add_overwritable(const Node& node, const std::vector<ValueId>& inputs, std::size_t output);
  void find_instances();
  void find_live();
  void find_times();
  void count_bytes();

  template <typename Visit>
  void reads_of(std::uint32_t position, const Visit& visit) const;
  /// Where the run of an item finds what it reads.
  std::uint32_t seen(std::uint32_t slot, bool second) const {
    return second && gone_[slot] != 0 ? slot + static_cast<std::uint32_t>(slots_.size()) : slot;
  }

  const RecomputeGraph& graph_;
  std::vector<std::uint32_t> slot_of_;  ///< per joint value: of its root
  std::vector<Slot> slots_;
  std::vector<Item> items_;  ///< by position in the joint order; one more in front, whose ranges are empty
  std::vector<Read> reads_;
  std::vector<std::uint32_t> makes_;    ///< slots
  std::vector<Over> over_;              ///< in the order of makes_
  std::vector<std::uint32_t> inputs_;   ///< slots of the graph's inputs
  std::vector<std::uint32_t> outputs_;  ///< slots of the graph's outputs
  NodeCost joint_;                      ///< of all nodes

  // Of the choice at hand.
  std::vector<char> gone_;                   ///< per slot
  std::vector<char> live_;                   ///< per position: its first run is needed
  std::vector<char> again_;                  ///< per position: it runs again
  std::vector<std::uint32_t> instances_;     ///< positions, in the order in which they run again
  std::vector<std::uint32_t> instances_to_;  ///< per late position, in order: end of those that precede it
  std::vector<std::uint32_t> runs_;          ///< positions; those of second instances plus items_.size()
  std::vector<std::uint32_t> first_;         ///< per slot, and per slot of second instances: as in Storages
  std::vector<std::uint32_t> last_;
  std::vector<std::uint64_t> level_;  ///< live bytes per time
  std::vector<std::uint32_t> open_;
  std::vector<std::uint32_t> taken_;  ///< slots that the run at hand has written over
  std::uint32_t peak_time_ = 0;
};

}  // namespace graft
