#include "tests/support/files/golden.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "tests/support/paths.h"

namespace graft::test {

void expect_golden(const std::string& file, const std::string& text) {
  const std::string path = source_dir() + "/tests/golden/" + file;
  if (std::getenv("GRAFT_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << text;
    return;
  }
  std::ifstream golden(path);
  ASSERT_TRUE(golden) << path;
  EXPECT_EQ(text, std::string(std::istreambuf_iterator<char>(golden), {}))
      << "GRAFT_UPDATE_GOLDEN=1 writes " << path << " anew: look at what changes there, and say why in the commit.";
}

}  // namespace graft::test
