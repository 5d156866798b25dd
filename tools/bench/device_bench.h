// What a device reaches when nothing but one thing is asked of it: arithmetic, memory, dispatches, submissions.
#pragma once

#include "platform/gpu/gpu.h"
#include "tools/common/status.h"
#include "tools/common/stopwatch.h"

namespace graft::cli {

/// Best figures seen; 0 where the device cannot.
struct DeviceFigures {
  double f32_flops = 0;  ///< per second, a multiply and an add counted as two
  double f16_flops = 0;
  double dot8_ops = 0;        ///< of dot products of four 8-bit integers: 8 each
  double copy_bytes = 0;      ///< per second, read plus written, by a kernel
  double read_bytes = 0;      ///< per second, by a kernel
  double transfer_bytes = 0;  ///< per second, read plus written, by a copy command
  double gemm_flops = 0;      ///< per second, of graft's own product of 768^3; measure_device() leaves it at 0
  double dispatch_seconds = 0;
  double barrier_seconds = 0;     ///< what a barrier between two dispatches adds
  double submit_seconds = 0;      ///< an empty submission, and the wait for it
  double round_trip_seconds = 0;  ///< a word to the device, a dispatch, a word back
};

/// Takes about a second.
Result<DeviceFigures> measure_device(gpu::Device& device, Clock clock);

}  // namespace graft::cli
