#include "tools/graft/plan_report.h"

#include <algorithm>
#include <cstdio>

#include "tools/graft/options.h"

namespace graft::cli {
namespace {

constexpr std::size_t kShownNodes = 12;

std::string name_of(MemoryClass c) { return std::string(memory_class_name(c)); }

void print_saved(const Plan& plan) {
  if (plan.saved.empty()) return;
  std::uint64_t bytes = 0;
  for (const SavedValue& saved : plan.saved) bytes += saved.bytes;
  std::printf("\nSaved for backward: %zu values, %s\n", plan.saved.size(), bytes_text(bytes).c_str());
  for (const SavedValue& saved : plan.saved) {
    std::printf("  %-32s %14s  read by %s%s\n", saved.name.c_str(), bytes_text(saved.bytes).c_str(),
                saved.readers.empty() ? "?" : saved.readers.front().c_str(),
                saved.readers.size() > 1 ? cat(" and ", saved.readers.size() - 1, " more").c_str() : "");
  }
}

void print_costliest(const Plan& plan) {
  std::vector<const PlanNode*> nodes;
  for (const PlanNode& node : plan.nodes) nodes.push_back(&node);
  std::stable_sort(nodes.begin(), nodes.end(), [](const auto* a, const auto* b) { return a->flops > b->flops; });
  if (nodes.size() > kShownNodes) nodes.resize(kShownNodes);
  std::printf("\n%-44s %-20s %10s %14s %14s\n", "costliest nodes", "op", "FLOPs", "moved", "live then");
  for (const PlanNode* node : nodes) {
    std::printf("%-44s %-20s %10s %14s %14s\n", node->name.c_str(), node->op.c_str(),
                si_text(static_cast<double>(node->flops)).c_str(), bytes_text(node->bytes).c_str(),
                bytes_text(node->live_bytes).c_str());
  }
}

}  // namespace

void print_plan(const Plan& plan, const std::string& title) {
  std::printf("%s\n\n", title.c_str());
  for (std::size_t i = 0; i < kMemoryClasses; ++i) {
    const auto c = static_cast<MemoryClass>(i);
    std::printf("  %-12s %14s  %s\n", name_of(c).c_str(), bytes_text(plan.memory[c]).c_str(),
                grouped(plan.memory[c]).c_str());
  }
  std::printf("  %-12s %14s  %s\n", "total", bytes_text(plan.memory.total()).c_str(),
              grouped(plan.memory.total()).c_str());
  std::printf("\nArena %s; the largest sum of live bytes is %s", bytes_text(plan.transient_bytes).c_str(),
              bytes_text(plan.lower_bound).c_str());
  if (plan.peak_node != kNoIndex) {
    const PlanNode& peak = plan.nodes[plan.peak_node];
    std::printf(", at node %u of %zu: %s (%s)", plan.peak_node + 1, plan.nodes.size(), peak.name.c_str(),
                peak.op.c_str());
  }
  std::size_t dispatches = 0;
  std::uint64_t moved = 0;
  for (const Step& step : plan.steps) dispatches += step.kind == StepKind::dispatch;
  for (const PlanNode& node : plan.nodes) moved += node.bytes;
  std::printf(".\n%sFLOP, %s moved, %zu dispatches of %zu kernels, %u barriers.\n",
              (si_text(static_cast<double>(plan.flops)) + " ").c_str(), bytes_text(moved).c_str(), dispatches,
              plan.kernels.size(), plan.barriers);
  print_saved(plan);
  print_costliest(plan);
}

nlohmann::ordered_json plan_json(const Plan& plan) {
  using Json = nlohmann::ordered_json;
  Json classes = Json::object();
  for (std::size_t i = 0; i < kMemoryClasses; ++i) {
    const auto c = static_cast<MemoryClass>(i);
    classes[name_of(c)] = plan.memory[c];
  }
  Json nodes = Json::array();
  for (const PlanNode& node : plan.nodes) {
    nodes.push_back({{"name", node.name},
                     {"op", node.op},
                     {"backward", node.backward},
                     {"flops", node.flops},
                     {"bytes", node.bytes},
                     {"scratch_bytes", node.scratch_bytes},
                     {"live_bytes", node.live_bytes},
                     {"dispatches", node.steps}});
  }
  Json values = Json::array();
  for (const PlanValue& value : plan.values) {
    values.push_back({{"name", value.name},
                      {"class", name_of(value.memory_class)},
                      {"space", std::string(space_name(value.space))},
                      {"offset", value.offset},
                      {"bytes", value.bytes},
                      {"first", value.first},
                      {"last", value.last}});
  }
  Json saved = Json::array();
  for (const SavedValue& value : plan.saved) {
    saved.push_back(
        {{"name", value.name}, {"bytes", value.bytes}, {"producer", value.producer}, {"readers", value.readers}});
  }
  Json out = {{"memory", classes},
              {"total", plan.memory.total()},
              {"arena", plan.transient_bytes},
              {"lower_bound", plan.lower_bound},
              {"flops", plan.flops},
              {"barriers", plan.barriers},
              {"kernels", plan.kernels.size()}};
  if (plan.peak_node != kNoIndex) out["peak_node"] = plan.nodes[plan.peak_node].name;
  out["saved"] = std::move(saved);
  out["nodes"] = std::move(nodes);
  out["values"] = std::move(values);
  return out;
}

}  // namespace graft::cli
