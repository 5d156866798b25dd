// Whether the kernels that plans chose give right answers on the device at hand: asked before a plan is first used.
#pragma once

#include <span>

#include "platform/gpu/gpu.h"
#include "runtime/plan/plan.h"

namespace graft {

/// Threads: the device's.
class KernelProof {
 public:
  virtual ~KernelProof() = default;
  /// Tests what is not known yet of the kernels of these plans. True: some failed, the device's advice now says so, and
  /// the plans have to be made again. Errors: only where the device cannot go on (device_lost) or had no
  /// memory for a test (out_of_memory: asked again, it goes on where it was).
  virtual Result<bool> check(gpu::Device& device, std::span<const Plan* const> plans) = 0;
};

/// Makes plans until all of their kernels are proven: `make` fills what `plans` then points to. Without `proof` once.
template <typename Make, typename Plans>
Status make_proven(KernelProof* proof, gpu::Device& device, const Make& make, const Plans& plans) {
  for (;;) {
    GRAFT_TRY(make());
    if (proof == nullptr) return ok_status();
    GRAFT_TRY_ASSIGN(const bool again, proof->check(device, plans()));
    if (!again) return ok_status();
  }
}

}  // namespace graft
