#include "runtime/plan/storage.h"

#include <algorithm>

#include "runtime/core/op_def.h"

namespace graft {
namespace {

class Finder {
 public:
  Finder(const Graph& graph, const std::vector<NodeId>& order, const std::vector<std::uint32_t>& roots,
         const std::vector<std::uint64_t>& bytes)
      : graph_(graph), order_(order), roots_(roots), bytes_(bytes), used_(graph.values().size(), 0) {
    const std::size_t n = graph.values().size();
    s_.of_value.assign(n, kNoStorage);
    s_.first.assign(n, 0);
    s_.last.assign(n, 0);
  }

  Storages run(bool in_place) {
    find_times();
    for (const ValueId v : graph_.inputs()) {
      if (used_[v.index] != 0) open(v.index);
    }
    for (std::uint32_t p = 0; p < order_.size(); ++p) {
      const Node& node = graph_.node(order_[p]);
      taken_.clear();
      for (std::size_t o = 0; o < node.outputs.size(); ++o) {
        const std::uint32_t v = node.outputs[o].index;
        if (roots_[v] != v) continue;
        const std::uint32_t over = in_place ? overwritable(node, o, p + 1) : kNoStorage;
        if (over == kNoStorage) {
          open(v);
        } else {
          s_.of_value[v] = over;
          s_.blocks[over].last = s_.last[v];
          taken_.push_back(over);
        }
      }
    }
    for (std::size_t v = 0; v < roots_.size(); ++v) s_.of_value[v] = s_.of_value[roots_[v]];
    return std::move(s_);
  }

 private:
  void use(ValueId v, std::uint32_t time) {
    for (const std::uint32_t i : {v.index, roots_[v.index]}) {
      s_.last[i] = std::max(s_.last[i], time);
      used_[i] = 1;
    }
  }

  void find_times() {
    for (std::uint32_t p = 0; p < order_.size(); ++p) {
      const Node& node = graph_.node(order_[p]);
      for (const ValueId v : node.inputs) {
        if (v.valid()) use(v, p + 1);
      }
      for (const ValueId v : node.outputs) {
        s_.first[v.index] = p + 1;
        use(v, p + 1);
      }
    }
    const auto end = static_cast<std::uint32_t>(order_.size()) + 1;
    for (const Output& output : graph_.outputs()) use(output.value, end);
  }

  void open(std::uint32_t v) {
    s_.of_value[v] = static_cast<std::uint32_t>(s_.blocks.size());
    s_.blocks.push_back({bytes_[v], s_.first[v], s_.last[v]});
  }

  /// The storage that this output of `node` may be written over, or kNoStorage.
  std::uint32_t overwritable(const Node& node, std::size_t output, std::uint32_t time) const {
    const std::uint32_t allowed = inplace_inputs(graph_, node, output);
    const Value& out = graph_.value(node.outputs[output]);
    for (std::size_t i = 0; i < node.inputs.size() && i < 32; ++i) {
      if ((allowed >> i & 1) == 0 || !node.inputs[i].valid()) continue;
      const std::uint32_t root = roots_[node.inputs[i].index];
      const std::uint32_t storage = s_.of_value[root];
      if (storage == kNoStorage || !transient(graph_.values()[root])) continue;
      if (std::find(taken_.begin(), taken_.end(), storage) != taken_.end()) continue;
      if (s_.blocks[storage].last != time || s_.blocks[storage].bytes != bytes_[node.outputs[output].index]) continue;
      if (graph_.values()[root].storage != out.storage) continue;
      if (others_agree(node, storage, out.shape.elements(), allowed)) return storage;
    }
    return kNoStorage;
  }

  /// Every operand in this storage must be read at the very element that is written: whole, and by a hint.
  bool others_agree(const Node& node, std::uint32_t storage, std::uint64_t elements, std::uint32_t allowed) const {
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.inputs[i].valid() || s_.of_value[roots_[node.inputs[i].index]] != storage) continue;
      const bool hinted = i < 32 && (allowed >> i & 1) != 0;
      if (!hinted || graph_.value(node.inputs[i]).shape.elements() != elements) return false;
    }
    return true;
  }

  const Graph& graph_;
  const std::vector<NodeId>& order_;
  const std::vector<std::uint32_t>& roots_;
  const std::vector<std::uint64_t>& bytes_;
  std::vector<char> used_;
  std::vector<std::uint32_t> taken_;  ///< by outputs of the node at hand
  Storages s_;
};

}  // namespace

Storages find_storages(const Graph& graph, const std::vector<NodeId>& order, const std::vector<std::uint32_t>& roots,
                       const std::vector<std::uint64_t>& bytes, bool in_place) {
  return Finder(graph, order, roots, bytes).run(in_place);
}

std::vector<std::uint64_t> live_bytes(const std::vector<Block>& blocks, std::uint32_t times) {
  std::vector<std::uint64_t> delta(std::size_t{times} + 1, 0);
  for (const Block& block : blocks) {
    delta[block.first] += block.bytes;  // unsigned wrap-around cancels out in the running sum
    delta[std::size_t{block.last} + 1] -= block.bytes;
  }
  std::uint64_t live = 0;
  for (std::uint32_t t = 0; t < times; ++t) {
    live += delta[t];
    delta[t] = live;
  }
  delta.pop_back();
  return delta;
}

}  // namespace graft
