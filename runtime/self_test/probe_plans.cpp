#include "runtime/self_test/probe_plans.h"

#include <algorithm>
#include <utility>

#include "runtime/exec/plan_fused.h"
#include "runtime/kernels/low_precision_kernel.h"
#include "runtime/ops/choice.h"

namespace graft {
namespace {

std::string_view family_of(std::string_view choice_key) { return choice_key.substr(0, choice_key.find(' ')); }

// "gemm matmul__f32 kk 512x..": the kernel that a choice of tiles is about; variants of it begin with its name.
std::string_view kernel_of(std::string_view choice_key) {
  const std::string_view family = family_of(choice_key);
  if (family != family_name(Family::gemm)) return {};
  choice_key.remove_prefix(family.size() + 1);
  return choice_key.substr(0, choice_key.find(' '));
}

const Variant* variant_of(const PlanChoice& choice) { return variant_named(choice.key, choice.variant); }

// The tiles that rules, or for usual sizes the model of time, may choose for a kernel which is the `number`th of its
// family.
std::vector<std::string_view> tile_names(const gpu::Target& target, std::uint8_t number,
                                         const shaders::KernelInfo& kernel) {
  const bool brain = (kernel.features & shaders::needs_bfloat16) != 0;
  const ChoiceShape shape{.m = 64,
                          .n = 64,
                          .k = 64,
                          .rounded = true,
                          .operand = brain ? gpu::MatrixShape::Operand::bf16 : gpu::MatrixShape::Operand::f16};
  std::vector<std::string_view> names;
  // A tile for larger products than this is proven where a plan has it; where it fails, one of these stands in.
  constexpr ChoiceShape kUsual{512, 512, 256};
  for (const Variant& v : variants()) {
    if (v.family != Family::gemm || v.kernel != number) continue;
    const bool ruled = std::ranges::any_of(
        rules(), [&](const Rule& rule) { return rule.family == Family::gemm && rule.variant == v.name; });
    if (!ruled && !is_ranked(target, kUsual, v)) continue;
    if (v.possible == nullptr || v.possible(target, shape)) names.push_back(v.name);
  }
  return names;
}

// `each(kernel, choice of its tile or null)` for every dispatch.
template <typename Each>
void each_kernel(const Plan& plan, Each each) {
  for (const Step& step : plan.steps) {
    if (step.kind != StepKind::dispatch) continue;
    const PlanKernel& used = plan.kernels[step.kernel];
    const std::string_view name = shaders::kernel_info(used.id).name;
    const PlanChoice* tile = nullptr;
    for (const PlanChoice& choice : plan.nodes[step.node].choices) {
      const std::string_view kernel = kernel_of(choice.key);
      if (!kernel.empty() && name.starts_with(kernel)) tile = &choice;
    }
    each(used, tile);
  }
}

}  // namespace

bool has_tile(std::string_view key) { return key.find('/') != key.npos; }

DType elements_of(std::string_view key) {
  const auto names = [&](std::string_view part) { return key.find(part) != key.npos; };
  if (names("@f16")) return DType::f16;
  // Kernels that multiply bf16 are chosen for such elements alone.
  return names("@bf16") || names("_bf16") ? DType::bf16 : DType::f32;
}

bool is_epilogue(std::string_view key) { return key.find("_epilogue") != key.npos && key.find('@') == key.npos; }

std::set<ProofKey> proof_keys(const Plan& plan, const gpu::Target& target) {
  std::set<ProofKey> keys;
  each_kernel(plan, [&](const PlanKernel& kernel, const PlanChoice* tile) {
    const shaders::KernelInfo& info = shaders::kernel_info(kernel.id);
    keys.insert(tile != nullptr ? cat(info.name, "/", tile->variant) : std::string(info.name));
    if (kernel.storage != 0) keys.insert(form_name(info, kernel.storage, target));
  });
  return keys;
}

Result<Plan> plan_probe(const BuiltProbe& built, const gpu::Target& target) {
  Residents residents(target.caps);
  GRAFT_TRY(residents.add(built.graph));
  return plan_fused(built.graph, target, residents);
}

std::set<ProofKey> usual_tiles(const gpu::Target& target, const Plan& plan) {
  std::set<ProofKey> keys;
  each_kernel(plan, [&](const PlanKernel& kernel, const PlanChoice* tile) {
    const Variant* const chosen = tile == nullptr ? nullptr : variant_of(*tile);
    if (chosen == nullptr) return;
    const shaders::KernelInfo& info = shaders::kernel_info(kernel.id);
    for (const std::string_view other : tile_names(target, chosen->kernel, info))
      keys.insert(cat(info.name, "/", other));
  });
  return keys;
}

gpu::Advice advice_for_tile(const Plan& plan, const gpu::Advice& own, std::string_view key) {
  gpu::Advice forced = own;
  const std::string_view tile = key.substr(std::min(key.size(), key.find('/') + 1));
  for (const PlanNode& node : plan.nodes) {
    for (const PlanChoice& choice : node.choices) {
      const std::string_view kernel = kernel_of(choice.key);
      if (!kernel.empty() && key.starts_with(kernel)) forced.tuned[choice.key] = tile;
    }
  }
  return forced;
}

std::vector<gpu::Advice> advice_for_others(const Plan& plan, const gpu::Advice& own) {
  std::vector<gpu::Advice> all;
  std::set<std::pair<Family, std::uint8_t>> met;  // kernels, by their numbers in the family
  const auto force = [&](const Variant& v) {
    if (!met.emplace(v.family, v.kernel).second) return;
    gpu::Advice forced = own;
    for (const PlanNode& node : plan.nodes) {
      for (const PlanChoice& choice : node.choices) {
        if (family_of(choice.key) == family_name(v.family)) forced.tuned[choice.key] = v.name;
      }
    }
    all.push_back(std::move(forced));
  };
  for (const PlanNode& node : plan.nodes) {
    for (const PlanChoice& choice : node.choices) {
      const Variant* const chosen = variant_of(choice);
      if (chosen == nullptr) continue;
      for (const Variant& v : variants()) {
        if (v.family == chosen->family && v.kernel != chosen->kernel) force(v);
      }
    }
  }
  return all;
}

}  // namespace graft
