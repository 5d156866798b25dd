// A device with matrices of f16 taken for one with matrices of bf16: kernels that multiply bf16 run there with f16 in
// its place. Every bf16 between 2^-14 and 65280 is an f16 as well, so that results are those of bf16: what differs is
// the type's name, and not what the kernels do. For devices that have f16 matrices but no bf16, as lavapipe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "platform/gpu/with_target.h"

namespace graft::test {

/// The module with f16 wherever it says bf16; empty where it says so nowhere.
std::vector<std::uint32_t> f16_for_bf16(std::span<const std::uint32_t> spirv);

/// As matrices of bf16 the device gets those of f16 that it has.
void pretend_bf16(gpu::Caps& caps);

/// Passes everything on to another device, which must outlive it.
class F16ForBf16Device : public gpu::WithTarget {
 public:
  explicit F16ForBf16Device(gpu::Device& inner) : WithTarget(inner) { pretend_bf16(edit().caps); }
  Result<std::vector<std::unique_ptr<gpu::Kernel>>> create_kernels(std::span<const gpu::KernelDesc> kernels) override;
};

}  // namespace graft::test
