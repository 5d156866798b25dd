// main() of the programs that hold a folder's tests. --from=FILE_test.cpp runs the tests of that file alone, as ctest's
// entries do; all of gtest's flags work beside it.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <string_view>

namespace {

constexpr std::string_view kFrom = "--from=";

// gtest's filter for every test of a file; empty where it has none.
std::string tests_of(std::string_view file) {
  std::string filter;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int s = 0; s < all.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *all.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const testing::TestInfo& test = *suite.GetTestInfo(t);
      const std::string_view path = test.file();
      if (path != file && !path.ends_with("/" + std::string(file))) continue;
      filter += (filter.empty() ? "" : ":") + std::string(suite.name()) + "." + test.name();
    }
  }
  return filter;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (!argument.starts_with(kFrom)) {
      std::fprintf(stderr, "\"%s\" is no flag of this program; --from=FILE_test.cpp and gtest's are.\n", argv[i]);
      return 2;
    }
    const std::string filter = tests_of(argument.substr(kFrom.size()));
    if (filter.empty()) {
      std::fprintf(stderr, "\"%s\" names no file whose tests this program holds.\n", argv[i]);
      return 2;
    }
    // A filter that the caller gave picks from all tests.
    if (GTEST_FLAG_GET(filter) == "*") GTEST_FLAG_SET(filter, filter);
  }
  return RUN_ALL_TESTS();
}
