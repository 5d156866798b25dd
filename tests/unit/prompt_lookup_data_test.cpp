// ctest: long
// Drafts change nothing of what a real model says: 200 prompts.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "graft/convert.h"
#include "platform/os/file.h"
#include "tests/support/c_api.h"
#include "tests/support/paths.h"

namespace graft::test::prompt_lookup_data_test {
namespace {

/// Questions to tables, and stories of which a part stands there twice.
std::vector<std::string> prompts(const std::string& lines) {
  std::vector<std::string> out;
  for (std::size_t begin = 0; out.size() < 200 && begin < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', begin), lines.size());
    const std::string text = nlohmann::json::parse(lines.substr(begin, end - begin))["text"];
    begin = end + 1;
    const std::string half = text.substr(0, text.size() / 2);
    out.push_back(out.size() % 2 == 0 ? text : text + "\n" + half);
  }
  return out;
}

TEST(PromptLookupData, TwoHundredPromptsGiveTheTextThatTheyGiveWithout) {
  const std::string folder = test_data("llm-tinystories-656k");
  const std::string data = test_data("text-lora-wikisql/train.jsonl");
  for (const std::string& path : {folder + "/config.json", data}) {
    if (!os::exists(os::system_files(), path)) GTEST_SKIP() << "There is no " << path << ".";
  }
  const TemporaryFolder scratch;
  CHandles h;
  std::string device;
  const auto options = context_options(device);
  const graft_status opened = graft_context_create(&options, &h.context);
  if (opened == GRAFT_NOT_FOUND) GTEST_SKIP() << h.message();
  ASSERT_EQ(opened, GRAFT_OK) << h.message();
  const std::string path = scratch.file("story.graft");
  graft_conversion* conversion = nullptr;
  const graft_status converted = graft_convert(folder.c_str(), nullptr, path.c_str(), &conversion);
  EXPECT_EQ(converted, GRAFT_OK) << graft_conversion_message(conversion);
  graft_conversion_destroy(conversion);
  ASSERT_EQ(graft_model_load(h.context, path.c_str(), &h.model), GRAFT_OK) << h.message();

  graft_generator* plain = nullptr;
  graft_generator* ahead = nullptr;
  auto wanted = sized<graft_generator_options>();
  ASSERT_EQ(graft_generator_create(h.model, &wanted, &plain), GRAFT_OK) << h.message();
  wanted.prompt_lookup = 3;
  ASSERT_EQ(graft_generator_create(h.model, &wanted, &ahead), GRAFT_OK) << h.message();
  const auto lines = os::read_text_file(os::system_files(), data, 64 << 20);
  ASSERT_TRUE(lines.ok());
  const std::vector<std::string> all = prompts(*lines);
  ASSERT_EQ(all.size(), 200u);
  auto generate = sized<graft_generate_options>();
  generate.max_tokens = 32;
  std::uint64_t drafted = 0, right = 0, tokens = 0;
  double plain_ms = 0, ahead_ms = 0;
  for (const std::string& prompt : all) {
    const char* text = nullptr;
    ASSERT_EQ(graft_generate(plain, prompt.c_str(), &generate, &text, nullptr), GRAFT_OK) << h.message();
    const std::string expected = text;
    auto last = sized<graft_generated>();
    ASSERT_EQ(graft_generator_last(plain, &last), GRAFT_OK);
    const std::vector<std::int32_t> ids(last.tokens, last.tokens + last.token_count);
    plain_ms += last.generated_ms;
    ASSERT_EQ(graft_generate(ahead, prompt.c_str(), &generate, &text, nullptr), GRAFT_OK) << h.message();
    EXPECT_EQ(expected, text);
    ASSERT_EQ(graft_generator_last(ahead, &last), GRAFT_OK);
    EXPECT_EQ(ids, std::vector<std::int32_t>(last.tokens, last.tokens + last.token_count)) << prompt;
    ahead_ms += last.generated_ms;
    drafted += last.drafted_tokens;
    right += last.right_drafts;
    tokens += last.token_count;
  }
  std::printf("%llu tokens: %.0f ms without drafts, %.0f ms with; of %llu drafted %llu right\n",
              static_cast<unsigned long long>(tokens), plain_ms, ahead_ms, static_cast<unsigned long long>(drafted),
              static_cast<unsigned long long>(right));
  EXPECT_GT(right, 0u);
  graft_generator_destroy(plain);
  graft_generator_destroy(ahead);
}

}  // namespace
}  // namespace graft::test::prompt_lookup_data_test
