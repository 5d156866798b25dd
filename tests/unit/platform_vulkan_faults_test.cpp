// ctest: middle
// The Vulkan device when things fail: every call k, a lost device, missing drivers, damaged pipeline caches.
#include <gtest/gtest.h>

#include <cstdlib>

#include "platform/os/file.h"
#include "platform/vulkan/vulkan_device.h"
#include "tests/support/files/fault_files.h"
#include "tests/support/gpu_device.h"
#include "tests/support/heap_count.h"
#include "tests/support/selftest_script.h"

namespace graft::test::platform_vulkan_faults_test {
namespace {

constexpr const char* kSwiftShaderLibrary = "/usr/lib/chromium/libvk_swiftshader.so";

class VulkanFaults : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    validation_messages().take();
    const auto probe = vulkan::create_device(device_options_for(GetParam()));
    if (!probe.ok()) GTEST_SKIP() << probe.status().message();
  }
  void TearDown() override { expect_no_validation_messages(); }
};

/// Opens a device, runs the script and saves the pipeline cache.
Status open_and_run(const vulkan::DeviceOptions& options, std::vector<float>& out) {
  GRAFT_TRY_ASSIGN(auto device, vulkan::create_device(options));
  GRAFT_TRY(run_script(*device, out, 2));
  return device->save_pipeline_cache();
}

TEST_P(VulkanFaults, EveryVulkanCallCanFail) {
  const TemporaryFolder folder;
  for (const bool timeline : {true, false}) {
    vulkan::DeviceOptions options = device_options_for(GetParam());
    options.timeline_semaphore = timeline;
    options.assume_non_coherent = !timeline;  // the two rounds together reach every call
    options.pipeline_cache_path = folder.file("cache");
    vulkan::CallFaults counting;
    options.instance.faults = &counting;
    std::vector<float> out;
    const Status status = open_and_run(options, out);
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_GT(counting.calls, 30u);
    for (std::uint64_t k = 1; k <= counting.calls; ++k) {
      vulkan::CallFaults faults;
      faults.fail_call = k;
      options.instance.faults = &faults;
      const Status failed = open_and_run(options, out);
      ASSERT_EQ(failed.code(), Code::out_of_memory) << k << " " << faults.failed << ": " << failed.message();
      EXPECT_NE(failed.message().find(faults.failed.substr(0, 8)), std::string::npos) << failed.message();
      for (const auto& message : validation_messages().take()) {
        ADD_FAILURE() << "after the failure of call " << k << ", " << faults.failed << ": " << message;
      }
    }
  }
}

TEST_P(VulkanFaults, ALostDeviceStaysLost) {
  vulkan::CallFaults faults;
  vulkan::DeviceOptions options = device_options_for(GetParam());
  options.instance.faults = &faults;
  auto device = vulkan::create_device(options).value();
  auto recorder = device->record("empty", 0).value();
  auto list = recorder->finish().value();
  gpu::CommandList* const lists[] = {list.get()};
  ASSERT_TRUE(device->wait(device->submit(lists).value(), kTestTimeout).ok());
  faults.result = -4;  // VK_ERROR_DEVICE_LOST
  faults.fail_call = faults.calls + 1;
  EXPECT_EQ(device->submit(lists).status().code(), Code::device_lost);
  EXPECT_EQ(faults.failed, "vkQueueSubmit");
  EXPECT_EQ(device->submit(lists).status().code(), Code::device_lost) << "also without another failure";
}

TEST_P(VulkanFaults, DamagedPipelineCachesAreIgnored) {
  const TemporaryFolder folder;
  std::string log;
  vulkan::DeviceOptions options = device_options_for(GetParam());
  options.pipeline_cache_path = folder.file("cache");
  options.instance.log = {[](void* user, LogLevel, std::string_view text) { *static_cast<std::string*>(user) += text; },
                          &log, LogLevel::warning};
  std::vector<float> out;
  ASSERT_TRUE(open_and_run(options, out).ok());
  ASSERT_TRUE(open_and_run(options, out).ok());
  EXPECT_EQ(log, "") << "an intact file is taken";
  const std::string good = os::read_text_file(os::system_files(), options.pipeline_cache_path, 1 << 24).value();

  std::vector<std::pair<std::string, std::string>> damaged = {
      {"", "only 0 bytes"}, {good + "x", "damaged"}, {std::string(100, 'z'), "not a pipeline cache"}};
  for (std::size_t cut = 1; cut < good.size(); cut += good.size() / 5 + 1)
    damaged.push_back({good.substr(0, cut), "is ignored"});
  for (std::size_t at = 0; at < good.size(); at += at < 64 ? 7 : good.size() / 4 + 1) {
    damaged.push_back({good, "is ignored"});
    damaged.back().first[at] ^= 4;
  }
  for (const auto& [text, reason] : damaged) {
    log.clear();
    ASSERT_TRUE(os::atomic_write_file(os::system_files(), options.pipeline_cache_path, text).ok());
    const auto device = vulkan::create_device(options);
    ASSERT_TRUE(device.ok()) << device.status().message();
    EXPECT_NE(log.find(reason), std::string::npos) << "for " << text.size() << " bytes: " << log;
  }
}

TEST_P(VulkanFaults, AFailingCacheWriteKeepsTheOldFile) {
  const TemporaryFolder folder;
  FaultFiles files;
  vulkan::DeviceOptions options = device_options_for(GetParam());
  options.pipeline_cache_path = folder.file("cache");
  options.files = &files;
  ASSERT_TRUE(os::atomic_write_file(os::system_files(), options.pipeline_cache_path, "old").ok());
  auto device = vulkan::create_device(options).value();
  files.state.fail_call = files.state.calls + 2;  // the write, after the open
  EXPECT_EQ(device->save_pipeline_cache().code(), Code::io_error);
  EXPECT_EQ(os::read_text_file(os::system_files(), options.pipeline_cache_path, 100).value(), "old");
}

TEST_P(VulkanFaults, SubmitAndWaitAllocateNothingAfterTheFirst) {
  for (const bool timeline : {true, false}) {
    vulkan::DeviceOptions options = device_options_for(GetParam());
    options.instance.validation = nullptr;  // the layer allocates for itself
    options.timeline_semaphore = timeline;
    auto device = vulkan::create_device(options).value();
    auto buffer = device->create_buffer(1024, gpu::MemoryKind::device, "work").value();
    auto recorder = device->record("fill", 0).value();
    recorder->fill(whole(*buffer), 1);
    auto list = recorder->finish().value();
    gpu::CommandList* const lists[] = {list.get()};
    const auto step = [&] {
      const auto ticket = device->submit(lists);
      return ticket.ok() ? device->wait(*ticket, kTestTimeout) : ticket.status();
    };
    ASSERT_TRUE(step().ok());
    ASSERT_TRUE(step().ok());
    const std::uint64_t before = heap_allocations();
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(step().ok());
    EXPECT_EQ(heap_allocations(), before) << (timeline ? "timeline" : "fences");
  }
}

INSTANTIATE_TEST_SUITE_P(Drivers, VulkanFaults, testing::Values("lavapipe", "swiftshader"),
                         [](const auto& driver) { return std::string(driver.param); });

TEST(VulkanLoading, ADriverCanBeLoadedWithoutTheLoader) {
  if (!os::exists(os::system_files(), kSwiftShaderLibrary)) GTEST_SKIP() << kSwiftShaderLibrary << " is not installed.";
  vulkan::DeviceOptions options;
  options.instance.library = kSwiftShaderLibrary;
  std::vector<float> out;
  const Status status = open_and_run(options, out);
  ASSERT_TRUE(status.ok()) << status.message();
  expect_script_result(out);
}

TEST(VulkanLoading, MissingPartsAreNamed) {
  vulkan::DeviceOptions options = device_options_for("lavapipe");
  options.instance.library = "libgraft-no-such-loader.so";
  EXPECT_EQ(vulkan::create_device(options).status().code(), Code::not_found);
  options.instance.library = "libz.so.1";
  const auto other = vulkan::create_device(options);
  EXPECT_TRUE(other.status().code() == Code::not_found || other.status().code() == Code::unsupported);
  options = {};
  setenv("VK_DRIVER_FILES", "/nonexistent/icd.json", 1);
  setenv("VK_ICD_FILENAMES", "/nonexistent/icd.json", 1);
  const auto none = vulkan::enumerate(options.instance);
  EXPECT_EQ(none.status().code(), Code::not_found);
  EXPECT_NE(none.status().message().find("apt install"), std::string::npos) << none.status().message();
  EXPECT_NE(none.status().message().find("mesa-vulkan-drivers"), std::string::npos) << none.status().message();
}

}  // namespace
}  // namespace graft::test::platform_vulkan_faults_test
