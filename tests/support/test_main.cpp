// main() of the programs that hold a folder's tests; all of gtest's flags work beside these:
//   --from=FILE_test.cpp   the tests of that file alone, as ctest's entries do
//   --sample=N, --rest=N   of their tables, every Nth case, or all others: each costs a pipeline. A test that is no
//                          case of a table is in the sample
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <string_view>

namespace {

constexpr std::string_view kFrom = "--from=", kSample = "--sample=", kRest = "--rest=";

struct Part {
  int every = 1;
  bool rest = false;  ///< not each `every`th, but the others
};

/// Of --sample=N or --rest=N; 0 where N is no number from 2 to 9.
int every(std::string_view n) { return n.size() == 1 && n[0] >= '2' && n[0] <= '9' ? n[0] - '0' : 0; }

// gtest's filter for the tests of a file; empty where it has none.
std::string tests_of(std::string_view file, Part part) {
  std::string filter;
  int number = 0;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int s = 0; s < all.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *all.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const testing::TestInfo& test = *suite.GetTestInfo(t);
      const std::string_view path = test.file();
      if (path != file && !path.ends_with("/" + std::string(file))) continue;
      // What is no case of a table is in every sample: it stands for itself.
      const bool sampled = test.value_param() == nullptr || number++ % part.every == 0;
      if (sampled == part.rest) continue;
      filter += (filter.empty() ? "" : ":") + std::string(suite.name()) + "." + test.name();
    }
  }
  return filter;
}

int refuse(const char* argument, const char* reason) {
  std::fprintf(stderr, "\"%s\" %s.\n", argument, reason);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const char* file = nullptr;
  Part part;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with(kFrom)) {
      file = argv[i] + kFrom.size();
    } else if (argument.starts_with(kSample)) {
      part = {every(argument.substr(kSample.size())), false};
    } else if (argument.starts_with(kRest)) {
      part = {every(argument.substr(kRest.size())), true};
    } else {
      return refuse(argv[i], "is no flag of this program");
    }
    if (part.every == 0) return refuse(argv[i], "takes a number from 2 to 9");
  }
  if (file == nullptr && part.every != 1) return refuse("--sample", "or --rest is of one file: give --from as well");
  if (file != nullptr) {
    const std::string filter = tests_of(file, part);
    if (filter.empty() && !tests_of(file, {}).empty()) return 0;  // a file of one test leaves no rest
    if (filter.empty()) return refuse(file, "names no file whose tests this program holds");
    // A filter that the caller gave picks from all tests.
    if (GTEST_FLAG_GET(filter) == "*") GTEST_FLAG_SET(filter, filter);
  }
  return RUN_ALL_TESTS();
}
