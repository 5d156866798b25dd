#include "runtime/plan/recompute/recompute_cost.h"

#include <algorithm>

#include "runtime/core/op_def.h"
#include "runtime/plan/storage.h"

namespace graft {

RecomputeEvaluator::RecomputeEvaluator(const RecomputeGraph& graph, const std::vector<std::uint64_t>& bytes,
                                       const std::vector<NodeCost>& costs, bool in_place)
    : graph_(graph) {
  number_slots(bytes);
  const Graph& nodes = graph.graph();
  for (const NodeId id : graph.joint_order()) add_item(id, costs[id.index], in_place);
  for (const ValueId v : nodes.inputs()) {
    if (slot_of_[v.index] != kNone) inputs_.push_back(slot_of_[v.index]);
  }
  for (const Output& output : nodes.outputs()) {
    if (slot_of_[output.value.index] != kNone) outputs_.push_back(slot_of_[output.value.index]);
    const NodeId maker = nodes.value(output.value).producer;
    if (maker.valid()) items_[graph.place(maker)].needed = true;
  }
}

void RecomputeEvaluator::number_slots(const std::vector<std::uint64_t>& bytes) {
  const auto& values = graph_.graph().values();
  slot_of_.assign(bytes.size(), kNone);
  const auto add = [&](std::uint32_t v) {
    if (slot_of_[v] != kNone) return;
    slot_of_[v] = static_cast<std::uint32_t>(slots_.size());
    slots_.push_back({bytes[v], values[v].producer.valid() ? graph_.place(values[v].producer) : kNone});
  };
  for (const std::uint32_t v : graph_.candidates()) add(v);
  for (std::uint32_t v = 0; v < bytes.size(); ++v) {
    if (graph_.root(v) == v && transient(values[v])) add(v);
  }
  for (std::uint32_t v = 0; v < bytes.size(); ++v) slot_of_[v] = slot_of_[graph_.root(v)];
}

void RecomputeEvaluator::add_item(NodeId id, const NodeCost& cost, bool in_place) {
  const Node& node = graph_.graph().node(id);
  const std::vector<ValueId>& inputs = graph_.joint_inputs(id);
  for (const ValueId v : inputs) {
    if (!v.valid()) continue;
    const NodeId maker = graph_.graph().value(v).producer;
    const Read read{slot_of_[v.index], maker.valid() ? graph_.place(maker) : kNone};
    if (read.slot != kNone || read.maker != kNone) reads_.push_back(read);
  }
  for (std::size_t o = 0; o < node.outputs.size(); ++o) {
    const std::uint32_t v = node.outputs[o].index;
    if (graph_.root(v) != v) continue;
    if (in_place) add_overwritable(node, inputs, o);
    makes_.push_back(slot_of_[v]);
  }
  items_.push_back({cost, graph_.late(id), graph_.repeatable(id), op_def(node.op).mutates != 0,
                    static_cast<std::uint32_t>(reads_.size()), static_cast<std::uint32_t>(makes_.size()),
                    static_cast<std::uint32_t>(over_.size())});
  joint_.flops += cost.flops;
  joint_.bytes += cost.bytes;
}

/// As far as that does not depend on who else reads what: find_storages() says when a result may be written over an
/// operand. Operands in one storage are views of one value here, since a value is read by nobody once it was written
/// over.
void RecomputeEvaluator::add_overwritable(const Node& node, const std::vector<ValueId>& inputs, std::size_t output) {
  const Graph& graph = graph_.graph();
  const std::uint32_t allowed = inplace_inputs(graph, node, output);
  const auto hinted = [&](std::size_t i) { return i < 32 && (allowed >> i & 1) != 0; };
  const Value& out = graph.value(node.outputs[output]);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!hinted(i) || !inputs[i].valid()) continue;
    const std::uint32_t slot = slot_of_[inputs[i].index];
    if (slot == kNone || slots_[slot].bytes != slots_[slot_of_[node.outputs[output].index]].bytes) continue;
    if (graph.values()[graph_.root(inputs[i].index)].storage != out.storage) continue;
    bool agree = true;
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      if (!inputs[k].valid() || slot_of_[inputs[k].index] != slot) continue;
      agree = agree && hinted(k) && graph.value(inputs[k]).shape.elements() == out.shape.elements();
    }
    if (agree) over_.push_back({static_cast<std::uint32_t>(makes_.size()), slot});
  }
}

template <typename Visit>
void RecomputeEvaluator::reads_of(std::uint32_t position, const Visit& visit) const {
  for (std::uint32_t r = position == 0 ? 0 : items_[position - 1].reads; r < items_[position].reads; ++r) {
    visit(reads_[r]);
  }
}

/// Before each late node, what it needs again and has not run again yet, in the order of the first runs.
void RecomputeEvaluator::find_instances() {
  again_.assign(items_.size(), 0);
  live_.assign(items_.size(), 0);
  instances_.clear();
  instances_to_.clear();
  const auto want = [&](const Read& read) {
    if (read.maker == kNone) return;
    if (read.slot == kNone || gone_[read.slot] == 0) {
      live_[read.maker] = 1;
    } else if (items_[read.maker].repeatable && again_[read.maker] == 0) {
      again_[read.maker] = 1;
      instances_.push_back(read.maker);
      open_.push_back(read.maker);
    }
  };
  for (std::uint32_t p = 0; p < items_.size(); ++p) {
    if (!items_[p].late) continue;
    const auto begin = static_cast<std::ptrdiff_t>(instances_.size());
    reads_of(p, want);
    while (!open_.empty()) {
      const std::uint32_t q = open_.back();
      open_.pop_back();
      reads_of(q, want);
    }
    std::sort(instances_.begin() + begin, instances_.end());
    instances_to_.push_back(static_cast<std::uint32_t>(instances_.size()));
  }
}

/// First runs that something kept depends on.
void RecomputeEvaluator::find_live() {
  for (auto p = static_cast<std::uint32_t>(items_.size()); p-- > 0;) {
    if (items_[p].late || (live_[p] == 0 && !items_[p].needed)) continue;
    live_[p] = 1;
    reads_of(p, [&](const Read& read) {
      if (read.maker != kNone) live_[read.maker] = 1;
    });
  }
}

void RecomputeEvaluator::find_times() {
  const auto n = static_cast<std::uint32_t>(items_.size());
  runs_.clear();
  std::uint32_t next = 0;
  std::uint32_t late = 0;
  for (std::uint32_t p = 0; p < n; ++p) {
    if (items_[p].late) {
      for (; next < instances_to_[late]; ++next) runs_.push_back(n + instances_[next]);
      ++late;
    } else if (live_[p] == 0) {
      continue;  // only the backward pass wanted it, and gets its second instance
    }
    runs_.push_back(p);
  }
  first_.assign(2 * slots_.size(), kNone);
  last_.assign(2 * slots_.size(), 0);
  std::uint32_t time = 0;
  for (const std::uint32_t run : runs_) {
    ++time;
    const std::uint32_t p = run < n ? run : run - n;
    const bool second = run >= n || items_[p].late;
    reads_of(p, [&](const Read& read) {
      if (read.slot != kNone) last_[seen(read.slot, second)] = time;
    });
    for (std::uint32_t m = p == 0 ? 0 : items_[p - 1].makes; m < items_[p].makes; ++m) {
      const std::uint32_t slot = makes_[m] + (run < n ? 0 : static_cast<std::uint32_t>(slots_.size()));
      first_[slot] = last_[slot] = time;
    }
  }
  for (const std::uint32_t slot : outputs_) last_[slot] = time + 1;
}

void RecomputeEvaluator::count_bytes() {
  const auto n = static_cast<std::uint32_t>(items_.size());
  level_.assign(runs_.size() + 3, 0);  // differences; unsigned wrap-around cancels out in the running sum
  for (const std::uint32_t slot : inputs_) {
    if (last_[slot] == 0) continue;
    first_[slot] = 0;
    level_[0] += slots_[slot].bytes;
    level_[std::size_t{last_[slot]} + 1] -= slots_[slot].bytes;
  }
  std::uint32_t time = 0;
  for (const std::uint32_t run : runs_) {
    ++time;
    const std::uint32_t p = run < n ? run : run - n;
    const bool second = run >= n || items_[p].late;
    level_[time] += items_[p].cost.scratch;
    level_[time + 1] -= items_[p].cost.scratch;
    taken_.clear();
    std::uint32_t o = p == 0 ? 0 : items_[p - 1].over;
    for (std::uint32_t m = p == 0 ? 0 : items_[p - 1].makes; m < items_[p].makes; ++m) {
      bool over = false;
      for (; o < items_[p].over && over_[o].make == m; ++o) {
        const std::uint32_t operand = over_[o].slot;
        if (over || last_[seen(operand, second)] != time) continue;
        over = std::find(taken_.begin(), taken_.end(), operand) == taken_.end();
        if (over) taken_.push_back(operand);
      }
      const std::uint32_t slot = makes_[m] + (run < n ? 0 : static_cast<std::uint32_t>(slots_.size()));
      level_[time + (over ? 1 : 0)] += slots_[makes_[m]].bytes;  // the operand's memory, until now the operand's
      level_[std::size_t{last_[slot]} + 1] -= slots_[makes_[m]].bytes;
    }
  }
}

RecomputeCost RecomputeEvaluator::operator()(const std::vector<char>& dropped, std::uint64_t level) {
  gone_.assign(slots_.size(), 0);
  std::copy(dropped.begin(), dropped.end(), gone_.begin());
  find_instances();
  find_live();
  find_times();
  count_bytes();
  NodeCost sum;
  const auto n = static_cast<std::uint32_t>(items_.size());
  for (const std::uint32_t run : runs_) {
    const NodeCost& node = items_[run < n ? run : run - n].cost;
    sum.flops += node.flops;
    sum.bytes += node.bytes;
  }
  RecomputeCost cost;
  cost.flops = sum.flops - joint_.flops;
  cost.bytes = sum.bytes - joint_.bytes;
  cost.work = sum.work() - joint_.work();
  std::uint64_t live = 0;
  for (std::uint32_t t = 0; t < runs_.size() + 2; ++t) {
    live += level_[t];
    if (live > cost.peak) {
      cost.peak = live;
      peak_time_ = t;
    }
    cost.above += live > level ? live - level : 0;
  }
  return cost;
}

std::vector<char> RecomputeEvaluator::alive_at_peak() const {
  std::vector<char> alive;
  alive.reserve(graph_.candidates().size());
  for (std::size_t c = 0; c < graph_.candidates().size(); ++c) {
    alive.push_back(first_[c] <= peak_time_ && peak_time_ <= last_[c]);
  }
  return alive;
}

}  // namespace graft
