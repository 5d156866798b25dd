// The Vulkan device on the software drivers: what gpu.h promises, wrong arguments, validation, failing calls.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "platform/os/file.h"
#include "platform/vulkan/vulkan_device.h"
#include "shaders/kernels.gen.h"
#include "shaders/selftest/selftest_push.h"
#include "tests/support/gpu_device.h"

namespace graft::test {
namespace {

using gpu::BufferRange;
using gpu::MemoryKind;
using push::SelftestPush;

gpu::KernelDesc selftest_desc(std::span<const std::uint32_t> specialization = {}) {
  const auto& info = shaders::kernel_info(shaders::KernelId::selftest__f32);
  return {info.name, info.spirv, specialization, 2, sizeof(SelftestPush)};
}

std::span<const std::byte> bytes_of(const SelftestPush& push) { return std::as_bytes(std::span(&push, 1)); }

std::span<float> floats(gpu::Buffer& buffer) {
  return {reinterpret_cast<float*>(buffer.mapped().data()), buffer.mapped().size() / 4};
}

BufferRange whole(gpu::Buffer& buffer) { return {&buffer, 0, buffer.size()}; }

/// Upload, two dependent dispatches with different specializations, copy back: y = 2 * (2x + 1) + 1 + 5.
Status run_script(gpu::Device& device, std::vector<float>& out, std::uint32_t timestamps = 0) {
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

/// Every test below runs on each software driver.
class VulkanDevice : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    validation_messages().take();
    open(device_options_for(GetParam()));
  }
  void TearDown() override {
    device.reset();
    expect_no_validation_messages();
  }
  void open(const vulkan::DeviceOptions& options) {
    device.reset();
    auto result = vulkan::create_device(options);
    if (result.ok()) {
      device = std::move(result).value();
    } else if (result.status().code() == Code::not_found) {
      GTEST_SKIP() << result.status().message();
    } else {
      FAIL() << result.status().message();
    }
  }
  std::unique_ptr<gpu::Buffer> buffer(std::uint64_t bytes, MemoryKind kind) {
    auto result = device->create_buffer(bytes, kind, "test");
    EXPECT_TRUE(result.ok()) << result.status().message();
    return result.ok() ? std::move(result).value() : nullptr;
  }
  std::unique_ptr<gpu::Device> device;
};

TEST_P(VulkanDevice, RunsDependentDispatches) {
  std::vector<float> out;
  const Status status = run_script(*device, out, device->caps().timestamp_period_ns > 0 ? 2 : 0);
  ASSERT_TRUE(status.ok()) << status.message();
  expect_script_result(out);
}

INSTANTIATE_TEST_SUITE_P(Drivers, VulkanDevice, testing::Values("lavapipe", "swiftshader"),
                         [](const auto& driver) { return std::string(driver.param); });

}  // namespace
}  // namespace graft::test
