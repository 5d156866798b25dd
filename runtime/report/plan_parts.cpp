#include "runtime/report/plan_parts.h"

#include <utility>

#include "platform/gpu/presets.h"
#include "runtime/core/op_def.h"
#include "runtime/exec/plan_fused.h"
#include "runtime/passes/decode_graph.h"
#include "runtime/passes/precision.h"
#include "runtime/self_test/probe_plans.h"
#include "shaders/kernels.gen.h"

namespace graft {
namespace {

void add_kernels(const std::vector<Plan>& plans, std::set<std::string>& kernels) {
  for (const Plan& plan : plans) {
    for (const PlanKernel& kernel : plan.kernels) {
      if (shaders::kernel_info(kernel.id).built()) kernels.emplace(shaders::kernel_info(kernel.id).name);
    }
  }
}

// Where tensors cannot be merged, each is a dispatch of the kernel without a table.
void add_table_free(std::set<std::string>& kernels) {
  constexpr std::string_view kTable = "_table";
  for (const std::string& name : std::set<std::string>(kernels)) {
    if (name.ends_with(kTable)) kernels.insert(name.substr(0, name.size() - kTable.size()));
  }
}

std::string rows_of(const std::set<std::string>& names) {
  std::string text, line;
  for (const std::string& name : names) {
    if (line.size() + name.size() > 118) text += std::exchange(line, {}) + "\n";
    line += (line.empty() ? "" : " ") + name;
  }
  return text + line + "\n";
}

}  // namespace

Result<NeededParts> needed_parts(const std::vector<gpu::Target>& targets, const PlanAll& plan_all, const OpUse& seen) {
  NeededParts parts;
  for (const gpu::Target& target : targets) {
    GRAFT_TRY_ASSIGN(const std::vector<Plan> plans, plan_all(target));
    add_kernels(plans, parts.kernels);
    for (const Plan& plan : plans) {
      for (const gpu::Advice& forced : advice_for_others(plan, {})) {
        gpu::Target other = target;
        other.advice = forced;
        if (const auto planned = plan_all(other); planned.ok()) add_kernels(*planned, parts.kernels);
      }
    }
  }
  add_table_free(parts.kernels);
  for (const Op op : seen.ops()) parts.ops.emplace(op_name(op));
  return parts;
}

std::vector<gpu::Target> known_targets() {
  std::vector<gpu::Target> targets(3);
  targets[0].caps.device_name = "any Vulkan 1.1 device";
  for (gpu::Target* cpu : {&targets[1], &targets[2]}) cpu->caps.type = gpu::DeviceType::cpu;
  gpu::Caps& shuffles = targets[2].caps;
  shuffles.subgroup_size = 8;
  shuffles.subgroup_basic = shuffles.subgroup_shuffle = shuffles.subgroup_arithmetic = true;
  shuffles.max_workgroup_invocations = 1024;
  shuffles.max_workgroup_size = {1024, 1024, 1024};
  shuffles.max_shared_memory = 32768;
  for (const gpu::CapsPreset& preset : gpu::caps_presets()) {
    if (preset.source.empty()) continue;
    preset.apply(targets.emplace_back());
  }
  return targets;
}

std::string parts_text(const NeededParts& parts, const std::string& title) {
  return cat("# ", title, "\n# cmake -DGRAFT_OPS=<this file>; without the kernels all kernels are built.\n\n# ops\n",
             rows_of(parts.ops), "\n# kernels\n", rows_of(parts.kernels));
}

Result<std::vector<Plan>> decode_plans(const Model& model, const gpu::Target& target, DType precision) {
  std::vector<Plan> plans;
  if (!passes::decoder_ports(model.graph).ok()) return plans;
  for (const std::uint32_t tokens : {2u, 1u}) {
    GRAFT_TRY_ASSIGN(Graph graph, passes::decode_graph(model.graph, tokens, 64, tokens == 1));
    GRAFT_TRY(passes::store_results(graph, precision, passes::low_precision_weights(model.graph),
                                    passes::Parameters::frozen));
    Residents residents(target.caps);
    GRAFT_TRY(residents.add(graph));
    GRAFT_TRY_ASSIGN(plans.emplace_back(), plan_fused(graph, target, residents));
  }
  return plans;
}

}  // namespace graft
