#include "runtime/session/self_test.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "platform/gpu/with_caps.h"
#include "runtime/plan/plan.h"

namespace graft {
namespace {

// "gemm matmul__f32 kk 512x..": the kernel that a choice of tiles is about; variants of it begin with its name.
std::string_view kernel_of(std::string_view choice_key) {
  constexpr std::string_view kFamily = "gemm ";
  if (!choice_key.starts_with(kFamily)) return {};
  choice_key.remove_prefix(kFamily.size());
  return choice_key.substr(0, choice_key.find(' '));
}

Result<Plan> plan_probe(const BuiltProbe& built, const gpu::Caps& caps) {
  Residents residents(caps);
  GRAFT_TRY(residents.add(built.probe.graph));
  return make_plan(built.probe.graph, caps, residents);
}

// The tiles that rules may choose on this device, among those of the kernel that they choose here.
std::vector<std::string_view> usual_tiles(const gpu::Caps& caps) {
  const ChoiceShape shape{.m = 64, .n = 64, .k = 64, .rounded = rounds_to_f16(caps)};
  const Choice natural = choose(Family::gemm, caps, shape);
  std::vector<std::string_view> names;
  for (const Rule& rule : rules()) {
    if (rule.family != Family::gemm) continue;
    for (const Variant& v : variants()) {
      const bool possible = v.possible == nullptr || v.possible(caps, shape);
      if (v.family != rule.family || v.name != rule.variant || v.kernel != natural.variant->kernel) continue;
      if (possible) names.push_back(v.name);
    }
  }
  return names;
}

// Of kernels that take operands of less than f32: only products that may be rounded lead to them in a probe.
bool is_rounding(std::string_view key) {
  return std::ranges::any_of(std::array{"_coopmat", "_flexible", "_dot8"},
                             [&](std::string_view part) { return key.find(part) != key.npos; });
}

double tolerance_of(const std::set<ProofKey>& keys) {
  const bool integers = std::ranges::any_of(keys, [](const ProofKey& key) { return key.find("_dot8") != key.npos; });
  return integers                                 ? kIntegerProbeTolerance
         : std::ranges::any_of(keys, is_rounding) ? kRoundedProbeTolerance
                                                  : kProbeTolerance;
}

// The device as one whose user allows all rounding.
void allow_rounding(gpu::WithCaps& device) { device.edit().matmul_precision = gpu::MatmulPrecision::medium; }

// Every usual tile of every kernel with tiles in the plan.
void add_tiles(const gpu::Caps& caps, const Plan& plan, std::set<ProofKey>& keys) {
  for (const Step& step : plan.steps) {
    if (step.kind != StepKind::dispatch) continue;
    const std::string_view name = shaders::kernel_info(plan.kernels[step.kernel].id).name;
    for (const PlanChoice& choice : plan.nodes[step.node].choices) {
      const std::string_view kernel = kernel_of(choice.key);
      if (kernel.empty() || !name.starts_with(kernel)) continue;
      for (const std::string_view tile : usual_tiles(caps)) keys.insert(cat(name, "/", tile));
    }
  }
}

}  // namespace

std::set<ProofKey> proof_keys(const Plan& plan) {
  std::set<ProofKey> keys;
  for (const Step& step : plan.steps) {
    if (step.kind != StepKind::dispatch) continue;
    const std::string_view name = shaders::kernel_info(plan.kernels[step.kernel].id).name;
    std::string key(name);
    for (const PlanChoice& choice : plan.nodes[step.node].choices) {
      const std::string_view kernel = kernel_of(choice.key);
      if (!kernel.empty() && name.starts_with(kernel)) key = cat(name, "/", choice.variant);
    }
    keys.insert(std::move(key));
  }
  return keys;
}

Result<bool> SelfTest::check(gpu::Device& device, std::span<const Plan* const> plans) {
  std::set<ProofKey> wanted;
  for (const Plan* plan : plans) {
    for (const ProofKey& key : proof_keys(*plan)) {
      if (!profile_.known(key)) wanted.insert(key);
    }
  }
  if (wanted.empty()) return std::exchange(failed_, false);
  log_(LogLevel::info, "Testing ", wanted.size(), " kernels on \"", device.caps().device_name, "\".");
  for (const OpProbe& probe : self_test_probes()) {
    if (wanted.empty()) break;
    GRAFT_TRY(run_probe(device, probe, wanted));
    if (std::ranges::none_of(wanted, is_rounding)) continue;
    gpu::WithCaps rounding(device);
    allow_rounding(rounding);
    Status rounded = run_probe(rounding, probe, wanted);
    device.set_advice(profile_.advice());
    GRAFT_TRY(std::move(rounded));
  }
  for (const ProofKey& key : wanted) {
    if (failed_) break;  // the plans will be others
    log_(LogLevel::info, "No probe of the self-test reaches kernel ", key, ".");
    profile_.leave_untested(key);
  }
  profile_.save();
  return std::exchange(failed_, false);
}

Status SelfTest::check_all(gpu::Device& device) {
  profile_.forget_verdicts();
  device.set_advice(profile_.advice());
  for (const OpProbe& probe : self_test_probes()) {
    GRAFT_TRY(check_all_of(device, probe));
    gpu::WithCaps rounding(device);
    allow_rounding(rounding);
    if (!rounds_products(rounding.caps())) continue;
    GRAFT_TRY(check_all_of(rounding, probe));
    device.set_advice(profile_.advice());
  }
  profile_.save();
  return ok_status();
}

Status SelfTest::check_all_of(gpu::Device& device, const OpProbe& probe) {
  GRAFT_TRY_ASSIGN(const BuiltProbe built, build_probe(probe));
  GRAFT_TRY_ASSIGN(const Plan plan, plan_probe(built, device.caps()));
  std::set<ProofKey> wanted = proof_keys(plan);
  add_tiles(device.caps(), plan, wanted);
  std::erase_if(wanted, [&](const ProofKey& key) { return key.find('/') != key.npos && profile_.known(key); });
  return run_probe(device, probe, wanted);
}

Status SelfTest::run_probe(gpu::Device& device, const OpProbe& probe, std::set<ProofKey>& wanted) {
  GRAFT_TRY_ASSIGN(const BuiltProbe built, build_probe(probe));
  const gpu::Advice own = profile_.advice();
  GRAFT_TRY(run_planned(device, built, own, wanted));
  // The same problem with other tiles.
  const auto plan = plan_probe(built, device.caps());
  if (!plan.ok()) return ok_status();
  for (const ProofKey& key : std::vector<ProofKey>(wanted.begin(), wanted.end())) {
    const std::size_t slash = key.find('/');
    if (slash == key.npos || !wanted.contains(key)) continue;
    gpu::Advice forced = own;
    for (const PlanNode& node : plan->nodes) {
      for (const PlanChoice& choice : node.choices) {
        const std::string_view kernel = kernel_of(choice.key);
        if (!kernel.empty() && key.starts_with(kernel)) forced.tuned[choice.key] = key.substr(slash + 1);
      }
    }
    if (forced.tuned.size() != own.tuned.size() || forced.tuned != own.tuned) {
      GRAFT_TRY(run_planned(device, built, forced, wanted));
    }
  }
  return ok_status();
}

// Which of the suspects graft can do without here; all of them where it needs them all.
std::set<ProofKey> SelfTest::to_blame(const gpu::Device& device, const BuiltProbe& built,
                                      const std::set<ProofKey>& suspects) {
  std::set<ProofKey> blamed;
  for (const ProofKey& key : suspects) {
    gpu::Caps caps = device.caps();
    caps.advice.avoided.insert(key);
    if (plan_probe(built, caps).ok()) blamed.insert(key);
  }
  return blamed.empty() ? suspects : blamed;
}

Status SelfTest::run_planned(gpu::Device& device, const BuiltProbe& built, const gpu::Advice& forced,
                             std::set<ProofKey>& wanted) {
  device.set_advice(forced);
  const auto restore = [&] { device.set_advice(profile_.advice()); };
  const auto plan = plan_probe(built, device.caps());
  const std::set<ProofKey> keys = plan.ok() ? proof_keys(*plan) : std::set<ProofKey>();
  if (std::ranges::none_of(keys, [&](const ProofKey& key) { return wanted.contains(key); })) {
    restore();
    return ok_status();
  }
  std::set<ProofKey> suspects;
  for (const ProofKey& key : keys) {
    if (!profile_.known(key)) suspects.insert(key);
  }
  if (suspects.empty()) suspects = keys;
  const std::set<ProofKey> blamed = to_blame(device, built, suspects);
  profile_.begin_probe(blamed);
  const auto fault = fault_of_probe(device, built, tolerance_of(keys));
  if (!fault.ok() && fault.status().code() == Code::out_of_memory) {
    // That says nothing of the kernels: none gets a verdict, and none counts as being tested any more.
    restore();
    profile_.save();
    return Status(fault.status()).with_context("In the self-test of the device");
  }
  const std::string why = fault.ok() ? *fault : fault.status().message();
  for (const ProofKey& key : why.empty() ? keys : blamed) {
    wanted.erase(key);
    if (why.empty()) {
      profile_.pass(key);
      continue;
    }
    log_(LogLevel::warning, "Kernel ", key, " is not used on this device: ", why);
    profile_.fail(key, why);
    failed_ = true;
  }
  restore();
  if (fault.ok()) return ok_status();
  profile_.save();
  return Status(fault.status()).with_context("In the self-test of the device");
}

}  // namespace graft
