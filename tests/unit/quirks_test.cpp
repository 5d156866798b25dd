#include "platform/gpu/quirks.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace graft::test::quirks_test {
namespace {

using gpu::Target;

// A device that can do everything.
Target able(std::uint32_t vendor, const std::string& device, const std::string& driver, std::uint32_t version = 0,
            std::uint32_t device_id = 0) {
  Target target;
  target.caps.vendor_id = vendor;
  target.caps.device_id = device_id;
  target.caps.device_name = device;
  target.caps.driver_name = driver;
  target.caps.driver_version = version;
  target.caps.subgroup_size = 64;
  target.caps.subgroup_basic = target.caps.subgroup_arithmetic = target.caps.subgroup_shuffle = true;
  target.caps.shader_float16 = target.caps.storage_16bit = target.caps.integer_dot = target.caps.cooperative_matrix =
      true;
  gpu::apply_quirks(target.caps, target.quirks);
  return target;
}

bool has(const Target& target, std::string_view name) {
  return std::ranges::any_of(target.quirks.applied, [&](const gpu::AppliedQuirk& q) { return q.name == name; });
}

TEST(Quirks, EveryRowHasAReasonAPublicLinkAndSomethingToMatch) {
  for (const gpu::Quirk& q : gpu::known_quirks()) {
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
  const Target target = able(0x1002, "AMD Radeon RX 7800 XT (RADV NAVI32)", "radv", 25u << 22);
  EXPECT_TRUE(target.quirks.applied.empty());
  EXPECT_TRUE(target.caps.subgroup_arithmetic && target.caps.cooperative_matrix && target.quirks.pipeline_cache);
  EXPECT_EQ(target.quirks.max_submit_dispatches, 0u);
}

TEST(Quirks, AdrenoGetsShortSubmitsAndOneOfThemNoPipelineCache) {
  const std::string driver = "Qualcomm Technologies Inc. Adreno Vulkan Driver";
  const Target newer = able(0x5143, "Adreno (TM) 750", driver, 512u << 22, 0x43051401);
  EXPECT_EQ(newer.quirks.max_submit_dispatches, 32u);
  EXPECT_TRUE(newer.quirks.pipeline_cache);
  EXPECT_FALSE(able(0x5143, "Adreno (TM) 630", driver, 512u << 22, 0x06030001).quirks.pipeline_cache);
  EXPECT_EQ(able(0x5143, "Adreno (TM) 750", "turnip Mesa driver").quirks.max_submit_dispatches, 0u) << "another driver";
  const Target old = able(0x5143, "Adreno (TM) 506", driver, 512u << 22, 0x05000600);
  EXPECT_FALSE(old.caps.shader_float16 || old.caps.subgroup_arithmetic);
}

TEST(Quirks, PowerVrSubmitsOneByOne) {
  const Target target = able(0x1010, "PowerVR D-Series DXT-48-1536 MC1", "PowerVR");
  EXPECT_EQ(target.quirks.max_submit_dispatches, 1u);
  EXPECT_FALSE(target.caps.subgroup_arithmetic);
  EXPECT_TRUE(target.caps.shader_float16);
  EXPECT_FALSE(able(0x1010, "PowerVR C-Series CXTP-48-1536 MC1", "PowerVR").caps.shader_float16);
}

TEST(Quirks, MoltenVkIsMended) {
  Target apple;
  apple.caps.vendor_id = 0x106b;
  apple.caps.driver_name = "MoltenVK";
  apple.caps.max_storage_buffer_range = 0;
  gpu::apply_quirks(apple.caps, apple.quirks);
  EXPECT_EQ(apple.caps.max_storage_buffer_range, 128ull << 20);
  const Target amd = able(0x1002, "AMD Radeon Pro 5500M", "MoltenVK");
  EXPECT_EQ(amd.caps.subgroup_size, 32u);
  EXPECT_FALSE(amd.caps.subgroup_arithmetic || amd.caps.subgroup_shuffle);
}

TEST(Quirks, DriverVersionsBoundThem) {
  const std::string windows = "Intel Corporation";
  EXPECT_FALSE(able(0x8086, "Intel(R) Arc(TM) B580", windows, 101u << 14 | 8859).caps.cooperative_matrix);
  EXPECT_TRUE(able(0x8086, "Intel(R) Arc(TM) B580", windows, 101u << 14 | 8860).caps.cooperative_matrix);
  const std::string mesa = "Intel open-source Mesa driver";
  EXPECT_FALSE(able(0x8086, "Intel(R) Graphics (LNL)", mesa, 24u << 22 | 2u << 12).caps.cooperative_matrix);
  EXPECT_TRUE(able(0x8086, "Intel(R) Graphics (LNL)", mesa, 24u << 22 | 3u << 12).caps.cooperative_matrix);
  EXPECT_FALSE(able(0x8086, "Intel(R) Arc(tm) A770 Graphics (DG2)", mesa, 25u << 22).caps.cooperative_matrix);
  EXPECT_FALSE(able(0x10de, "NVIDIA RTX A2000", "NVIDIA", 495u << 22 | 44u << 14).quirks.pipeline_cache);
  EXPECT_TRUE(able(0x10de, "NVIDIA RTX A2000", "NVIDIA", 510u << 22).quirks.pipeline_cache);
}

TEST(Quirks, OnlyRowsThatChangeSomethingAreListed) {
  Target target;
  target.caps.vendor_id = 0x8086;
  target.caps.driver_name = "Intel open-source Mesa driver";
  gpu::apply_quirks(target.caps, target.quirks);  // no subgroup operations and no matrices to take away
  EXPECT_TRUE(target.quirks.applied.empty());
  EXPECT_TRUE(has(able(0x10de, "NVIDIA H200", "NVIDIA", 580u << 22), "nvidia-unaligned-fills"));
}

}  // namespace
}  // namespace graft::test::quirks_test
