// Kernels over 16-bit elements: every kernel can be made so, for every device, and rounds as the host does.
#include "runtime/exec/narrow_kernel.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "tests/support/temporary_folder.h"

namespace graft {
namespace {

void write_words(const std::string& path, const std::vector<std::uint32_t>& words) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(words.data()), static_cast<std::streamsize>(4 * words.size()));
}

BindingStorage every(Stored stored) {
  BindingStorage all = 0;
  for (std::size_t i = 0; i < kMaxNarrowBindings; ++i) all |= static_cast<BindingStorage>(stored) << (2 * i);
  return all;
}

/// Binding by binding, since those that are used by atomic operations are never kept in 16 bits.
TEST(NarrowKernel, IsValidForEachBindingOfEachKernel) {
  if (std::system("spirv-val --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "spirv-val is not installed";
  const test::TemporaryFolder folder;
  std::string files;
  std::size_t made = 0;
  for (std::uint16_t k = 0; k < static_cast<std::uint16_t>(shaders::KernelId::count_); ++k) {
    const shaders::KernelInfo& info = shaders::kernel_info(static_cast<shaders::KernelId>(k));
    if (info.features != 0) continue;  // newer SPIR-V than the validator of Debian 12 knows
    BindingStorage possible = 0;
    for (std::size_t binding = 0; binding < 8; ++binding) {
      const BindingStorage one = every(Stored::f16) & BindingStorage{3} << (2 * binding);
      if (narrow_kernel(info, one, true).ok()) possible |= BindingStorage{3} << (2 * binding);
    }
    for (const Stored stored : {Stored::f16, Stored::bf16}) {
      for (const bool native : {false, true}) {
        const auto words = narrow_kernel(info, every(stored) & possible, native);
        ASSERT_TRUE(words.ok()) << words.status().message();
        const std::string path = folder.file(cat(info.name, "_", static_cast<int>(stored), native ? "n" : "p", ".spv"));
        write_words(path, *words);
        files += path + "\n";
        ++made;
      }
    }
  }
  EXPECT_GT(made, 300u);
  std::ofstream(folder.file("list")) << files;
  const std::string command = "xargs -n 1 spirv-val --target-env vulkan1.1 < " + folder.file("list");
  EXPECT_EQ(std::system(command.c_str()), 0) << "spirv-val names what is wrong above";
}

TEST(NarrowKernel, LeavesOtherBindingsAlone) {
  const shaders::KernelInfo& info = shaders::kernel_info(shaders::KernelId::accumulate__f32);
  const auto same = narrow_kernel(info, 0, true);
  ASSERT_TRUE(same.ok());
  const auto other = narrow_kernel(info, every(Stored::f16), true);
  ASSERT_TRUE(other.ok());
  EXPECT_NE(*same, *other);
}

TEST(NarrowKernel, SaysWhatItCannotDo) {
  const auto cut = narrow_kernel({"cut", shaders::kernel_info(shaders::KernelId::accumulate__f32).spirv.first(40)},
                                 every(Stored::f16), true);
  EXPECT_FALSE(cut.ok());
}

}  // namespace
}  // namespace graft
