#include "tests/support/run_graph.h"

#include <cstdlib>
#include <string_view>

#include "platform/gpu/presets.h"
#include "runtime/ops/choice.h"
#include "runtime/reference/device_run.h"
#include "tests/support/bf16_device.h"
#include "tests/support/edited_device.h"
#include "tests/support/gpu_device.h"

namespace graft::test {
namespace {

Result<gpu::Device*> shared_device() {
  static const auto device = test_device();
  if (!device.ok()) return device.status();
  return device->get();
}

bool takes_f16_for_bf16() {
  const char* const chosen = std::getenv("GRAFT_TEST_BF16");
  return chosen != nullptr && std::string_view(chosen) == "f16";
}

void (*edit_target)(gpu::Target&) = nullptr;

}  // namespace

EditedTarget::EditedTarget(void (*edit)(gpu::Target&)) { edit_target = edit; }
EditedTarget::~EditedTarget() { edit_target = nullptr; }

void in_two_clusters(gpu::Target& target) {
  target.caps.device_name = "llvmpipe (LLVM 15.0.6, 256 bits)";
  target.caps.subgroup_size = 4;
}

Result<gpu::Target> test_target() {
  GRAFT_TRY_ASSIGN(gpu::Device* const device, shared_device());
  gpu::Target target = device->target();
  const char* const preset = std::getenv("GRAFT_TEST_CAPS");
  if (preset != nullptr && *preset != '\0') GRAFT_TRY(gpu::apply_caps_preset(preset, target));
  // The kernels of ops, each by itself, whatever stands behind it here: tests/plan/fuse_test.cpp has them
  // together.
  target.advice.tuned[choose(Family::epilogue, target, {}).key] = "apart";
  if (edit_target != nullptr) edit_target(target);
  target.caps = gpu::within_device(std::move(target.caps), device->caps());
  if (takes_f16_for_bf16()) pretend_bf16(target.caps);
  return target;
}

bool rounds_products() {
  const auto target = test_target();
  return target.ok() && rounds_to_f16(*target);
}

bool rounds_to_8_bits() {
  const auto target = test_target();
  return target.ok() && target->policy.matmul_precision == gpu::MatmulPrecision::medium && target->caps.integer_dot &&
         target->caps.type != gpu::DeviceType::cpu;
}

bool has_matrix_units() {
  auto target = test_target();
  if (target.ok()) target->policy.matmul_precision = gpu::MatmulPrecision::high;
  return target.ok() && rounds_to_f16(*target);
}

bool has_bf16_matrices() {
  const auto target = test_target();
  return target.ok() && multiplies_bf16(*target);
}

Status device_available() { return detail::to_status(shared_device()); }

Result<RefTensors> run_on_device(const Graph& graph, const RefTensors& feeds, const RefStepState& step_state) {
  GRAFT_TRY_ASSIGN(gpu::Device* const device, shared_device());
  const RunOnceOptions options{.timeout = kTestTimeout, .check_plan = true};
  GRAFT_TRY_ASSIGN(gpu::Target target, test_target());
  F16ForBf16Device pretending(*device);
  EditedDevice edited(takes_f16_for_bf16() ? pretending : *device);
  edited.edit() = std::move(target);
  GRAFT_TRY_ASSIGN(RefTensors result, graft::run_on_device(edited, graph, feeds, step_state, options));
  expect_no_validation_messages();
  return result;
}

}  // namespace graft::test
