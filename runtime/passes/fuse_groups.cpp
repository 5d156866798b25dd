#include "runtime/passes/fuse_groups.h"

#include <algorithm>
#include <set>
#include <utility>

#include "platform/base/stable_sort.h"
#include "runtime/core/liveness.h"
#include "runtime/core/op_def.h"
#include "runtime/ops/emitter.h"

namespace graft::passes {
namespace {

bool mutates_input(const Node& node, std::size_t input) {
  return input < 32 && (op_def(node.op).mutates >> input & 1u) != 0;
}

}  // namespace

Groups::Groups(const Graph& graph)
    : graph_(graph),
      live_(graph.nodes().size()),
      late_(graph.nodes().size()),
      roots_(alias_roots(graph)),
      changed_(graph.values().size()),
      output_(graph.values().size()),
      root_readers_(graph.values().size()),
      mutators_(graph.values().size()),
      groups_(graph.nodes().size()),
      group_of_(graph.nodes().size()) {
  for (const std::uint32_t n : live_nodes(graph)) live_[n] = true;
  for (const Output& output : graph.outputs()) output_[roots_[output.value.index]] = true;
  for (std::uint32_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    group_of_[n] = n;
    late_[n] = node.forward_of.valid() || std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) {
                 return v.valid() && graph.value(v).producer.valid() && late_[graph.value(v).producer.index];
               });
    if (!live_[n]) continue;
    groups_[n].nodes = {n};
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId v = node.inputs[i];
      if (!v.valid()) continue;
      if (mutates_input(node, i)) mutators_[roots_[v.index]].push_back(n);
      if (!is_view(node)) root_readers_[roots_[v.index]].push_back(n);
    }
    const int alias = op_def(node.op).alias_input;
    if (alias < 0) continue;
    const auto from = static_cast<std::size_t>(alias);
    changed_[node.outputs[0].index] = mutates_input(node, from) || changed_[node.inputs[from].index];
  }
}

/// A view and nothing else.
bool Groups::is_view(const Node& node) const {
  return op_def(node.op).alias_input >= 0 && op_def(node.op).mutates == 0;
}

bool Groups::reads_changed(const Node& node) const {
  return std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return v.valid() && changed_[v.index]; });
}

std::optional<std::uint32_t> Groups::maker(ValueId v) const {
  const NodeId producer = graph_.values()[roots_[v.index]].producer;
  if (!producer.valid()) return std::nullopt;
  return group_of_[producer.index];
}

bool Groups::wanted(ValueId result, std::uint32_t s) const {
  const std::uint32_t root = roots_[result.index];
  return output_[root] || std::any_of(root_readers_[root].begin(), root_readers_[root].end(),
                                      [&](std::uint32_t n) { return group_of_[n] != s; });
}

/// Groups that must run after this one: those that read what it gives, and those that change what it reads. Views are
/// part of what they view.
std::vector<std::uint32_t> Groups::after(std::uint32_t group) const {
  std::vector<std::uint32_t> found;
  const auto add = [&](std::uint32_t node) {
    if (group_of_[node] != group) found.push_back(group_of_[node]);
  };
  for (const std::uint32_t n : groups_[group].nodes) {
    const Node& node = graph_.nodes()[n];
    for (const ValueId v : node.outputs) {
      const auto& reading = root_readers_[roots_[v.index]];
      std::for_each(reading.begin(), reading.end(), add);
    }
    for (const ValueId v : node.inputs) {
      if (!v.valid() || changed_[v.index]) continue;
      const auto& changing = mutators_[roots_[v.index]];
      std::for_each(changing.begin(), changing.end(), add);
    }
  }
  return found;
}

bool Groups::apart(std::uint32_t p, std::uint32_t s) const {
  std::vector<bool> seen(groups_.size());
  std::vector<std::uint32_t> open = {p};
  while (!open.empty()) {
    const std::uint32_t g = open.back();
    open.pop_back();
    for (const std::uint32_t next : after(g)) {
      if (next == s && g != p) return true;
      // What begins behind s does not lead there.
      if (next == s || next == p || seen[next] || groups_[next].nodes[0] > last(s)) continue;
      seen[next] = true;
      open.push_back(next);
    }
  }
  return false;
}

std::vector<std::uint32_t> Groups::roots_read(std::uint32_t group) const {
  std::set<std::uint32_t> roots;
  for (const std::uint32_t n : groups_[group].nodes) {
    for (const ValueId v : graph_.nodes()[n].inputs) {
      if (v.valid() && maker(v) != group) roots.insert(roots_[v.index]);
    }
  }
  return {roots.begin(), roots.end()};
}

bool Groups::dies(std::uint32_t root, std::uint32_t p, std::uint32_t s) const {
  const Value& value = graph_.values()[root];
  const bool transient = value.kind == ValueKind::temporary || value.kind == ValueKind::input;
  return transient && !output_[root] &&
         std::all_of(root_readers_[root].begin(), root_readers_[root].end(),
                     [&](std::uint32_t n) { return group_of_[n] == p || group_of_[n] == s; });
}

bool Groups::fits_memory(std::uint32_t p, std::uint32_t s, const std::vector<ValueId>& gone, bool stays) const {
  const std::vector<std::uint32_t> of_s = roots_read(s);
  const bool behind = std::all_of(of_s.begin(), of_s.end(), [&](std::uint32_t root) {
    const auto m = maker({root});
    return !m || last(*m) <= last(p);
  });
  const std::vector<std::uint32_t> of_p = roots_read(p);
  if (behind) {
    const auto last_use = [&](std::uint32_t root) { return dies(root, p, s); };
    if (!stays || !groups_[p].main.valid() || std::none_of(of_p.begin(), of_p.end(), last_use)) return true;
    // The result of s would stand beside what p reads, unless it may stand in the place of an operand.
    const std::uint64_t bytes = device_bytes(graph_.value(groups_[s].program->results[0]));
    return std::any_of(of_s.begin(), of_s.end(), [&](std::uint32_t root) {
      return maker({root}) != p && last_use(root) && device_bytes(graph_.values()[root]) >= bytes;
    });
  }
  std::uint64_t longer = 0;
  for (const std::uint32_t root : of_p) {
    const Value& value = graph_.values()[root];
    if (value.kind != ValueKind::temporary && value.kind != ValueKind::input) continue;
    const bool anyway =
        output_[root] || std::any_of(root_readers_[root].begin(), root_readers_[root].end(),
                                     [&](std::uint32_t n) { return group_of_[n] != p && n >= last(s); });
    if (!anyway && !std::binary_search(of_s.begin(), of_s.end(), root)) longer += device_bytes(value);
  }
  std::uint64_t less = 0;
  for (const ValueId v : gone) less += device_bytes(graph_.value(v));
  return longer <= less;
}

void Groups::merge(std::uint32_t p, std::uint32_t s) {
  Group& from = groups_[p];
  Group& to = groups_[s];
  for (const std::uint32_t n : from.nodes) group_of_[n] = s;
  to.nodes.insert(to.nodes.end(), from.nodes.begin(), from.nodes.end());
  graft::stable_sort(to.nodes);
  from = {};
}

std::vector<ValueId> Groups::inputs(std::uint32_t group) const {
  const Group& g = groups_[group];
  std::vector<ValueId> values;
  if (g.main.valid()) values = graph_.node(g.main).inputs;
  if (g.nodes.size() == 1 && !g.main.valid()) return graph_.nodes()[g.nodes[0]].inputs;
  if (g.bias.valid()) {
    values.resize(3, kNoValue);
    values[2] = g.bias;
  }
  if (g.addend.valid()) {
    // What was given to the sum takes the place of the sum.
    values[0] = g.program->operands[0];
    values.push_back(g.addend);
    return values;
  }
  if (g.program) values.insert(values.end(), g.program->operands.begin(), g.program->operands.end());
  return values;
}

std::vector<bool> Groups::needed() const {
  std::vector<bool> wanted_value(graph_.values().size());
  for (const Output& output : graph_.outputs()) wanted_value[output.value.index] = true;
  std::vector<std::uint32_t> views;
  for (std::uint32_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g].nodes.empty()) continue;
    if (is_view(graph_.nodes()[groups_[g].nodes[0]])) {
      views.push_back(g);
      continue;
    }
    for (const ValueId v : inputs(g)) {
      if (v.valid()) wanted_value[v.index] = true;
    }
  }
  std::vector<bool> needed(groups_.size(), true);
  for (auto it = views.rbegin(); it != views.rend(); ++it) {  // a view of a view stands behind it
    const Node& view = graph_.nodes()[*it];
    needed[*it] = wanted_value[view.outputs[0].index];
    if (needed[*it]) wanted_value[view.inputs[0].index] = true;
  }
  return needed;
}

std::vector<std::uint32_t> Groups::order() const {
  const std::vector<bool> keep = needed();
  std::vector<std::vector<std::uint32_t>> next(groups_.size());
  std::vector<std::uint32_t> waits(groups_.size(), 0);
  std::set<std::pair<std::uint32_t, std::uint32_t>> ready;  // by the last of their nodes
  for (std::uint32_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g].nodes.empty() || !keep[g]) continue;
    for (const ValueId v : inputs(g)) {
      if (!v.valid() || !graph_.value(v).producer.valid()) continue;
      const std::uint32_t before = group_of_[graph_.value(v).producer.index];
      if (before == g) continue;
      next[before].push_back(g);
      ++waits[g];
    }
    if (waits[g] == 0) ready.insert({last(g), g});
  }
  std::vector<std::uint32_t> order;
  while (!ready.empty()) {
    const std::uint32_t g = ready.begin()->second;
    ready.erase(ready.begin());
    order.push_back(g);
    for (const std::uint32_t n : next[g]) {
      if (--waits[n] == 0) ready.insert({last(n), n});
    }
  }
  return order;
}

}  // namespace graft::passes
