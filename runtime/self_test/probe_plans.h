// What a probe of the self-test is planned as: with the kernels that the device's rules choose, and with the others.
#pragma once

#include <set>
#include <string_view>
#include <vector>

#include "runtime/plan/plan.h"
#include "runtime/self_test/device_profile.h"
#include "runtime/self_test/self_test_probes.h"

namespace graft {

/// What there is to prove about a plan on a device: each kernel by name; those with tiles by name and tile. A variant
/// with an epilogue (-DEPILOGUE) is a kernel of its own. Where a kernel's bindings hold 16-bit elements its form for
/// these (form_name() of runtime/kernels/low_precision_kernel.h) is proven beside it, whatever the tile.
std::set<ProofKey> proof_keys(const Plan& plan, const gpu::Target& target);

bool has_tile(std::string_view key);
/// The element type that it is about: f32 unless it is a form for another, or a kernel that only bf16 chooses.
DType elements_of(std::string_view key);
/// Whether it is of a kernel with an epilogue: graft can do without it wherever it has the kernel without one.
bool is_epilogue(std::string_view key);

Result<Plan> plan_probe(const BuiltProbe& built, const gpu::Target& target);

/// Every tile that rules may choose on this device, for every kernel with tiles in the plan.
std::set<ProofKey> usual_tiles(const gpu::Target& target, const Plan& plan);

/// The advice that a device would have to follow, in place of `own`, for the plan to hold `key`, of a kernel with
/// tiles; `own` where no advice leads there.
gpu::Advice advice_for_tile(const Plan& plan, const gpu::Advice& own, std::string_view key);

/// The same for kernels without tiles that a family offers beside those of the plan: one advice for each such.
std::vector<gpu::Advice> advice_for_others(const Plan& plan, const gpu::Advice& own);

}  // namespace graft
