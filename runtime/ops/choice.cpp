#include "runtime/ops/choice.h"

#include <algorithm>
#include <bit>

#include "platform/base/status.h"
#include "platform/gpu/figures.h"
#include "runtime/ops/time_model.h"

namespace graft {
namespace {

const Variant* find_variant(Family family, std::string_view name) {
  const auto it =
      std::ranges::find_if(variants(), [&](const Variant& v) { return v.family == family && v.name == name; });
  return it == variants().end() ? nullptr : &*it;
}

// The variant that `can` be taken of which the model expects the least time; null where it ranks none. Where tiles of
// 28 rows are chosen there are more pipelines: they must save a sixteenth.
template <typename Can>
const Variant* fastest_by_model(const gpu::Target& target, const ChoiceShape& shape, const Can& can) {
  constexpr double kFurtherPipelines = 16.0 / 15;
  const gpu::Figures* const figures = gpu::figures_of(target.caps);
  const gpu::Speed speed = figures != nullptr ? gpu::speed_of(*figures) : gpu::Speed{.f32_flops = 1};
  const Variant* best = nullptr;
  double least = 0;
  for (const Variant& variant : variants()) {
    if (!is_ranked(target, shape, variant) || !can(&variant)) continue;
    const double seconds =
        variant_seconds(target, variant, shape, speed) * (variant.tile[2] == 28 ? kFurtherPipelines : 1);
    if (best != nullptr && seconds >= least) continue;
    best = &variant;
    least = seconds;
  }
  return best;
}

std::string key_of(Family family, const ChoiceShape& shape, std::span<const shaders::KernelId> kernels,
                   std::string_view detail) {
  const auto about = [](std::uint64_t n) { return std::bit_floor(n); };
  const bool f16 = shape.operand == gpu::MatrixShape::Operand::f16;
  return cat(family_name(family), " ", kernels.empty() ? "-" : shaders::kernel_info(kernels[0]).name,
             detail.empty() ? "" : " ", detail,
             !shape.rounded ? " "
             : f16          ? " rounded "
                            : " bf16 ",
             about(shape.m), "x", about(shape.n), "x", about(shape.k), "x", about(shape.batches));
}

}  // namespace

std::string_view family_name(Family family) {
  static constexpr std::string_view kNames[] = {"product",     "gemm",         "gemm_parts",   "skinny_rows",
                                                "skinny_cols", "depthwise",    "depthwise_dw", "transpose",
                                                "rows",        "attention",    "weight_rows",  "attention_few",
                                                "pool",        "few_channels", "held_weights", "epilogue"};
  return kNames[static_cast<std::size_t>(family)];
}

const Variant* variant_named(std::string_view key, std::string_view name) {
  const std::string_view family = key.substr(0, key.find(' '));
  const auto it = std::ranges::find_if(
      variants(), [&](const Variant& v) { return v.name == name && family_name(v.family) == family; });
  return it == variants().end() ? nullptr : &*it;
}

bool is_avoided(const gpu::Target& target, shaders::KernelId kernel) {
  if (!shaders::kernel_info(kernel).built()) return true;
  return !target.advice.avoided.empty() && target.advice.avoided.contains(shaders::kernel_info(kernel).name);
}

Status no_other_kernel(const gpu::Caps& caps, shaders::KernelId kernel) {
  const shaders::KernelInfo& info = shaders::kernel_info(kernel);
  if (info.built()) return no_other_kernel(caps, info.name);
  return unsupported("This build of graft leaves out the kernel ", info.name, ", which \"", caps.device_name,
                     "\" needs here (GRAFT_OPS, GRAFT_TRAINING, or a glslang that cannot compile it).");
}

Status no_other_kernel(const gpu::Caps& caps, std::string_view kernel) {
  return unsupported("Kernel ", kernel, " failed its self-test on \"", caps.device_name, "\" (driver ",
                     caps.driver_info, "), and graft has no other for this.");
}

Choice choose(Family family, const gpu::Target& target, const ChoiceShape& shape,
              std::span<const shaders::KernelId> kernels, std::string_view detail) {
  const auto can = [&](const Variant* v) {
    if (v == nullptr || (v->possible != nullptr && !v->possible(target, shape))) return false;
    if (v->kernel >= kernels.size()) return true;
    if (!shaders::kernel_info(kernels[v->kernel]).built()) return false;
    if (target.advice.avoided.empty()) return true;
    const std::string_view kernel = shaders::kernel_info(kernels[v->kernel]).name;
    return !target.advice.avoided.contains(kernel) && !target.advice.avoided.contains(cat(kernel, "/", v->name));
  };
  Choice choice{.shape = shape, .key = key_of(family, shape, kernels, detail)};
  if (const auto tuned = target.advice.tuned.find(choice.key); tuned != target.advice.tuned.end()) {
    choice.variant = find_variant(family, tuned->second);
    choice.why = "what graft bench --tune found for this device";
    if (can(choice.variant)) return choice;
  }
  for (const Rule& rule : rules()) {
    if (rule.family != family) continue;
    choice.variant = rule.variant.empty() ? fastest_by_model(target, shape, can) : find_variant(family, rule.variant);
    choice.why = rule.why;
    if (can(choice.variant) && (rule.when == nullptr || rule.when(target, shape))) return choice;
  }
  // Whatever is left; where nothing is, the plan names the kernel that failed.
  for (const Variant& variant : variants()) {
    if (variant.family != family || (variant.possible != nullptr && !variant.possible(target, shape))) continue;
    choice.variant = &variant;
    choice.why = "the rest failed their self-test or do not fit this device";
    if (can(choice.variant)) return choice;
  }
  choice.none_left = true;
  return choice;
}

}  // namespace graft
