#include "tests/support/files/spirv_files.h"

#include <gtest/gtest.h>

#include <fstream>

namespace graft::test {

void SpirvFiles::add(const std::string& name, std::span<const std::uint32_t> words) {
  const std::string path = folder_.file(name + ".spv");
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(words.data()), static_cast<std::streamsize>(words.size_bytes()));
  paths_ += path + "\n";
  ++count_;
}

void SpirvFiles::expect_valid() const {
  const std::string list = folder_.file("list");
  std::ofstream(list) << paths_;
  EXPECT_EQ(std::system(("xargs -n 1 spirv-val --target-env vulkan1.1 < " + list).c_str()), 0)
      << "spirv-val names what is wrong above";
}

}  // namespace graft::test
