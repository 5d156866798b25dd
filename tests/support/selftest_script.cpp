#include "tests/support/selftest_script.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "shaders/kernels.gen.h"
#include "tests/support/gpu_device.h"

namespace graft::test {

using gpu::BufferRange;
using gpu::MemoryKind;
using push::SelftestPush;

gpu::KernelDesc selftest_desc(std::span<const std::uint32_t> specialization) {
  const auto& info = shaders::kernel_info(shaders::KernelId::selftest__f32);
  return {info.name, info.spirv(), specialization, 2, sizeof(SelftestPush)};
}

std::span<const std::byte> bytes_of(const SelftestPush& push) { return std::as_bytes(std::span(&push, 1)); }

std::span<float> floats(gpu::Buffer& buffer) {
  return {reinterpret_cast<float*>(buffer.mapped().data()), buffer.mapped().size() / 4};
}

BufferRange whole(gpu::Buffer& buffer) { return {&buffer, 0, buffer.size()}; }

Status run_script(gpu::Device& device, std::vector<float>& out, std::uint32_t timestamps) {
  constexpr std::uint32_t kCount = 300;
  GRAFT_TRY_ASSIGN(auto input, device.create_buffer(kCount * 4, MemoryKind::upload, "input"));
  GRAFT_TRY_ASSIGN(auto work, device.create_buffer(kCount * 4 * 2 + 256, MemoryKind::device, "work"));
  GRAFT_TRY_ASSIGN(auto output, device.create_buffer(kCount * 4, MemoryKind::readback, "output"));
  std::iota(floats(*input).begin(), floats(*input).end(), 0.0f);
  const std::array<std::uint32_t, 1> five = {5};
  const std::array descs = {selftest_desc(), selftest_desc(five)};
  GRAFT_TRY_ASSIGN(auto kernels, device.create_kernels(descs));
  GRAFT_TRY_ASSIGN(auto recorder, device.record("script", timestamps));
  const BufferRange a{work.get(), 0, kCount * 4};
  const BufferRange b{work.get(), 1280, kCount * 4};
  const SelftestPush push{kCount, 2.0f, 1.0f};
  const std::array<std::uint32_t, 3> groups = {(kCount + 63) / 64, 1, 1};
  if (timestamps > 0) recorder->timestamp(0);
  recorder->begin_label("first");
  recorder->dispatch(*kernels[0], std::array{whole(*input), a}, bytes_of(push), groups);
  recorder->end_label();
  recorder->barrier();
  recorder->dispatch(*kernels[1], std::array{a, b}, bytes_of(push), groups);
  recorder->barrier();
  recorder->copy(b, whole(*output));
  if (timestamps > 1) recorder->timestamp(1);
  recorder->host_barrier();
  GRAFT_TRY_ASSIGN(auto list, recorder->finish());
  gpu::CommandList* const lists[] = {list.get()};
  for (int repeat = 0; repeat < 2; ++repeat) {  // recorded once, submitted twice
    GRAFT_TRY_ASSIGN(const auto ticket, device.submit(lists));
    GRAFT_TRY(device.wait(ticket, kTestTimeout));
  }
  if (timestamps > 0) {
    std::vector<std::uint64_t> ticks(timestamps);
    GRAFT_TRY(device.read_timestamps(*list, ticks));
    if (ticks.front() == 0 || ticks.front() > ticks.back()) return internal_error("Timestamps do not grow.");
  }
  out.assign(floats(*output).begin(), floats(*output).end());
  return ok_status();
}

void expect_script_result(const std::vector<float>& out) {
  ASSERT_EQ(out.size(), 300u);
  for (std::size_t i = 0; i < out.size(); ++i) {
    ASSERT_EQ(out[i], 2.0f * (2.0f * static_cast<float>(i) + 1.0f) + 1.0f + 5.0f) << i;  // exact: small integers
  }
}

}  // namespace graft::test
