#include <algorithm>

#include "platform/base/stable_sort.h"
#include "runtime/core/op_def.h"
#include "runtime/plan/draft.h"

namespace graft {
namespace {

/// Per value (roots only): it is a result of the backward pass for the caller or for a node that mutates.
std::vector<char> find_gradients(const Draft& d) {
  std::vector<char> backward(d.graph.values().size(), 0);
  std::vector<char> gradient(d.graph.values().size(), 0);
  for (const NodeId id : d.order) {
    const Node& node = d.graph.node(id);
    if (!node.forward_of.valid()) continue;
    for (const ValueId v : node.outputs) backward[d.roots[v.index]] = 1;
  }
  for (const NodeId id : d.order) {
    const Node& node = d.graph.node(id);
    const std::uint32_t mutates = op_def(node.op).mutates;
    if (mutates == 0) continue;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i].valid() && (i >= 32 || (mutates >> i & 1) == 0)) gradient[d.roots[node.inputs[i].index]] = 1;
    }
  }
  for (const Output& output : d.graph.outputs()) gradient[d.roots[output.value.index]] = 1;
  for (std::size_t v = 0; v < gradient.size(); ++v) gradient[v] = gradient[v] & backward[v];
  return gradient;
}

/// Per block; a block that ever holds a gradient counts as one.
std::vector<MemoryClass> classify_blocks(const Draft& d, const std::vector<char>& gradient) {
  std::vector<MemoryClass> classes(d.storages.blocks.size(), MemoryClass::workspace);
  for (const bool pass : {false, true}) {
    for (std::size_t v = 0; v < gradient.size(); ++v) {
      const std::uint32_t storage = d.storages.of_value[v];
      if (storage == kNoStorage || (gradient[d.roots[v]] != 0) != pass) continue;
      classes[storage] = pass ? MemoryClass::gradients : MemoryClass::activations;
    }
  }
  return classes;
}

void add_values(const Draft& d, const std::vector<MemoryClass>& classes, Plan& plan) {
  const auto end = static_cast<std::uint32_t>(d.order.size());
  std::vector<char> used(d.graph.values().size(), 0);
  for (const NodeId id : d.order) {
    for (const ValueId v : d.graph.node(id).inputs) {
      if (v.valid()) used[v.index] = 1;
    }
    for (const ValueId v : d.graph.node(id).outputs) used[v.index] = 1;
  }
  for (const Output& output : d.graph.outputs()) used[output.value.index] = 1;
  for (std::uint32_t v = 0; v < used.size(); ++v) {
    if (used[v] == 0) continue;
    const std::uint32_t root = d.roots[v];
    PlanValue info{v, d.graph.values()[v].name};
    info.root = root;
    info.empty = d.graph.values()[v].shape.elements() == 0;
    info.bytes = d.bytes[v];
    const std::uint32_t storage = d.storages.of_value[root];
    if (storage != kNoStorage) {
      info.space = Space::transient;
      info.memory_class = classes[storage];
      info.offset = d.arena.offsets[storage];
      info.storage = storage;
      info.first = std::max(d.storages.first[v], 1u) - 1;
      info.last = std::min(std::max(d.storages.last[v], 1u) - 1, end);
    } else {
      const Resident& resident = *d.residents.find(d.graph.values()[root].name);
      info.space = resident.streamed ? Space::stream : Space::resident;
      info.memory_class = resident.memory_class;
      info.offset = resident.offset;
      info.last = end;
    }
    plan.values.push_back(std::move(info));
  }
}

void add_saved(const Draft& d, Plan& plan) {
  std::vector<std::uint32_t> index(d.graph.values().size(), kNoIndex);
  for (const NodeId id : d.order) {
    const Node& reader = d.graph.node(id);
    if (!reader.forward_of.valid()) continue;
    for (const ValueId v : reader.inputs) {
      if (!v.valid()) continue;
      const std::uint32_t root = d.roots[v.index];
      const Value& value = d.graph.values()[root];
      if (!value.producer.valid() || d.graph.node(value.producer).forward_of.valid()) continue;
      if (index[root] == kNoIndex) {
        index[root] = static_cast<std::uint32_t>(plan.saved.size());
        plan.saved.push_back({root, value.name, d.bytes[root], d.graph.node(value.producer).name, {}});
      }
      auto& readers = plan.saved[index[root]].readers;
      if (readers.empty() || readers.back() != reader.name) readers.push_back(reader.name);
    }
  }
  graft::stable_sort(plan.saved, [](const SavedValue& a, const SavedValue& b) { return a.value < b.value; });
}

void add_memory(const Draft& d, const std::vector<MemoryClass>& classes, Plan& plan) {
  plan.residents_memory = d.residents.memory();
  plan.memory = plan.residents_memory;
  const auto peak_time = static_cast<std::uint32_t>(std::max_element(d.live.begin(), d.live.end()) - d.live.begin());
  if (!d.order.empty() && plan.transient_bytes != 0) {
    plan.peak_node = std::min(std::max(peak_time, 1u) - 1, static_cast<std::uint32_t>(d.order.size()) - 1);
  }
  std::uint64_t rest = plan.transient_bytes;
  for (std::size_t b = 0; b < classes.size(); ++b) {
    const Block& block = d.storages.blocks[b];
    if (block.first > peak_time || block.last < peak_time || classes[b] == MemoryClass::activations) continue;
    plan.memory[classes[b]] += block.bytes;
    rest -= block.bytes;
  }
  plan.memory[MemoryClass::activations] += rest;
  plan.memory[MemoryClass::weights] += plan.stream_bytes;
  plan.memory[MemoryClass::staging] += plan.upload_bytes + plan.readback_bytes + plan.stream_staging_bytes;
  plan.memory[MemoryClass::step_state] += plan.step_state_bytes();
}

}  // namespace

void add_report(const Draft& draft, Plan& plan) {
  const std::vector<MemoryClass> classes = classify_blocks(draft, find_gradients(draft));
  add_values(draft, classes, plan);
  add_saved(draft, plan);
  add_memory(draft, classes, plan);
}

}  // namespace graft
