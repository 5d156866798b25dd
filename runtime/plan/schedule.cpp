#include "runtime/plan/schedule.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "platform/base/stable_sort.h"
#include "runtime/core/liveness.h"
#include "runtime/core/op_def.h"
#include "runtime/plan/storage.h"

namespace graft {
namespace {

bool mutates_input(const Node& node, std::size_t i) { return i < 32 && (op_def(node.op).mutates >> i & 1) != 0; }

/// The live nodes as numbers 0..n-1 with what a list scheduler needs to know of them.
struct Problem {
  std::vector<std::uint32_t> nodes;                ///< indices into the graph's nodes
  std::vector<std::vector<std::uint32_t>> before;  ///< must have run before
  std::vector<std::vector<std::uint32_t>> after;   ///< must run after
  std::vector<std::vector<std::uint32_t>> reads;   ///< roots of transient inputs, each once
  std::vector<std::vector<std::uint32_t>> makes;   ///< roots that it brings into being
  std::vector<std::vector<std::uint32_t>> read_by; ///< per root: nodes that read it
  std::vector<std::uint32_t> readers;              ///< per root: live readers, plus one for a graph output
  std::vector<char> is_output;                     ///< per root
};

void add_edge(Problem& p, std::uint32_t from, std::uint32_t to) {
  if (from == to) return;
  p.after[from].push_back(to);
  p.before[to].push_back(from);
}

/// For each node of the graph its number among the live ones.
std::vector<std::uint32_t> numbers_of(const Problem& p, const Graph& graph) {
  std::vector<std::uint32_t> number(graph.nodes().size(), 0);
  for (std::uint32_t k = 0; k < p.nodes.size(); ++k) number[p.nodes[k]] = k;
  return number;
}

void add_data_edges(Problem& p, const Graph& graph, const std::vector<std::uint32_t>& roots) {
  const std::vector<std::uint32_t> number = numbers_of(p, graph);
  for (std::uint32_t k = 0; k < p.nodes.size(); ++k) {
    const Node& node = graph.nodes()[p.nodes[k]];
    for (const ValueId v : node.inputs) {
      if (!v.valid()) continue;
      const Value& value = graph.value(v);
      if (value.producer.valid()) add_edge(p, number[value.producer.index], k);
      const std::uint32_t root = roots[v.index];
      if (!transient(graph.values()[root])) continue;
      if (std::find(p.reads[k].begin(), p.reads[k].end(), root) != p.reads[k].end()) continue;
      p.reads[k].push_back(root);
      ++p.readers[root];
      p.read_by[root].push_back(k);
    }
    for (const ValueId v : node.outputs) {
      if (roots[v.index] == v.index) p.makes[k].push_back(v.index);
    }
  }
}

/// The live node whose update a value shows: a view of a mutated value, as the mutating node gives it, stands for the
/// contents after that mutation. kNoMutator for the contents before any.
constexpr std::uint32_t kNoMutator = 0xffffffffu;
std::uint32_t mutator_seen(const Graph& graph, const std::vector<std::uint32_t>& number, ValueId v) {
  for (NodeId producer = graph.value(v).producer; producer.valid();) {
    const OpDef& def = op_def(graph.node(producer).op);
    if (def.alias_input < 0) break;
    if ((def.mutates >> def.alias_input & 1) != 0) return number[producer.index];
    producer = graph.value(graph.node(producer).inputs[static_cast<std::size_t>(def.alias_input)]).producer;
  }
  return kNoMutator;
}

/// A hash of the state is of what a run leaves: it reads after all mutations.
bool reads_last(const Node& node) { return node.op == Op::state_hash; }

struct Reader {
  std::uint32_t node = 0;
  std::uint32_t after = kNoMutator;  ///< it reads what this mutator left
};

void add_mutation_edges(Problem& p, const Graph& graph, const std::vector<std::uint32_t>& roots) {
  std::vector<std::vector<Reader>> readers(graph.values().size());
  std::vector<std::vector<std::uint32_t>> mutators(graph.values().size());
  const std::vector<std::uint32_t> number = numbers_of(p, graph);
  for (std::uint32_t k = 0; k < p.nodes.size(); ++k) {
    const Node& node = graph.nodes()[p.nodes[k]];
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.inputs[i].valid()) continue;
      const std::uint32_t root = roots[node.inputs[i].index];
      if (mutates_input(node, i)) {
        mutators[root].push_back(k);
      } else {
        readers[root].push_back({k, mutator_seen(graph, number, node.inputs[i])});
      }
    }
  }
  for (std::size_t root = 0; root < mutators.size(); ++root) {
    const auto& chain = mutators[root];
    for (std::size_t m = 0; m + 1 < chain.size(); ++m) add_edge(p, chain[m], chain[m + 1]);
    for (const Reader& reader : readers[root]) {
      if (reads_last(graph.nodes()[p.nodes[reader.node]])) {
        if (!chain.empty()) add_edge(p, chain.back(), reader.node);
        continue;
      }
      // Before the next mutation of what it reads; the nodes that mutate are no readers of their own.
      const auto seen = std::find(chain.begin(), chain.end(), reader.after);
      const auto next = seen == chain.end() ? chain.begin() : seen + 1;
      if (next == chain.end() || std::find(chain.begin(), chain.end(), reader.node) != chain.end()) continue;
      add_edge(p, reader.node, *next);
    }
  }
}

Problem make_problem(const Graph& graph, const std::vector<std::uint32_t>& roots) {
  Problem p;
  p.nodes = live_nodes(graph);
  p.before.resize(p.nodes.size());
  p.after.resize(p.nodes.size());
  p.reads.resize(p.nodes.size());
  p.makes.resize(p.nodes.size());
  p.readers.resize(graph.values().size(), 0);
  p.read_by.resize(graph.values().size());
  p.is_output.resize(graph.values().size(), 0);
  for (const Output& output : graph.outputs()) p.is_output[roots[output.value.index]] = 1;
  add_data_edges(p, graph, roots);
  add_mutation_edges(p, graph, roots);
  return p;
}

/// Numbers of the live nodes as `preferred` lists them; those that it leaves out follow, by the graph's order.
std::vector<std::uint32_t> given_order(const Problem& p, const Graph& graph, const std::vector<NodeId>& preferred) {
  std::vector<std::size_t> place(graph.nodes().size(), preferred.size());
  for (std::size_t i = 0; i < preferred.size(); ++i) place[preferred[i].index] = i;
  std::vector<std::uint32_t> given(p.nodes.size());
  std::iota(given.begin(), given.end(), 0u);
  graft::stable_sort(given.begin(), given.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return place[p.nodes[a]] < place[p.nodes[b]]; });
  return given;
}

/// List scheduling, forwards or (from the end) backwards. Of the ready nodes, one that changes the live bytes by less
/// than or equal to `threshold` goes first (the best of them); otherwise the first by priority.
class ListScheduler {
 public:
  ListScheduler(const Problem& p, const std::vector<std::uint64_t>& bytes, bool backwards,
                const std::vector<std::uint32_t>& priority, std::optional<std::int64_t> threshold)
      : p_(p),
        bytes_(bytes),
        backwards_(backwards),
        threshold_(threshold),
        rank_(p.nodes.size()),
        deltas_(p.nodes.size()),
        is_ready_(p.nodes.size()),
        readers_left_(p.readers),
        blocked_(p.nodes.size()) {
    for (std::uint32_t i = 0; i < priority.size(); ++i) {
      rank_[priority[i]] = backwards ? static_cast<std::uint32_t>(priority.size()) - 1 - i : i;
    }
    by_rank_.resize(p.nodes.size());
    for (std::uint32_t k = 0; k < rank_.size(); ++k) by_rank_[rank_[k]] = k;
  }

  /// Fewer than all nodes when there is a cycle.
  std::vector<std::uint32_t> run() {
    const auto& waits_for = backwards_ ? p_.after : p_.before;
    const auto& wakes = backwards_ ? p_.before : p_.after;
    for (std::uint32_t k = 0; k < blocked_.size(); ++k) {
      blocked_[k] = static_cast<std::uint32_t>(waits_for[k].size());
      if (blocked_[k] == 0) add_ready(k);
    }
    std::vector<std::uint32_t> order;
    order.reserve(p_.nodes.size());
    while (!ready_.empty()) {
      const std::uint32_t k = by_rank_[pick()];
      remove_ready(k);
      for (const std::uint32_t root : p_.reads[k]) read(root);
      order.push_back(k);
      for (const std::uint32_t next : wakes[k]) {
        if (--blocked_[next] == 0) add_ready(next);
      }
    }
    if (backwards_) std::reverse(order.begin(), order.end());
    return order;
  }

 private:
  std::uint32_t pick() const {
    if (!threshold_ || by_delta_.begin()->first > *threshold_) return *ready_.begin();
    return by_delta_.begin()->second;
  }

  void add_ready(std::uint32_t k) {
    ready_.insert(rank_[k]);
    if (!threshold_) return;
    is_ready_[k] = 1;
    deltas_[k] = delta(k);
    by_delta_.emplace(deltas_[k], rank_[k]);
  }

  void remove_ready(std::uint32_t k) {
    ready_.erase(rank_[k]);
    if (!threshold_) return;
    is_ready_[k] = 0;
    by_delta_.erase({deltas_[k], rank_[k]});
  }

  /// One reader less: what that changes for the others is found at the first or the last one alone.
  void read(std::uint32_t root) {
    const std::uint32_t left = --readers_left_[root];
    const std::uint32_t decisive = backwards_ ? p_.readers[root] : 1;
    if (!threshold_ || (left != decisive && left + 1 != decisive)) return;
    for (const std::uint32_t k : p_.read_by[root]) {
      if (is_ready_[k] == 0) continue;
      remove_ready(k);
      add_ready(k);
    }
  }

  /// Change of live bytes by running node k now, in the direction of time that is scheduled.
  std::int64_t delta(std::uint32_t k) const {
    std::int64_t made = 0;
    std::int64_t read = 0;
    for (const std::uint32_t root : p_.makes[k]) {
      if (!backwards_ || p_.readers[root] != 0 || p_.is_output[root] != 0) {
        made += static_cast<std::int64_t>(bytes_[root]);
      }
    }
    for (const std::uint32_t root : p_.reads[k]) {
      if (p_.is_output[root] != 0) continue;
      // Forwards the last reader frees; backwards the first reader met brings to life.
      const std::uint32_t decisive = backwards_ ? p_.readers[root] : 1;
      if (readers_left_[root] == decisive) read += static_cast<std::int64_t>(bytes_[root]);
    }
    return backwards_ ? read - made : made - read;
  }

  const Problem& p_;
  const std::vector<std::uint64_t>& bytes_;
  bool backwards_;
  std::optional<std::int64_t> threshold_;
  std::vector<std::uint32_t> rank_;
  std::vector<std::uint32_t> by_rank_;
  std::vector<std::int64_t> deltas_;
  std::vector<char> is_ready_;
  std::vector<std::uint32_t> readers_left_;
  std::vector<std::uint32_t> blocked_;
  std::set<std::uint32_t> ready_;                             ///< ranks
  std::set<std::pair<std::int64_t, std::uint32_t>> by_delta_;  ///< of the same: delta() and rank
};

}  // namespace

Result<std::vector<std::vector<NodeId>>> candidate_orders(const Graph& graph, const std::vector<std::uint32_t>& roots,
                                                          const std::vector<std::uint64_t>& bytes, bool reorder,
                                                          const std::vector<NodeId>& preferred) {
  const Problem p = make_problem(graph, roots);
  const std::vector<std::uint32_t> given = given_order(p, graph, preferred);
  const std::vector<std::uint32_t> base = ListScheduler(p, bytes, false, given, std::nullopt).run();
  if (base.size() != p.nodes.size()) {
    std::vector<char> done(p.nodes.size(), 0);
    for (const std::uint32_t k : base) done[k] = 1;
    const auto stuck = static_cast<std::size_t>(std::find(done.begin(), done.end(), 0) - done.begin());
    return invalid("Node \"", graph.nodes()[p.nodes[stuck]].name, "\" cannot be ordered: a value is mutated by a node ",
                   "that must run both before and after a reader of that value.");
  }
  std::vector<std::vector<std::uint32_t>> orders = {base};
  if (reorder) {
    const auto lazy = ListScheduler(p, bytes, true, base, -1).run();
    for (const auto& start : {base, lazy}) {
      orders.push_back(ListScheduler(p, bytes, false, start, -1).run());
      orders.push_back(ListScheduler(p, bytes, false, start, 0).run());
    }
    orders.push_back(lazy);
  }
  std::vector<std::vector<NodeId>> result;
  for (const auto& order : orders) {
    auto& ids = result.emplace_back();
    ids.reserve(order.size());
    for (const std::uint32_t k : order) ids.push_back(NodeId{p.nodes[k]});
  }
  return result;
}

}  // namespace graft
