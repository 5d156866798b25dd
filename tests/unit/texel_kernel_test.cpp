// ctest: middle
// Buffers read as texels: every kernel can be made so (unit/exec_network compares the bits).
#include "runtime/kernels/texel_kernel.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "platform/gpu/quirks.h"
#include "runtime/kernels/wide_kernel.h"
#include "shaders/kernels.gen.h"
#include "tests/support/files/spirv_files.h"

namespace graft::texel_kernel_test {
namespace {

constexpr std::uint32_t kBindings = 16;

TEST(TexelKernel, IsValidForEachKernel) {
  if (!test::SpirvFiles::can_validate()) GTEST_SKIP() << "spirv-val is not installed";
  test::SpirvFiles files;
  for (std::uint16_t k = 0; k < static_cast<std::uint16_t>(shaders::KernelId::count_); ++k) {
    const shaders::KernelInfo& info = shaders::kernel_info(static_cast<shaders::KernelId>(k));
    if (info.features != 0) continue;  // newer SPIR-V than the validator of Debian 12 knows
    const TexelKernel kernel = read_texels(info.spirv(), kBindings);
    EXPECT_EQ(kernel.views.empty(), std::ranges::equal(kernel.words, info.spirv())) << info.name;
    for (const gpu::TexelView& view : kernel.views) {
      EXPECT_LT(view.binding, kBindings) << info.name;
      EXPECT_TRUE(view.words == 1 || view.words == 2 || view.words == 4) << info.name;
    }
    if (kernel.views.empty()) continue;
    files.add(std::string(info.name), kernel.words);
    files.add(std::string(info.name) + "_wide", widen_vectors(kernel.words));
  }
  EXPECT_GT(files.count(), 200u);
  files.expect_valid();
}

TEST(TexelKernel, ReadsAVectorAndANumberByViewsOfTheirOwn) {
  const TexelKernel kernel = read_texels(shaders::kernel_info(shaders::KernelId::matmul__f32_shuffle).spirv(), 4);
  const auto has = [&](std::uint32_t binding, std::uint32_t words) {
    return std::ranges::any_of(
        kernel.views, [&](const gpu::TexelView& view) { return view.binding == binding && view.words == words; });
  };
  EXPECT_TRUE(has(0, 1) && has(0, 4) && has(1, 1) && has(1, 4));
  EXPECT_FALSE(has(3, 1) || has(3, 4)) << "is written";
}

TEST(TexelKernel, LeavesOthersAlone) {
  const auto same = [](std::span<const std::uint32_t> words) {
    const TexelKernel kernel = read_texels(words, kBindings);
    return kernel.views.empty() && std::ranges::equal(kernel.words, words);
  };
  const std::span<const std::uint32_t> reads = shaders::kernel_info(shaders::KernelId::matmul__f32).spirv();
  EXPECT_FALSE(same(reads));
  EXPECT_TRUE(same(shaders::kernel_info(shaders::KernelId::fill_words__w32).spirv())) << "reads nothing";
  EXPECT_TRUE(same(reads.first(3))) << "is no module";
  std::vector<std::uint32_t> cut(reads.begin(), reads.end());
  cut.push_back(9u << 16 | 61u);
  EXPECT_TRUE(same(cut)) << "is cut short";
  std::vector<std::uint32_t> newer(reads.begin(), reads.end());
  newer[1] = 0x00010400;
  EXPECT_TRUE(same(newer)) << "would name its textures at the entry point";
}

TEST(TexelKernel, IsForAllButAFewThatLoseByIt) {
  const auto gains = [](shaders::KernelId kernel) { return gains_by_texels(shaders::kernel_info(kernel).name); };
  EXPECT_TRUE(gains(shaders::KernelId::matmul__f32_shuffle));
  EXPECT_TRUE(gains(shaders::KernelId::max_pool__f32));
  EXPECT_FALSE(gains(shaders::KernelId::max_pool_grad__f32));
  EXPECT_FALSE(gains(shaders::KernelId::avg_pool_grad__f32));
  EXPECT_FALSE(gains(shaders::KernelId::transpose_blocks__w32));
}

TEST(TexelKernel, IsForLlvmpipeOfTheMesaThatWasMeasured) {
  gpu::Caps caps;
  caps.type = gpu::DeviceType::cpu;
  caps.device_name = "llvmpipe (LLVM 15.0.6, 256 bits)";
  caps.driver_info = "Mesa 22.3.6 (LLVM 15.0.6)";
  caps.max_storage_buffer_range = 128u << 20;
  caps.max_texel_buffer_elements = 128u << 20;
  EXPECT_TRUE(gpu::reads_texels(caps));
  const auto with = [&](auto&& change) {
    gpu::Caps other = caps;
    change(other);
    return gpu::reads_texels(other);
  };
  EXPECT_FALSE(with([](gpu::Caps& c) { c.driver_info = "Mesa 26.2.6-1 (LLVM 22.1.8)"; }));
  EXPECT_FALSE(with([](gpu::Caps& c) { c.driver_info = "Mesa 22.2.5 (LLVM 15.0.6)"; }));
  EXPECT_FALSE(with([](gpu::Caps& c) { c.driver_info = "SwiftShader"; }));
  EXPECT_FALSE(with([](gpu::Caps& c) { c.max_texel_buffer_elements = 65536; }));
  EXPECT_FALSE(with([](gpu::Caps& c) { c.device_name = "AMD Radeon"; }));
  EXPECT_FALSE(with([](gpu::Caps& c) { c.type = gpu::DeviceType::discrete; }));
}

}  // namespace
}  // namespace graft::texel_kernel_test
