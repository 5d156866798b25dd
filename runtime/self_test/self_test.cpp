#include "runtime/self_test/self_test.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>
#include <vector>

#include "platform/base/cancel.h"
#include "platform/gpu/with_target.h"
#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/ops/choice.h"

namespace graft {
namespace {

// Kernels that take operands below f32: in a probe, only products that may be rounded lead to them.
bool is_rounding(std::string_view key) {
  return std::ranges::any_of(std::array{"_coopmat", "_flexible", "_dot8"},
                             [&](std::string_view part) { return key.find(part) != key.npos; });
}

double tolerance_of(const std::set<ProofKey>& keys, const BuiltProbe& built) {
  const bool integers = std::ranges::any_of(keys, [](const ProofKey& key) { return key.find("_dot8") != key.npos; });
  const double products = integers                                 ? kIntegerProbeTolerance
                          : std::ranges::any_of(keys, is_rounding) ? kRoundedProbeTolerance
                                                                   : kProbeTolerance;
  // Matrix units round f32 operands to f16: a gradient of attention is off by as much as with f16 elements.
  const bool halves = built.elements == DType::f16 ||
                      std::ranges::any_of(keys, [](const ProofKey& key) { return key.find("_coopmat") != key.npos; });
  const double rounding = built.elements == DType::bf16 ? 0x1p-8 : halves ? 0x1p-11 : 0;
  return products + built.roundings * rounding;
}

bool any_about(const std::set<ProofKey>& keys, DType elements) {
  return std::ranges::any_of(keys, [&](const ProofKey& key) { return elements_of(key) == elements; });
}

// f32 first: forms for other elements are kernels that are proven by then, with other loads and stores.
constexpr DType kElements[] = {DType::f32, DType::f16, DType::bf16};

// The device as one whose user allows all rounding.
void allow_rounding(gpu::WithTarget& device) { device.edit().policy.matmul_precision = gpu::MatmulPrecision::medium; }

}  // namespace

Result<bool> SelfTest::check(gpu::Device& device, std::span<const Plan* const> plans) {
  std::set<ProofKey> used, wanted;
  for (const Plan* plan : plans) used.merge(proof_keys(*plan, device.target()));
  wanted = unknown(used);
  const CancelScope undisturbed({});  // a probe that was not planned would count as one that reaches no kernel
  if (wanted.empty()) {
    if (std::exchange(failed_, false)) return true;
    for (const ProofKey& key : used) {
      if (profile_.failed().contains(key)) return no_other_kernel(device.caps(), key);
    }
    return false;
  }
  log_(LogLevel::info, "Testing ", wanted.size(), " kernels on \"", device.caps().device_name, "\".");
  // What larger problems choose needs a search, if anything is left.
  for (const bool others : {false, true}) {
    for (const DType elements : kElements) {
      for (const OpProbe& probe : self_test_probes()) {
        // Where a form failed, another takes its place, and is proven before the rest runs beside it.
        if (!any_about(wanted, elements) || (elements != DType::f32 && failed_)) break;
        GRAFT_TRY(run_probe(device, probe, elements, others, wanted));
      }
    }
    std::erase_if(wanted, [&](const ProofKey& key) { return profile_.known(key); });
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
  for (const DType elements : kElements) {
    for (const OpProbe& probe : self_test_probes()) {
      if (!is_in_build(probe)) continue;
      GRAFT_TRY_ASSIGN(const BuiltProbe built, build_probe(probe, elements));
      do {
        failed_ = false;
        GRAFT_TRY(check_all_of(device, built));
      } while (failed_ && elements != DType::f32);  // what takes the place of the form that failed
      gpu::WithTarget rounding(device);
      allow_rounding(rounding);
      if (!rounds_products(rounding.target())) continue;
      GRAFT_TRY(check_all_of(rounding, built));
      device.set_advice(profile_.advice());
    }
  }
  profile_.save();
  return ok_status();
}

Status SelfTest::check_all_of(gpu::Device& device, const BuiltProbe& built) {
  GRAFT_TRY_ASSIGN(const Plan plan, plan_probe(built, device.target()));
  std::set<ProofKey> wanted = proof_keys(plan, device.target());
  wanted.merge(usual_tiles(device.target(), plan));
  const bool low_precision = built.elements != DType::f32;
  std::erase_if(wanted, [&](const ProofKey& key) {
    return ((has_tile(key) || low_precision) && profile_.known(key)) || elements_of(key) != built.elements;
  });
  GRAFT_TRY(run_built(device, built, false, wanted));
  wanted.clear();
  for (const gpu::Advice& forced : advice_for_others(plan, profile_.advice())) {
    gpu::Target target = device.target();
    target.advice = forced;
    const auto other = plan_probe(built, target);
    if (other.ok()) wanted.merge(proof_keys(*other, target));
  }
  std::erase_if(wanted, [&](const ProofKey& key) {
    return has_tile(key) || profile_.known(key) || elements_of(key) != built.elements;
  });
  return wanted.empty() ? ok_status() : run_built(device, built, true, wanted);
}

Status SelfTest::run_probe(gpu::Device& device, const OpProbe& probe, DType elements, bool others,
                           std::set<ProofKey>& wanted) {
  if (!is_in_build(probe)) return ok_status();
  GRAFT_TRY_ASSIGN(const BuiltProbe built, build_probe(probe, elements));
  GRAFT_TRY(run_built(device, built, others, wanted));
  if (std::ranges::none_of(wanted, is_rounding)) return ok_status();
  gpu::WithTarget rounding(device);
  allow_rounding(rounding);
  Status rounded = run_built(rounding, built, others, wanted);
  device.set_advice(profile_.advice());
  return rounded;
}

// In a probe of forms for 16-bit elements, the kernels that are not such forms: else they would be blamed for them.
Status SelfTest::prove_wide(gpu::Device& device, const BuiltProbe& built) {
  const auto plan = plan_probe(built, device.target());
  if (!plan.ok()) return ok_status();
  std::set<ProofKey> keys = unknown(proof_keys(*plan, device.target()));
  std::erase_if(keys, [](const ProofKey& key) { return elements_of(key) != DType::f32; });
  if (keys.empty()) return ok_status();
  BuiltProbe wide = built;
  wide.elements = DType::f32;
  for (std::uint32_t v = 0; v < wide.graph.values().size(); ++v) {
    wide.graph.mutable_value(ValueId{v}).storage = DType::f32;
  }
  return run_advised(device, wide, keys);
}

Status SelfTest::run_built(gpu::Device& device, const BuiltProbe& built, bool others, std::set<ProofKey>& wanted) {
  if (!others) GRAFT_TRY(run_planned(device, built, profile_.advice(), wanted));
  const auto plan = plan_probe(built, device.target());
  if (!plan.ok()) return ok_status();
  if (others) {
    for (const gpu::Advice& forced : advice_for_others(*plan, profile_.advice())) {
      GRAFT_TRY(run_planned(device, built, forced, wanted));
    }
    return ok_status();
  }
  // The same problem with other tiles.
  for (const ProofKey& key : std::vector<ProofKey>(wanted.begin(), wanted.end())) {
    if (!has_tile(key) || !wanted.contains(key)) continue;
    const gpu::Advice own = profile_.advice();
    const gpu::Advice forced = advice_for_tile(*plan, own, key);
    if (forced.tuned != own.tuned) GRAFT_TRY(run_planned(device, built, forced, wanted));
  }
  return ok_status();
}

// Which of the suspects graft can do without here; all of them where it needs them all.
std::set<ProofKey> SelfTest::to_blame(const gpu::Device& device, const BuiltProbe& built,
                                      const std::set<ProofKey>& suspects) {
  std::set<ProofKey> blamed;
  for (const ProofKey& key : suspects) {
    gpu::Target target = device.target();
    target.advice.avoided.insert(key);
    if (plan_probe(built, target).ok()) blamed.insert(key);
  }
  return blamed.empty() ? suspects : blamed;
}

std::set<ProofKey> SelfTest::unknown(const std::set<ProofKey>& keys) const {
  std::set<ProofKey> left;
  std::ranges::copy_if(keys, std::inserter(left, left.end()),
                       [&](const ProofKey& key) { return !profile_.known(key); });
  return left;
}

Status SelfTest::run_planned(gpu::Device& device, const BuiltProbe& built, const gpu::Advice& forced,
                             std::set<ProofKey>& wanted) {
  device.set_advice(forced);
  Status done = run_advised(device, built, wanted);
  device.set_advice(profile_.advice());
  return done;
}

Status SelfTest::run_advised(gpu::Device& device, const BuiltProbe& built, std::set<ProofKey>& wanted) {
  const auto keys_here = [&] {
    const auto plan = plan_probe(built, device.target());
    return plan.ok() ? proof_keys(*plan, device.target()) : std::set<ProofKey>();
  };
  const auto any_wanted = [&](const std::set<ProofKey>& keys) {
    return std::ranges::any_of(keys, [&](const ProofKey& key) { return wanted.contains(key); });
  };
  std::set<ProofKey> keys = keys_here();
  if (!any_wanted(keys)) return ok_status();
  if (built.elements != DType::f32) {
    GRAFT_TRY(prove_wide(device, built));
    if (failed_) return ok_status();  // the next plans are others
  }
  const std::set<ProofKey> fresh = unknown(keys);
  if (fresh.size() > 1 && std::ranges::any_of(fresh, is_epilogue)) {
    GRAFT_TRY(run_up_to_last_epilogue(device, built, fresh));
    std::erase_if(wanted, [&](const ProofKey& key) { return fresh.contains(key) && profile_.known(key); });
    keys = keys_here();
    if (!any_wanted(keys)) return ok_status();
  }
  return prove(device, built, keys, wanted);
}

// First without any of them, then with one more each time, all but the last: a kernel that is wrong, or kills the
// process, is then the only new one.
Status SelfTest::run_up_to_last_epilogue(gpu::Device& device, const BuiltProbe& built, std::set<ProofKey> fresh) {
  gpu::Advice forced = device.target().advice;
  std::erase_if(fresh, [](const ProofKey& key) { return !is_epilogue(key); });
  for (; !fresh.empty(); fresh.erase(fresh.begin())) {
    gpu::Advice advice = forced;
    advice.avoided.insert(fresh.begin(), fresh.end());
    device.set_advice(std::move(advice));
    const auto plan = plan_probe(built, device.target());
    std::set<ProofKey> first = plan.ok() ? unknown(proof_keys(*plan, device.target())) : std::set<ProofKey>();
    GRAFT_TRY(run_advised(device, built, first));
    forced.avoided.merge(profile_.advice().avoided);
  }
  device.set_advice(std::move(forced));
  return ok_status();
}

Status SelfTest::prove(gpu::Device& device, const BuiltProbe& built, const std::set<ProofKey>& keys,
                       std::set<ProofKey>& wanted) {
  std::set<ProofKey> suspects = unknown(keys);
  if (suspects.empty()) suspects = keys;
  const std::set<ProofKey> blamed = to_blame(device, built, suspects);
  profile_.begin_probe(blamed);
  const auto fault = fault_of_probe(device, built, tolerance_of(keys, built));
  if (!fault.ok() && fault.status().code() == Code::out_of_memory) {
    // That says nothing of the kernels: none gets a verdict, and none counts as being tested any more.
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
  if (fault.ok()) return ok_status();
  profile_.save();
  return Status(fault.status()).with_context("In the self-test of the device");
}

Result<std::unique_ptr<RememberedDevice>> RememberedDevice::open(os::FileSystem& files, const std::string& folder,
                                                                 gpu::Device& device, const LogSink& log,
                                                                 bool self_test) {
  auto profile = DeviceProfile::open(files, folder, device.caps(), log);
  device.set_advice(profile->advice());
  const std::string pipelines = profile->pipeline_cache_path();
  if (!pipelines.empty()) GRAFT_TRY(device.open_pipeline_cache(pipelines));
  return std::unique_ptr<RememberedDevice>(new RememberedDevice(std::move(profile), log, self_test));
}

}  // namespace graft
