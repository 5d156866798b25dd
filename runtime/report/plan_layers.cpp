#include "runtime/report/plan_layers.h"

#include <map>

namespace graft {

PlanWork work_of(const Plan& plan) {
  PlanWork work;
  for (const Step& step : plan.steps) {
    if (step.kind != StepKind::dispatch) continue;
    ++work.dispatches;
    work.moved += step.bytes;
  }
  return work;
}

std::vector<LayerCost> layer_costs(const Plan& plan) {
  std::vector<LayerCost> rows;
  std::map<std::uint32_t, std::size_t> row_of;       // by the graph's node
  std::map<std::string, std::uint64_t> saved_bytes;  // by producer
  for (const SavedValue& saved : plan.saved) saved_bytes[saved.producer] += saved.bytes;
  for (const PlanNode& node : plan.nodes) {
    if (node.forward_of != kNoIndex || (node.steps == 0 && !saved_bytes.contains(node.name))) continue;
    row_of[node.node] = rows.size();
    const auto saved = saved_bytes.find(node.name);
    rows.push_back({node.name, node.op, saved == saved_bytes.end() ? 0 : saved->second, node.flops, 0, node.bytes});
  }
  for (const PlanNode& node : plan.nodes) {
    const auto at = row_of.find(node.forward_of);
    if (node.forward_of == kNoIndex || at == row_of.end()) continue;
    LayerCost& row = rows[at->second];
    row.backward_flops += node.flops;
    row.moved_bytes += node.bytes;
    row.recomputed = row.recomputed || node.recomputed;
  }
  return rows;
}

}  // namespace graft
