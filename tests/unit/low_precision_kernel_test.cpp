// ctest: middle
// Kernels over 16-bit elements: every kernel can be made so, for every device, and rounds as the host does.
#include "runtime/kernels/low_precision_kernel.h"

#include <gtest/gtest.h>

#include "shaders/kernels.gen.h"
#include "tests/support/files/spirv_files.h"

namespace graft::low_precision_kernel_test {
namespace {

BindingStorage every(Stored stored) {
  BindingStorage all = 0;
  for (std::size_t i = 0; i < kMaxLowPrecisionBindings; ++i) all |= static_cast<BindingStorage>(stored) << (2 * i);
  return all;
}

/// Binding by binding, since those that are used by atomic operations are never kept in 16 bits.
TEST(LowPrecisionKernel, IsValidForEachBindingOfEachKernel) {
  if (!test::SpirvFiles::can_validate()) GTEST_SKIP() << "spirv-val is not installed";
  test::SpirvFiles files;
  for (std::uint16_t k = 0; k < static_cast<std::uint16_t>(shaders::KernelId::count_); ++k) {
    const shaders::KernelInfo& info = shaders::kernel_info(static_cast<shaders::KernelId>(k));
    if (info.features != 0) continue;  // newer SPIR-V than the validator of Debian 12 knows
    BindingStorage possible = 0;
    for (std::size_t binding = 0; binding < 8; ++binding) {
      const BindingStorage one = every(Stored::f16) & BindingStorage{3} << (2 * binding);
      if (low_precision_kernel(info, one, true).ok()) possible |= BindingStorage{3} << (2 * binding);
    }
    for (const Stored stored : {Stored::f16, Stored::bf16}) {
      for (const bool native : {false, true}) {
        const auto words = low_precision_kernel(info, every(stored) & possible, native);
        ASSERT_TRUE(words.ok()) << words.status().message();
        files.add(cat(info.name, "_", static_cast<int>(stored), native ? "n" : "p"), *words);
      }
    }
  }
  EXPECT_GT(files.count(), 300u);
  files.expect_valid();
}

TEST(LowPrecisionKernel, LeavesOtherBindingsAlone) {
  const shaders::KernelInfo& info = shaders::kernel_info(shaders::KernelId::accumulate__f32);
  const auto same = low_precision_kernel(info, 0, true);
  ASSERT_TRUE(same.ok());
  const auto other = low_precision_kernel(info, every(Stored::f16), true);
  ASSERT_TRUE(other.ok());
  EXPECT_NE(*same, *other);
}

TEST(LowPrecisionKernel, SaysWhatItCannotDo) {
  const auto cut = low_precision_kernel(shaders::kernel_info(shaders::KernelId::accumulate__f32).spirv().first(40),
                                        every(Stored::f16), true);
  EXPECT_FALSE(cut.ok());
}

}  // namespace
}  // namespace graft::low_precision_kernel_test
