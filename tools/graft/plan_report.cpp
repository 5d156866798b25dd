#include "tools/graft/plan_report.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "runtime/exec/program.h"
#include "tools/common/options.h"
#include "tools/graft/layer_table.h"

namespace graft::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kNodesInTable = 12;

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

void print_recomputed(const Plan& plan) {
  if (plan.recomputed.empty()) return;
  std::uint64_t bytes = 0;
  for (const RecomputedValue& value : plan.recomputed) bytes += value.bytes;
  std::printf("\nComputed again in the backward pass: %zu values, %s, %sFLOP more\n", plan.recomputed.size(),
              bytes_text(bytes).c_str(), (si_text(static_cast<double>(plan.recomputed_flops)) + " ").c_str());
  for (const RecomputedValue& value : plan.recomputed) {
    std::printf("  %-32s %14s  %sFLOP by %s\n", value.name.c_str(), bytes_text(value.bytes).c_str(),
                (si_text(static_cast<double>(value.flops)) + " ").c_str(), value.producer.c_str());
  }
}

double percent_of(std::uint64_t part, std::uint64_t whole) {
  return 100.0 * static_cast<double>(part) / static_cast<double>(std::max<std::uint64_t>(whole, 1));
}

std::size_t dispatches_of(const Plan& plan) {
  return static_cast<std::size_t>(
      std::count_if(plan.steps.begin(), plan.steps.end(), [](const Step& s) { return s.kind == StepKind::dispatch; }));
}

/// Dispatches that stand for those of many tensors, and nodes that stand for several.
void print_merged(const Plan& plan) {
  for (const Step& step : plan.steps) {
    if (step.merged < 2) continue;
    std::printf("One dispatch of %s for %u tensors or parts of them.\n", plan.nodes[step.node].op.c_str(), step.merged);
  }
  std::uint32_t fused = 0;
  std::uint32_t parts = 0;
  for (const PlanNode& node : plan.nodes) {
    if (node.parts < 2) continue;
    ++fused;
    parts += node.parts;
  }
  if (fused != 0) {
    std::printf("%u fused nodes do the work of %u: elementwise ops, products and norms with what stands beside them.\n",
                fused, parts);
  }
}

void print_costliest(const Plan& plan) {
  std::vector<const PlanNode*> nodes;
  for (const PlanNode& node : plan.nodes) nodes.push_back(&node);
  std::stable_sort(nodes.begin(), nodes.end(), [](const auto* a, const auto* b) { return a->flops > b->flops; });
  if (nodes.size() > kNodesInTable) nodes.resize(kNodesInTable);
  std::printf("\n%-44s %-20s %10s %14s %14s\n", "costliest nodes", "op", "FLOPs", "moved", "live then");
  for (const PlanNode* node : nodes) {
    std::printf("%-44s %-20s %10s %14s %14s\n", node->name.c_str(), node->op.c_str(),
                si_text(static_cast<double>(node->flops)).c_str(), bytes_text(node->bytes).c_str(),
                bytes_text(node->live_bytes).c_str());
  }
}

// Nodes that made the same choice for the same reason stand on one line.
void print_choices(const Plan& plan) {
  std::map<std::pair<std::string, std::string>, std::uint32_t> counts;
  for (const PlanNode& node : plan.nodes) {
    for (const PlanChoice& choice : node.choices) {
      ++counts[{cat(choice.key.substr(0, choice.key.find(' ')), ": ", choice.variant), choice.why}];
    }
  }
  if (counts.empty()) return;
  std::printf("\n%-34s %6s  %s\n", "kernel variants", "nodes", "why");
  for (const auto& [choice, count] : counts) {
    std::printf("%-34s %6u  %s\n", choice.first.c_str(), count, choice.second.c_str());
  }
}

}  // namespace

void print_plan(const Plan& plan, const gpu::Quirks& quirks, const std::string& title) {
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
  std::uint64_t moved = 0;
  for (const Step& step : plan.steps) moved += step.kind == StepKind::dispatch ? step.bytes : 0;
  std::printf(".\n%sFLOP, %s moved, %zu dispatches of %zu kernels, %u barriers; %zu submissions at most.\n",
              (si_text(static_cast<double>(plan.flops)) + " ").c_str(), bytes_text(moved).c_str(), dispatches_of(plan),
              plan.kernels.size(), plan.barriers, list_ends(plan, quirks).size());
  print_merged(plan);
  print_saved(plan);
  print_recomputed(plan);
  print_costliest(plan);
  print_choices(plan);
}

nlohmann::ordered_json memory_json(const MemoryByClass& memory) {
  nlohmann::ordered_json classes = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < kMemoryClasses; ++i) {
    const auto c = static_cast<MemoryClass>(i);
    classes[name_of(c)] = memory[c];
  }
  return classes;
}

void print_precision(const passes::PrecisionReport& report) {
  if (report.rows.empty()) return;
  std::printf("Kept as %s, or in f32 where a reason is given; kernels compute in f32 all the same:\n",
              std::string(dtype_name(report.storage)).c_str());
  for (const passes::PrecisionRow& row : report.rows) {
    std::printf("  %-24s %-8s %-5s %6llu values %14s  %s\n", row.op.c_str(), row.backward ? "backward" : "",
                std::string(dtype_name(row.storage)).c_str(), static_cast<unsigned long long>(row.values),
                bytes_text(row.bytes).c_str(), row.reason.c_str());
  }
  std::printf("  optimizer state and inputs: f32\n\n");
}

nlohmann::ordered_json precision_json(const passes::PrecisionReport& report) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const passes::PrecisionRow& row : report.rows) {
    rows.push_back({{"op", row.op},
                    {"backward", row.backward},
                    {"storage", dtype_name(row.storage)},
                    {"values", row.values},
                    {"bytes", row.bytes},
                    {"reason", row.reason}});
  }
  return {{"storage", dtype_name(report.storage)}, {"ops", rows}};
}

void print_curve(const train::TrainingCurve& curve) {
  std::printf("Memory against work, as results are computed again in the backward pass:\n");
  std::printf("  %14s %8s %14s %14s %10s\n", "at least", "share", "more FLOPs", "more moved", "results");
  const std::uint64_t whole = curve.fixed_bytes + curve.points.front().peak;
  for (const RecomputePoint& p : curve.points) {
    const std::uint64_t bytes = curve.fixed_bytes + p.peak;
    std::printf("  %14s %7.1f%% %13.2f%% %14s %10u\n", bytes_text(bytes).c_str(), percent_of(bytes, whole),
                percent_of(p.extra_flops, curve.flops), bytes_text(p.extra_bytes).c_str(), p.recomputed);
  }
}

nlohmann::ordered_json curve_json(const train::TrainingCurve& curve) {
  nlohmann::ordered_json points = nlohmann::ordered_json::array();
  for (const RecomputePoint& p : curve.points) {
    points.push_back({{"bytes", curve.fixed_bytes + p.peak},
                      {"arena", p.peak},
                      {"extra_flops", p.extra_flops},
                      {"extra_bytes_moved", p.extra_bytes},
                      {"recomputed", p.recomputed}});
  }
  return {{"flops", curve.flops}, {"fixed_bytes", curve.fixed_bytes}, {"points", points}};
}

nlohmann::ordered_json plan_json(const Plan& plan, const gpu::Quirks& quirks) {
  Json nodes = Json::array();
  for (const PlanNode& node : plan.nodes) {
    Json choices = Json::array();
    for (const PlanChoice& choice : node.choices) {
      choices.push_back({{"key", choice.key}, {"variant", choice.variant}, {"why", choice.why}});
    }
    nodes.push_back({{"name", node.name},
                     {"op", node.op},
                     {"backward", node.backward},
                     {"recomputed", node.recomputed},
                     {"flops", node.flops},
                     {"bytes", node.bytes},
                     {"scratch_bytes", node.scratch_bytes},
                     {"whole_scratch_bytes", node.whole_scratch_bytes},
                     {"live_bytes", node.live_bytes},
                     {"dispatches", node.steps},
                     {"choices", std::move(choices)}});
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
  Json out = {{"memory", memory_json(plan.memory)},
              {"total", plan.memory.total()},
              {"arena", plan.transient_bytes},
              {"lower_bound", plan.lower_bound},
              {"flops", plan.flops},
              {"recomputed_flops", plan.recomputed_flops},
              {"dispatches", dispatches_of(plan)},
              {"barriers", plan.barriers},
              {"submissions_at_most", list_ends(plan, quirks).size()},
              {"kernels", plan.kernels.size()}};
  if (plan.peak_node != kNoIndex) out["peak_node"] = plan.nodes[plan.peak_node].name;
  Json recomputed = Json::array();
  for (const RecomputedValue& value : plan.recomputed) {
    recomputed.push_back(
        {{"name", value.name}, {"bytes", value.bytes}, {"producer", value.producer}, {"flops", value.flops}});
  }
  Json layers = Json::array();
  for (const LayerRow& row : layer_rows(plan)) {
    layers.push_back({{"name", row.name},
                      {"op", row.op},
                      {"saved_bytes", row.saved_bytes},
                      {"forward_flops", row.forward_flops},
                      {"backward_flops", row.backward_flops},
                      {"bytes_moved", row.moved_bytes},
                      {"recomputed", row.recomputed}});
  }
  out["saved"] = std::move(saved);
  out["recomputed"] = std::move(recomputed);
  out["layers"] = std::move(layers);
  out["nodes"] = std::move(nodes);
  out["values"] = std::move(values);
  return out;
}

}  // namespace graft::cli
