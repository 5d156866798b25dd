#include "platform/gpu/quirks.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace graft::test::quirks_test {
namespace {

using gpu::Caps;

// A device that can do everything.
Caps able(std::uint32_t vendor, const std::string& device, const std::string& driver, std::uint32_t version = 0,
          std::uint32_t device_id = 0) {
  Caps caps;
  caps.vendor_id = vendor;
  caps.device_id = device_id;
  caps.device_name = device;
  caps.driver_name = driver;
  caps.driver_version = version;
  caps.subgroup_size = 64;
  caps.subgroup_basic = caps.subgroup_arithmetic = caps.subgroup_shuffle = true;
  caps.shader_float16 = caps.storage_16bit = caps.integer_dot = caps.cooperative_matrix = true;
  gpu::apply_quirks(caps);
  return caps;
}

bool has(const Caps& caps, std::string_view name) {
  return std::ranges::any_of(caps.quirks, [&](const gpu::AppliedQuirk& q) { return q.name == name; });
}

TEST(Quirks, EveryRowHasAReasonAPublicLinkAndSomethingToMatch) {
  for (const gpu::Quirk& q : gpu::quirks()) {
    EXPECT_FALSE(q.name.empty());
    EXPECT_GT(q.reason.size(), 20u) << q.name;
    EXPECT_TRUE(q.reason.ends_with('.')) << q.name;
    EXPECT_TRUE(q.link.starts_with("https://")) << q.name;
    EXPECT_TRUE(q.vendor != 0 || !q.driver.empty()) << q.name << " would match every device";
    EXPECT_LE(q.first_device, q.last_device) << q.name;
    EXPECT_TRUE(q.before_version == 0 || q.first_version < q.before_version) << q.name;
  }
}

TEST(Quirks, LeaveOtherDevicesAlone) {
  const Caps caps = able(0x1002, "AMD Radeon RX 7800 XT (RADV NAVI32)", "radv", 25u << 22);
  EXPECT_TRUE(caps.quirks.empty());
  EXPECT_TRUE(caps.subgroup_arithmetic && caps.cooperative_matrix && caps.pipeline_cache);
  EXPECT_EQ(caps.max_submit_dispatches, 0u);
}

TEST(Quirks, AdrenoGetsShortSubmitsAndOneOfThemNoPipelineCache) {
  const std::string driver = "Qualcomm Technologies Inc. Adreno Vulkan Driver";
  const Caps newer = able(0x5143, "Adreno (TM) 750", driver, 512u << 22, 0x43051401);
  EXPECT_EQ(newer.max_submit_dispatches, 32u);
  EXPECT_TRUE(newer.pipeline_cache);
  EXPECT_FALSE(able(0x5143, "Adreno (TM) 630", driver, 512u << 22, 0x06030001).pipeline_cache);
  EXPECT_EQ(able(0x5143, "Adreno (TM) 750", "turnip Mesa driver").max_submit_dispatches, 0u) << "another driver";
  const Caps old = able(0x5143, "Adreno (TM) 506", driver, 512u << 22, 0x05000600);
  EXPECT_FALSE(old.shader_float16 || old.subgroup_arithmetic);
}

TEST(Quirks, PowerVrSubmitsOneByOne) {
  const Caps caps = able(0x1010, "PowerVR D-Series DXT-48-1536 MC1", "PowerVR");
  EXPECT_EQ(caps.max_submit_dispatches, 1u);
  EXPECT_FALSE(caps.subgroup_arithmetic);
  EXPECT_TRUE(caps.shader_float16);
  EXPECT_FALSE(able(0x1010, "PowerVR C-Series CXTP-48-1536 MC1", "PowerVR").shader_float16);
}

TEST(Quirks, MoltenVkIsMended) {
  Caps apple;
  apple.vendor_id = 0x106b;
  apple.driver_name = "MoltenVK";
  apple.max_storage_buffer_range = 0;
  gpu::apply_quirks(apple);
  EXPECT_EQ(apple.max_storage_buffer_range, 128ull << 20);
  const Caps amd = able(0x1002, "AMD Radeon Pro 5500M", "MoltenVK");
  EXPECT_EQ(amd.subgroup_size, 32u);
  EXPECT_FALSE(amd.subgroup_arithmetic || amd.subgroup_shuffle);
}

TEST(Quirks, DriverVersionsBoundThem) {
  const std::string windows = "Intel Corporation";
  EXPECT_FALSE(able(0x8086, "Intel(R) Arc(TM) B580", windows, 101u << 14 | 8859).cooperative_matrix);
  EXPECT_TRUE(able(0x8086, "Intel(R) Arc(TM) B580", windows, 101u << 14 | 8860).cooperative_matrix);
  const std::string mesa = "Intel open-source Mesa driver";
  EXPECT_FALSE(able(0x8086, "Intel(R) Graphics (LNL)", mesa, 24u << 22 | 2u << 12).cooperative_matrix);
  EXPECT_TRUE(able(0x8086, "Intel(R) Graphics (LNL)", mesa, 24u << 22 | 3u << 12).cooperative_matrix);
  EXPECT_FALSE(able(0x8086, "Intel(R) Arc(tm) A770 Graphics (DG2)", mesa, 25u << 22).cooperative_matrix);
  EXPECT_FALSE(able(0x10de, "NVIDIA RTX A2000", "NVIDIA", 495u << 22 | 44u << 14).pipeline_cache);
  EXPECT_TRUE(able(0x10de, "NVIDIA RTX A2000", "NVIDIA", 510u << 22).pipeline_cache);
}

TEST(Quirks, OnlyRowsThatChangeSomethingAreListed) {
  Caps caps;
  caps.vendor_id = 0x8086;
  caps.driver_name = "Intel open-source Mesa driver";
  gpu::apply_quirks(caps);  // no subgroup operations and no matrices to take away
  EXPECT_TRUE(caps.quirks.empty());
  EXPECT_TRUE(has(able(0x10de, "NVIDIA H200", "NVIDIA", 580u << 22), "nvidia-unaligned-fills"));
}

}  // namespace
}  // namespace graft::test::quirks_test
