// graft/cache.h: what a context remembers in the app's folder.
#include "graft/cache.h"

#include <filesystem>
#include <string>

#include "tests/support/c_api.h"

namespace graft::test::c_api_cache_test {
namespace {

TEST_F(CApi, ACacheFolderKeepsVerdictsAndPipelines) {
  auto options = sized<graft_cache_options>();
  EXPECT_EQ(graft_context_open_cache(h_.context, &options), GRAFT_INVALID_ARGUMENT) << "no folder";
  const std::string cache = folder_.file("cache");
  options.folder = cache.c_str();
  ASSERT_EQ(graft_context_open_cache(h_.context, &options), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_context_open_cache(h_.context, &options), GRAFT_INVALID_ARGUMENT) << "once";
  ASSERT_EQ(open_session(), GRAFT_OK) << h_.message();

  std::string verdicts;
  for (const auto& entry : std::filesystem::directory_iterator(cache)) {
    if (entry.path().extension() != ".txt") continue;
    verdicts = os::read_text_file(os::system_files(), entry.path().string(), 1 << 20).value();
  }
  EXPECT_NE(verdicts.find("\npassed\t"), std::string::npos) << verdicts;
  EXPECT_EQ(verdicts.find("\nfailed\t"), std::string::npos) << verdicts;

  h_.destroy_parts();
  graft_context_destroy(h_.context);
  h_.context = nullptr;
  bool pipelines = false;
  for (const auto& entry : std::filesystem::directory_iterator(cache)) {
    pipelines = pipelines || entry.path().extension() == ".pipelines";
  }
  EXPECT_TRUE(pipelines);
}

TEST_F(CApi, ACacheFolderThatCannotBeUsedDoesNoHarm) {
  const std::string file = folder_.write("file", "not a folder");
  auto options = sized<graft_cache_options>();
  options.folder = file.c_str();
  options.skip_self_test = 1;
  ASSERT_EQ(graft_context_open_cache(h_.context, &options), GRAFT_OK) << h_.message();
  EXPECT_EQ(open_session(), GRAFT_OK) << h_.message();
}

}  // namespace
}  // namespace graft::test::c_api_cache_test
