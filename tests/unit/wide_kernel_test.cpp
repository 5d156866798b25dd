// Vectors as pairs of 64-bit integers: every kernel can be made so (unit/exec_network compares the bits).
#include "runtime/kernels/wide_kernel.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "shaders/kernels.gen.h"
#include "tests/support/files/spirv_files.h"

namespace graft::wide_kernel_test {
namespace {

TEST(WideKernel, IsValidForEachKernel) {
  if (!test::SpirvFiles::can_validate()) GTEST_SKIP() << "spirv-val is not installed";
  test::SpirvFiles files;
  for (std::uint16_t k = 0; k < static_cast<std::uint16_t>(shaders::KernelId::count_); ++k) {
    const shaders::KernelInfo& info = shaders::kernel_info(static_cast<shaders::KernelId>(k));
    if (info.features != 0) continue;  // newer SPIR-V than the validator of Debian 12 knows
    const std::vector<std::uint32_t> words = widen_vectors(info.spirv());
    if (std::ranges::equal(words, info.spirv())) continue;
    files.add(std::string(info.name), words);
  }
  EXPECT_GT(files.count(), 50u);
  files.expect_valid();
}

TEST(WideKernel, LeavesOthersAlone) {
  const auto same = [](std::span<const std::uint32_t> words) {
    return std::ranges::equal(widen_vectors(words), words);
  };
  const std::span<const std::uint32_t> vectors =
      shaders::kernel_info(shaders::KernelId::conv_depthwise_window__f32).spirv();
  EXPECT_FALSE(same(vectors));
  EXPECT_TRUE(same(shaders::kernel_info(shaders::KernelId::conv_naive__f32).spirv())) << "has no vectors";
  EXPECT_TRUE(same(vectors.first(3))) << "is no module";
  std::vector<std::uint32_t> cut(vectors.begin(), vectors.end());
  cut.push_back(9u << 16 | 61u);
  EXPECT_TRUE(same(cut)) << "is cut short";
  std::vector<std::uint32_t> newer(vectors.begin(), vectors.end());
  newer[1] = 0x00010400;
  EXPECT_TRUE(same(newer)) << "would name its buffers at the entry point";
}

TEST(WideKernel, IsForCpuDevicesWith64BitIntegers) {
  gpu::Caps caps;
  caps.type = gpu::DeviceType::cpu;
  caps.shader_int64 = true;
  EXPECT_TRUE(wants_wide_vectors(caps));
  caps.shader_int64 = false;
  EXPECT_FALSE(wants_wide_vectors(caps));
  caps.shader_int64 = true;
  caps.type = gpu::DeviceType::discrete;
  EXPECT_FALSE(wants_wide_vectors(caps));
}

}  // namespace
}  // namespace graft::wide_kernel_test
