#include "tests/support/run_graph.h"

#include "runtime/reference/device_run.h"
#include "tests/support/gpu_device.h"

namespace graft::test {
namespace {

Result<gpu::Device*> shared_device() {
  static const auto device = test_device();
  if (!device.ok()) return device.status();
  return device->get();
}

}  // namespace

Status device_available() { return detail::to_status(shared_device()); }

Result<RefTensors> run_on_device(const Graph& graph, const RefTensors& feeds, const RefStepState& step_state) {
  GRAFT_TRY_ASSIGN(gpu::Device* const device, shared_device());
  const RunOnceOptions options{.timeout = kTestTimeout, .check_plan = true};
  GRAFT_TRY_ASSIGN(RefTensors result, graft::run_on_device(*device, graph, feeds, step_state, options));
  expect_no_validation_messages();
  return result;
}

}  // namespace graft::test
