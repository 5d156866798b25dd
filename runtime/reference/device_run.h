// Runs a graph on a device with tensors in double, as the interpreter takes them.
#pragma once

#include "platform/gpu/gpu.h"
#include "runtime/exec/run_once.h"
#include "runtime/reference/interpreter.h"

namespace graft {

/// Tensors of the graph's outputs (by the value's name) and of every parameter and state after the run. Values are
/// rounded to their dtype on the way in. Errors are those of run_once().
Result<RefTensors> run_on_device(gpu::Device& device, const Graph& graph, const RefTensors& feeds,
                                 const RefStepState& step_state, const RunOnceOptions& options);

/// A quantized value of these blocks.
RefTensor quantized_tensor(DType dtype, std::span<const std::byte> blocks, std::vector<std::int64_t> dims);

/// Doubles rounded to what the device would be given, in double again; quantized values are so already.
void round_to_dtype(DType dtype, std::vector<double>& data);

}  // namespace graft
