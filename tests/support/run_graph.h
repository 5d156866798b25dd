// Runs a graph on the test device with tensors in double, as the interpreter takes them.
#pragma once

#include "platform/gpu/gpu.h"
#include "runtime/reference/interpreter.h"

namespace graft::test {

/// Tensors of the graph's outputs (by the value's name) and of every parameter and state after the run.
/// Values are rounded to their dtype on the way in. Uses one process-wide device (tests/support/gpu_device.h).
Result<RefTensors> run_on_device(const Graph& graph, const RefTensors& feeds, const RefStepState& step_state = {});

/// What run_on_device() plans for: the test device's capabilities with GRAFT_TEST_CAPS (a preset's name) and
/// EditedTarget applied. With GRAFT_TEST_BF16=f16 it has matrices of bf16 where it has such of f16
/// (tests/support/bf16_device.h).
Result<gpu::Target> test_target();

/// Whether products round their operands to f16 on their way to matrix units.
bool rounds_products();
/// Whether rows are rounded to 8 bits where they meet weights of 8 or 4 bits (kIntegerDotTolerance).
bool rounds_to_8_bits();
/// Whether products of what is kept as f16 go to matrix units.
bool has_matrix_units();

/// Whether products of what is kept as bf16 do.
bool has_bf16_matrices();

/// Whether there is a device to run on; when not, why (tests then skip, saying so).
Status device_available();

/// While it lives, run_on_device() plans for the test device with its capabilities edited, as in taking subgroups
/// away: how the kernels that other devices choose are tested. Only take away or rename; one at a time.
class EditedTarget {
 public:
  explicit EditedTarget(void (*edit)(gpu::Target&));
  ~EditedTarget();
  EditedTarget(const EditedTarget&) = delete;
  EditedTarget& operator=(const EditedTarget&) = delete;
};

/// For EditedTarget: subgroups of four lanes, of which a workgroup takes two clusters; in one subgroup where the driver
/// really runs eight lanes, in two where it runs four.
void in_two_clusters(gpu::Target& target);

}  // namespace graft::test
