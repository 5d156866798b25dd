// Which kernels give right answers on a device: small probes of every op against the double-precision reference.
#pragma once

#include <map>
#include <string>

#include "platform/gpu/gpu.h"

namespace graft::cli {

enum class KernelVerdict { passed, failed, not_chosen };

struct SelfTest {
  std::map<std::string, KernelVerdict> kernels;  ///< by name; not_chosen: no probe's plan uses it on this device
  std::map<std::string, std::string> failures;   ///< probe -> what was wrong
};

/// Runs every probe, forward and gradient. A kernel fails with the first probe that uses it and differs by more than
/// 1e-4 of the result's root mean square (the probes are small: f32 rounding stays below 1e-5).
Result<SelfTest> run_self_test(gpu::Device& device);

}  // namespace graft::cli
