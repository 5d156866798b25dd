// A small run on any device: upload, two dependent dispatches, copy back. Its result is known exactly.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "platform/gpu/gpu.h"
#include "shaders/selftest/selftest_push.h"

namespace graft::test {

/// The kernel y = scale * x + bias + constant 0.
gpu::KernelDesc selftest_desc(std::span<const std::uint32_t> specialization = {});

std::span<const std::byte> bytes_of(const push::SelftestPush& push);
/// The mapped buffer as floats.
std::span<float> floats(gpu::Buffer& buffer);
gpu::BufferRange whole(gpu::Buffer& buffer);

/// y = 2 * (2x + 1) + 1 + 5 for x = 0 .. 299, submitted twice from one recording. `timestamps` is 0 or 2.
Status run_script(gpu::Device& device, std::vector<float>& out, std::uint32_t timestamps = 0);
void expect_script_result(const std::vector<float>& out);

}  // namespace graft::test
