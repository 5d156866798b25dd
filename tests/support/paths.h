// Where the tests' files lie.
#pragma once

#include <string>

namespace graft::test {

/// The project's folder, without a slash at its end.
std::string source_dir();
/// The shared test data: GRAFT_TEST_DATA, or ../shared/data beside the project.
std::string test_data(const std::string& file);

}  // namespace graft::test
