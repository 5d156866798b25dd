// Reads .tar.gz archives of test data in memory.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "platform/base/status.h"

namespace graft::test {

/// Contents of every regular file by its path in the archive, without a leading "./".
Result<std::map<std::string, std::vector<std::byte>>> read_tar_gz(const std::string& path);

}  // namespace graft::test
