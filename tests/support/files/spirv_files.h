// SPIR-V that tests have made, and what the validator says of it.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "tests/support/files/temporary_folder.h"

namespace graft::test {

class SpirvFiles {
 public:
  /// Whether spirv-val (Debian: spirv-tools) is installed.
  static bool can_validate() { return std::system("spirv-val --version > /dev/null 2>&1") == 0; }

  /// A module by a name of its own.
  void add(const std::string& name, std::span<const std::uint32_t> words);
  std::size_t count() const { return count_; }
  /// Fails the test where one of them is not valid; the validator prints which, and why.
  void expect_valid() const;

 private:
  TemporaryFolder folder_;
  std::string paths_;
  std::size_t count_ = 0;
};

}  // namespace graft::test
