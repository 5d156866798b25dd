// Reads .tar.gz archives of test data in memory.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "platform/base/status.h"

namespace graft::test {

/// Contents of every regular file by its path in the archive, without a leading "./".
Result<std::map<std::string, std::vector<std::byte>>> read_tar_gz(const std::string& path);

#ifdef GRAFT_SOURCE_DIR
/// Where the shared test data lies: GRAFT_TEST_DATA, or ../shared/data beside the repository.
inline std::string test_data(const std::string& file) {
  const char* folder = std::getenv("GRAFT_TEST_DATA");
  return (folder != nullptr ? std::string(folder) : std::string(GRAFT_SOURCE_DIR) + "/../shared/data") + "/" + file;
}
#endif

}  // namespace graft::test
