// What a device reaches when nothing but one thing is asked of it: arithmetic, memory, dispatches, submissions.
#pragma once

#include "platform/gpu/gpu.h"
#include "runtime/report/plan_speed.h"
#include "tools/common/status.h"
#include "tools/common/stopwatch.h"

namespace graft::cli {

/// Takes about a second. The best figures seen; gemm_flops stays 0.
Result<DeviceFigures> measure_device(gpu::Device& device, Clock clock);

}  // namespace graft::cli
