// The null device: what it records, how it checks, and that every failing call leaves nothing behind.
#include <gtest/gtest.h>

#include "platform/null/null_device.h"

namespace graft::null::platform_null_test {
namespace {

constexpr std::array<std::uint32_t, 5> kSpirv = {0x07230203, 0, 0, 0, 0};

gpu::KernelDesc kernel_desc() { return {"scale", kSpirv, {}, 2, 4}; }

/// Touches every kind of call once.
Status run_script(gpu::Device& device) {
  GRAFT_TRY_ASSIGN(auto upload, device.create_buffer(1024, gpu::MemoryKind::upload, "upload"));
  GRAFT_TRY_ASSIGN(auto work, device.create_buffer(1024, gpu::MemoryKind::device, "work"));
  const std::array descs = {kernel_desc()};
  GRAFT_TRY_ASSIGN(auto kernels, device.create_kernels(descs));
  GRAFT_TRY_ASSIGN(auto recorder, device.record("script", 1));
  const std::array<std::byte, 4> push = {std::byte{7}};
  recorder->begin_label("node");
  recorder->fill({work.get(), 256, 256}, 0xabcd);
  recorder->barrier();
  recorder->dispatch(*kernels[0], std::array<gpu::BufferRange, 2>{{{upload.get(), 0, 256}, {work.get(), 256, 256}}},
                     push, {3, 2, 1});
  recorder->end_label();
  recorder->barrier();
  recorder->copy({work.get(), 0, 64}, {upload.get(), 64, 64});
  recorder->timestamp(0);
  recorder->host_barrier();
  GRAFT_TRY_ASSIGN(auto list, recorder->finish());
  gpu::CommandList* const lists[] = {list.get()};
  GRAFT_TRY_ASSIGN(const auto ticket, device.submit(lists));
  GRAFT_TRY(device.wait(ticket, std::chrono::seconds(1)));
  std::array<std::uint64_t, 1> ticks{};
  GRAFT_TRY(device.read_timestamps(*list, ticks));
  return device.save_pipeline_cache();
}

TEST(NullDevice, RecordsWhatWasSubmitted) {
  NullDevice device({});
  const Status status = run_script(device);
  ASSERT_TRUE(status.ok()) << status.message();
  const auto& commands = device.submitted();
  ASSERT_EQ(commands.size(), 9u);
  EXPECT_EQ(commands[0].name, "node");
  EXPECT_EQ(commands[1].kind, CommandKind::fill);
  EXPECT_EQ(commands[1].word, 0xabcdu);
  EXPECT_EQ(commands[3].kind, CommandKind::dispatch);
  EXPECT_EQ(commands[3].name, "scale");
  EXPECT_EQ(commands[3].ranges[1].offset, 256u);
  EXPECT_EQ(commands[3].groups[1], 2u);
  EXPECT_EQ(commands[3].push[0], std::byte{7});
  EXPECT_EQ(commands[8].kind, CommandKind::host_barrier);
  EXPECT_EQ(device.memory().peak_bytes, 2048u);
  EXPECT_EQ(device.memory().bytes, 0u);
}

TEST(NullDevice, EveryCallCanFailAndNothingLeaks) {
  NullDevice counting({});
  ASSERT_TRUE(run_script(counting).ok());
  const std::uint64_t calls = counting.calls();
  ASSERT_EQ(calls, 18u);  // 4 before, 9 commands, finish, 4 after
  for (std::uint64_t k = 1; k <= calls; ++k) {
    NullDevice device({});
    device.fail_call(k, Code::device_lost);
    const Status status = run_script(device);
    EXPECT_EQ(status.code(), Code::device_lost) << "call " << k;
    EXPECT_EQ(device.live_objects(), 0u) << "call " << k;
    EXPECT_EQ(device.memory().bytes, 0u) << "call " << k;
    EXPECT_TRUE(run_script(device).ok()) << "after the failure of call " << k;
  }
}

TEST(NullDevice, BuffersAreZeroAndMappedByKind) {
  Options options;
  NullDevice discrete(options);
  auto upload = discrete.create_buffer(100, gpu::MemoryKind::upload, "u").value();
  ASSERT_EQ(upload->mapped().size(), 100u);
  for (const std::byte byte : upload->mapped()) ASSERT_EQ(byte, std::byte{0});
  EXPECT_TRUE(discrete.create_buffer(100, gpu::MemoryKind::device, "d").value()->mapped().empty());
  options.caps.unified_memory = true;
  NullDevice unified(options);
  EXPECT_EQ(unified.create_buffer(100, gpu::MemoryKind::device, "d").value()->mapped().size(), 100u);
}

TEST(NullDevice, HonoursItsCapsAndItsMemoryLimit) {
  Options options;
  options.caps.max_storage_buffer_range = 512;
  options.memory_limit = 1000;
  NullDevice device(options);
  auto buffer = device.create_buffer(900, gpu::MemoryKind::device, "big").value();
  EXPECT_EQ(device.create_buffer(101, gpu::MemoryKind::device, "more").status().code(), Code::out_of_memory);
  EXPECT_TRUE(device.create_buffer(100, gpu::MemoryKind::device, "fits").ok());
  auto kernels = device.create_kernels(std::array{kernel_desc()}).value();
  auto recorder = device.record("list", 0).value();
  recorder->dispatch(*kernels[0], std::array<gpu::BufferRange, 2>{{{buffer.get(), 0, 516}, {buffer.get(), 0, 4}}},
                     std::array<std::byte, 4>{}, {1, 1, 1});
  recorder->barrier();
  const auto list = recorder->finish();
  ASSERT_FALSE(list.ok());
  EXPECT_EQ(list.status().code(), Code::invalid_argument);
  EXPECT_NE(list.status().message().find("Binding 0 of kernel \"scale\" has 516 B"), std::string::npos)
      << list.status().message();
}

}  // namespace
}  // namespace graft::null::platform_null_test
