// Texts that are kept in tests/golden and written anew with GRAFT_UPDATE_GOLDEN=1.
#pragma once

#include <string>

namespace graft::test {

/// The text of tests/golden/<file>, line by line.
void expect_golden(const std::string& file, const std::string& text);

}  // namespace graft::test
