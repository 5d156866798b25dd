// ctest: middle
// The Vulkan device on the software drivers: what gpu.h promises, wrong arguments, validation, failing calls.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "platform/os/file.h"
#include "platform/vulkan/vulkan_device.h"
#include "tests/support/freeze.h"
#include "tests/support/gpu_device.h"
#include "tests/support/selftest_script.h"

namespace graft::test::platform_vulkan_test {
namespace {

using gpu::BufferRange;
using gpu::MemoryKind;
using push::SelftestPush;

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

TEST_P(VulkanDevice, RunsWithFencesToo) {
  vulkan::DeviceOptions options = device_options_for(GetParam());
  options.timeline_semaphore = false;
  open(options);
  std::vector<float> out;
  const Status status = run_script(*device, out);
  ASSERT_TRUE(status.ok()) << status.message();
  expect_script_result(out);
}

TEST_P(VulkanDevice, RunsWithNonCoherentMemory) {
  vulkan::DeviceOptions options = device_options_for(GetParam());
  options.assume_non_coherent = true;
  open(options);
  std::vector<float> out;
  const Status status = run_script(*device, out);
  ASSERT_TRUE(status.ok()) << status.message();
  expect_script_result(out);
}

TEST_P(VulkanDevice, FillsAndCopiesRanges) {
  auto work = buffer(1024, MemoryKind::device);
  auto host = buffer(1024, MemoryKind::readback);
  auto recorder = device->record("fill", 0).value();
  recorder->fill(whole(*work), 0x01020304);
  recorder->barrier();
  recorder->fill({work.get(), 12, 8}, 0xffffffff);
  recorder->barrier();
  recorder->copy({work.get(), 8, 16}, {host.get(), 100, 16});
  recorder->host_barrier();
  auto list = recorder->finish().value();
  gpu::CommandList* const lists[] = {list.get()};
  ASSERT_TRUE(device->wait(device->submit(lists).value(), kTestTimeout).ok());
  std::array<std::uint32_t, 4> words{};
  std::memcpy(words.data(), host->mapped().data() + 100, sizeof(words));
  EXPECT_EQ(words, (std::array<std::uint32_t, 4>{0x01020304, 0xffffffff, 0xffffffff, 0x01020304}));
}

TEST_P(VulkanDevice, CapsAreWithinWhatVulkanGuarantees) {
  const gpu::Caps& caps = device->caps();
  EXPECT_FALSE(caps.device_name.empty());
  EXPECT_GE(caps.max_storage_buffer_range, 128ull << 20);
  EXPECT_GE(caps.max_allocation, 1ull << 30);
  EXPECT_LE(caps.storage_buffer_alignment, 256u);
  EXPECT_GE(caps.max_push_constants, 128u);
  EXPECT_GE(caps.max_shared_memory, 16384u);
  EXPECT_GE(caps.max_workgroup_invocations, 128u);
  EXPECT_GE(caps.subgroup_size, 1u);
  EXPECT_TRUE(caps.unified_memory) << "both software devices compute in host memory";
  EXPECT_EQ(caps.type, gpu::DeviceType::cpu);
  ASSERT_FALSE(caps.heaps.empty());
  EXPECT_GT(caps.heaps[0].bytes, 0u);
}

TEST_P(VulkanDevice, ReportsAMissingBarrier) {
  if (device_options_for(GetParam()).instance.validation == nullptr) GTEST_SKIP() << "The validation layer is off.";
  auto work = buffer(512, MemoryKind::device);
  auto recorder = device->record("no barrier", 0).value();
  recorder->fill(whole(*work), 1);
  recorder->fill(whole(*work), 2);  // nothing orders it after the first
  (void)recorder->finish().value();
  const auto messages = validation_messages().take();
  ASSERT_FALSE(messages.empty());
  EXPECT_NE(messages[0].find("WRITE_AFTER_WRITE"), std::string::npos) << messages[0];
}

TEST_P(VulkanDevice, ReportsAMissingBarrierBetweenDispatches) {
  if (device_options_for(GetParam()).instance.validation == nullptr) GTEST_SKIP() << "The validation layer is off.";
  auto a = buffer(4096, MemoryKind::device);
  auto b = buffer(4096, MemoryKind::device);
  auto kernels = device->create_kernels(std::array{selftest_desc()}).value();
  const SelftestPush push{64, 1.0f, 1.0f};
  const auto record = [&](std::array<BufferRange, 2> first, std::array<BufferRange, 2> second) {
    auto recorder = device->record("pair", 0).value();
    recorder->dispatch(*kernels[0], first, bytes_of(push), {1, 1, 1});
    recorder->dispatch(*kernels[0], second, bytes_of(push), {1, 1, 1});
    (void)recorder->finish().value();
    return cat(validation_messages().count(), " ", [] {
      const auto messages = validation_messages().take();
      return messages.empty() ? std::string() : messages[0];
    }());
  };
  const auto range = [](gpu::Buffer& it, std::uint64_t offset) { return BufferRange{&it, offset, 256}; };
  EXPECT_NE(record({range(*a, 0), range(*b, 0)}, {range(*b, 0), range(*a, 512)}).find("READ_AFTER_WRITE"),
            std::string::npos);
  EXPECT_NE(record({range(*a, 0), range(*b, 0)}, {range(*a, 512), range(*a, 0)}).find("WRITE_AFTER_READ"),
            std::string::npos);
  EXPECT_EQ(record({range(*a, 0), range(*a, 256)}, {range(*a, 512), range(*a, 1024)}), "0 ")
      << "ranges of one buffer that do not meet need no barrier";
}

TEST_P(VulkanDevice, WrongArgumentsAreErrors) {
  auto work = buffer(4096, MemoryKind::device);
  auto kernels = device->create_kernels(std::array{selftest_desc()}).value();
  gpu::Kernel& kernel = *kernels[0];
  const SelftestPush push{1, 1.0f, 0.0f};
  const BufferRange good = {work.get(), 0, 64};
  const auto align = device->caps().storage_buffer_alignment;
  const auto over = device->caps().max_workgroup_count[1];
  using Record = std::function<void(gpu::Recorder&)>;
  const auto dispatch = [&](BufferRange second, std::array<std::uint32_t, 3> groups) -> Record {
    return [&, second, groups](gpu::Recorder& r) {
      r.dispatch(kernel, std::array{good, second}, bytes_of(push), groups);
    };
  };
  const std::vector<std::pair<std::string, Record>> cases = {
      {"takes 2 bindings, but got 1",
       [&](gpu::Recorder& r) {
         r.dispatch(kernel, std::array{good}, bytes_of(push), {1, 1, 1});
       }},
      {"takes 12 push bytes, but got 8",
       [&](gpu::Recorder& r) {
         r.dispatch(kernel, std::array{good, good}, bytes_of(push).first(8), {1, 1, 1});
       }},
      {cat("starts at byte 4 of buffer \"test\", not at a multiple of ", align),
       dispatch({work.get(), 4, 64}, {1, 1, 1})},
      {"covers 8192 bytes from byte 0 of buffer \"test\", which has 4096", dispatch({work.get(), 0, 8192}, {1, 1, 1})},
      {"covers 18446744073709551615 bytes", dispatch({work.get(), align, ~0ull}, {1, 1, 1})},
      {"has 0 bytes", dispatch({work.get(), 0, 0}, {1, 1, 1})},
      {"has no buffer", dispatch({nullptr, 0, 4}, {1, 1, 1})},
      {cat("workgroups in dimension 1; the device allows ", over), dispatch(good, {1, over + (over != ~0u), 1})},
      {"A copy of 8 bytes into 4 bytes",
       [&](gpu::Recorder& r) {
         r.copy({work.get(), 0, 8}, {work.get(), 64, 4});
       }},
      {"overlaps itself",
       [&](gpu::Recorder& r) {
         r.copy({work.get(), 0, 8}, {work.get(), 4, 8});
       }},
      {"must be a multiple of 4",
       [&](gpu::Recorder& r) {
         r.fill({work.get(), 0, 6}, 0);
       }},
      {"Timestamp 1 is out of range", [&](gpu::Recorder& r) { r.timestamp(1); }},
      {"without begin_label", [&](gpu::Recorder& r) { r.end_label(); }},
      {"1 labels were not ended", [&](gpu::Recorder& r) { r.begin_label("x"); }},
  };
  for (const auto& [text, record] : cases) {
    auto recorder = device->record("wrong", 1).value();
    record(*recorder);
    recorder->barrier();  // after an error everything is ignored
    const auto list = recorder->finish();
    ASSERT_FALSE(list.ok()) << text;
    EXPECT_EQ(list.status().code(), Code::invalid_argument) << text;
    EXPECT_NE(list.status().message().find(text), std::string::npos) << list.status().message();
  }
  EXPECT_EQ(device->wait(0, kTestTimeout).code(), Code::invalid_argument);
  EXPECT_EQ(device->wait(1, kTestTimeout).code(), Code::invalid_argument);
  EXPECT_EQ(device->create_buffer(0, MemoryKind::device, "none").status().code(), Code::invalid_argument);
  EXPECT_EQ(device->create_buffer(1ull << 62, MemoryKind::device, "vast").status().code(), Code::out_of_memory);
  const std::array<std::uint32_t, 8> garbage{};
  EXPECT_EQ(device->create_kernels(std::array<gpu::KernelDesc, 1>{{{"garbage", garbage, {}, 1, 0}}}).status().code(),
            Code::invalid_argument);
}

TEST_P(VulkanDevice, WaitTimesOutAndARunningListIsNotSubmittedAgain) {
  constexpr std::uint32_t kGroups = 4096;
  auto work = buffer(kGroups * 64 * 4, MemoryKind::device);
  auto kernels = device->create_kernels(std::array{selftest_desc()}).value();
  const SelftestPush push{kGroups * 64, 1.0f, 1.0f};
  auto recorder = device->record("long", 0).value();
  for (int i = 0; i < 200; ++i) {
    recorder->dispatch(*kernels[0], std::array{whole(*work), whole(*work)}, bytes_of(push), {kGroups, 1, 1});
    recorder->barrier();
  }
  auto list = recorder->finish().value();
  gpu::CommandList* const lists[] = {list.get()};
  gpu::CommandList* const twice[] = {list.get(), list.get()};
  EXPECT_EQ(device->submit(twice).status().code(), Code::invalid_argument);
  const auto ticket = device->submit(lists).value();
  EXPECT_EQ(device->wait(ticket, std::chrono::nanoseconds(0)).code(), Code::timeout);
  EXPECT_EQ(device->submit(lists).status().code(), Code::invalid_argument);
  EXPECT_TRUE(device->wait(ticket, kTestTimeout).ok());
  EXPECT_TRUE(device->wait(ticket, std::chrono::nanoseconds(0)).ok()) << "known to be complete";
  const auto again = device->submit(lists);
  ASSERT_TRUE(again.ok()) << again.status().message();
  // Everything is destroyed while the list runs: destruction waits.
}

#ifndef _WIN32
TEST_P(VulkanDevice, TimeInWhichTheProcessWasStoppedIsNoTimeout) {
  constexpr std::uint32_t kGroups = 4096;
  auto work = buffer(kGroups * 64 * 4, MemoryKind::device);
  auto kernels = device->create_kernels(std::array{selftest_desc()}).value();
  const SelftestPush push{kGroups * 64, 1.0f, 1.0f};
  auto recorder = device->record("long", 0).value();
  for (int i = 0; i < 400; ++i) {
    recorder->dispatch(*kernels[0], std::array{whole(*work), whole(*work)}, bytes_of(push), {kGroups, 1, 1});
    recorder->barrier();
  }
  auto list = recorder->finish().value();
  gpu::CommandList* const lists[] = {list.get()};
  const auto begun = std::chrono::steady_clock::now();
  ASSERT_TRUE(device->wait(device->submit(lists).value(), kTestTimeout).ok());
  const auto takes = std::chrono::steady_clock::now() - begun;
  if (takes < std::chrono::milliseconds(20)) GTEST_SKIP() << "the device is too fast to be caught at work";
  const auto limit = std::max<std::chrono::nanoseconds>(3 * takes, std::chrono::milliseconds(500));
  const auto ticket = device->submit(lists).value();
  const Freeze freeze(takes / 4, limit + std::chrono::milliseconds(200));
  const Status waited = device->wait(ticket, limit);
  EXPECT_TRUE(waited.ok()) << waited.message();
}
#endif

TEST_P(VulkanDevice, SmallBuffersShareAllocations) {
  const std::uint64_t before = device->memory().allocations;
  std::vector<std::unique_ptr<gpu::Buffer>> small;
  for (int i = 0; i < 100; ++i) small.push_back(buffer(1000 + static_cast<std::uint64_t>(i), MemoryKind::upload));
  EXPECT_EQ(device->memory().allocations, before + 1);
  for (std::size_t i = 0; i < small.size(); ++i)
    std::memset(small[i]->mapped().data(), static_cast<int>(i), small[i]->size());
  for (std::size_t i = 0; i < small.size(); ++i) {
    ASSERT_EQ(small[i]->mapped().front(), static_cast<std::byte>(i)) << "buffers overlap";
    ASSERT_EQ(small[i]->mapped().back(), static_cast<std::byte>(i)) << "buffers overlap";
  }
  for (std::size_t i = 0; i < small.size(); i += 2) small[i].reset();
  for (std::size_t i = 0; i < small.size(); i += 2) small[i] = buffer(900, MemoryKind::upload);
  EXPECT_EQ(device->memory().allocations, before + 1) << "freed ranges are used again";
  auto large = buffer(3 << 20, MemoryKind::device);
  EXPECT_EQ(device->memory().allocations, before + 2);
  EXPECT_GE(device->memory().bytes, (3u << 20) + 100 * 900u);
  small.clear();
  large.reset();
  EXPECT_EQ(device->memory().bytes, 0u);
  EXPECT_EQ(device->memory().reserved_bytes, 0u);
  EXPECT_GE(device->memory().peak_bytes, (3u << 20) + 100 * 900u);
}

TEST_P(VulkanDevice, LongRecordingsTakeSeveralDescriptorPools) {
  constexpr std::uint32_t kDispatches = 700;
  auto work = buffer(4, MemoryKind::readback);
  auto kernels = device->create_kernels(std::array{selftest_desc()}).value();
  const SelftestPush push{1, 1.0f, 1.0f};
  auto recorder = device->record("many", 0).value();
  recorder->fill(whole(*work), 0);
  for (std::uint32_t i = 0; i < kDispatches; ++i) {
    recorder->barrier();
    recorder->dispatch(*kernels[0], std::array{whole(*work), whole(*work)}, bytes_of(push), {1, 1, 1});
  }
  recorder->host_barrier();
  auto list = recorder->finish().value();
  gpu::CommandList* const lists[] = {list.get()};
  ASSERT_TRUE(device->wait(device->submit(lists).value(), kTestTimeout).ok());
  EXPECT_EQ(floats(*work)[0], static_cast<float>(kDispatches));
}

TEST_P(VulkanDevice, ChoosesByNameAndIndex) {
  vulkan::DeviceOptions options = device_options_for(GetParam());
  const auto all = vulkan::enumerate(options.instance).value();
  ASSERT_EQ(all.size(), 1u) << "the test shows the loader one driver";
  EXPECT_EQ(all[0].caps.device_name, device->caps().device_name);
  options.device = "0";
  EXPECT_TRUE(vulkan::create_device(options).ok());
  for (const char* wrong : {"7", "GeForce"}) {
    options.device = wrong;
    const auto missing = vulkan::create_device(options);
    EXPECT_EQ(missing.status().code(), Code::not_found);
    EXPECT_EQ(missing.status().message(),
              cat("No Vulkan device matches \"", wrong, "\"; present are 0: ", all[0].caps.device_name, "."));
  }
}

INSTANTIATE_TEST_SUITE_P(Drivers, VulkanDevice, testing::Values("lavapipe", "swiftshader"),
                         [](const auto& driver) { return std::string(driver.param); });

}  // namespace
}  // namespace graft::test::platform_vulkan_test
