#include "tests/support/paths.h"

#include <cstdlib>

namespace graft::test {

std::string source_dir() { return GRAFT_SOURCE_DIR; }

std::string test_data(const std::string& file) {
  const char* folder = std::getenv("GRAFT_TEST_DATA");
  return (folder != nullptr ? std::string(folder) : source_dir() + "/../shared/data") + "/" + file;
}

}  // namespace graft::test
