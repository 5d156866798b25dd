// Several texts at once through the C ABI; the story model's, where it is there.
#include <map>

#include "graft/convert.h"
#include "platform/os/file.h"
#include "tests/support/c_api.h"
#include "tests/support/letter_model.h"
#include "tests/support/paths.h"

namespace graft::test::c_api_batch_test {
namespace {

class CBatch : public testing::Test {
 protected:
  void SetUp() override {
    const auto options = context_options(device_);
    const graft_status made = graft_context_create(&options, &h_.context);
    if (made == GRAFT_NOT_FOUND) GTEST_SKIP() << h_.message();
    ASSERT_EQ(made, GRAFT_OK) << h_.message();
  }
  void TearDown() override {
    graft_generator_destroy(one_);
    graft_generator_destroy(several_);
  }
  void load_letters() {
    const std::string path = folder_.file("decoder.graft");
    ASSERT_TRUE(save_model(os::system_files(), path, letter_model()).ok());
    ASSERT_EQ(graft_model_load(h_.context, path.c_str(), &h_.model), GRAFT_OK) << h_.message();
  }
  void make(std::uint32_t sequences) {
    auto wanted = sized<graft_generator_options>();
    ASSERT_EQ(graft_generator_create(h_.model, &wanted, &one_), GRAFT_OK) << h_.message();
    wanted.sequences = sequences;
    ASSERT_EQ(graft_generator_create(h_.model, &wanted, &several_), GRAFT_OK) << h_.message();
  }
  /// What `prompts` give, each alone and several at once.
  void compare(const std::vector<std::string>& prompts, const graft_generate_options& options) {
    std::map<std::uint64_t, std::string> alone, together;
    for (const std::string& prompt : prompts) {
      const char* text = nullptr;
      std::size_t bytes = 0;
      ASSERT_EQ(graft_generate(one_, prompt.c_str(), &options, &text, &bytes), GRAFT_OK) << h_.message();
      std::uint64_t id = 0;
      ASSERT_EQ(graft_generator_submit(several_, prompt.c_str(), &options, &id), GRAFT_OK) << h_.message();
      alone[id] = std::string(text, bytes);
    }
    for (std::size_t left = 1; left != 0;) {
      ASSERT_EQ(graft_generator_step(several_, &left), GRAFT_OK) << h_.message();
      auto text = sized<graft_generated>();
      std::uint64_t id = 0;
      while (graft_generator_finished(several_, &id, &text) == GRAFT_OK && id != 0) {
        together[id] = std::string(text.text, text.bytes);
        text = sized<graft_generated>();
      }
    }
    EXPECT_EQ(together, alone);
    EXPECT_EQ(alone.size(), prompts.size());
  }

  TemporaryFolder folder_;
  std::string device_;
  CHandles h_;
  graft_generator* one_ = nullptr;
  graft_generator* several_ = nullptr;
};

TEST_F(CBatch, TextsAreWhatTheyAreAlone) {
  load_letters();
  make(3);
  auto options = sized<graft_generate_options>();
  options.max_tokens = 10;
  options.temperature = 0.9;
  options.seed = 5;
  compare({"abc", "a", "ponmlkj", "abcd", "bb"}, options);
  auto info = sized<graft_generator_info>();
  ASSERT_EQ(graft_generator_describe(several_, &info), GRAFT_OK) << h_.message();
  EXPECT_EQ(info.sequences, 3u);
  int agree = 7;
  ASSERT_EQ(graft_generator_rows_agree(several_, &agree), GRAFT_OK) << h_.message();
  EXPECT_TRUE(agree == 0 || agree == 1) << agree << ": the device's to know";
  std::uint64_t id = 0;
  ASSERT_EQ(graft_generator_submit(several_, "a", &options, &id), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_generator_rows_agree(several_, &agree), GRAFT_OK) << "it is known by now";
}

TEST_F(CBatch, SaysWhatIsWrong) {
  load_letters();
  make(2);
  std::uint64_t id = 7;
  EXPECT_EQ(graft_generator_submit(one_, "abc", nullptr, &id), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(id, 0u);
  EXPECT_NE(h_.message().find("one text after the other"), std::string::npos) << h_.message();
  EXPECT_EQ(graft_generator_step(one_, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_generator_finished(one_, &id, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_generator_drop(one_, 1), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_generator_submit(several_, "abc", nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_generator_submit(several_, nullptr, nullptr, &id), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_generator_submit_tokens(several_, nullptr, 2, nullptr, &id), GRAFT_INVALID_ARGUMENT);
  const std::int32_t unknown[] = {1, 99};
  EXPECT_EQ(graft_generator_submit_tokens(several_, unknown, 2, nullptr, &id), GRAFT_INVALID_ARGUMENT);
  EXPECT_NE(h_.message().find("token 99"), std::string::npos) << h_.message();
  EXPECT_EQ(graft_generator_drop(several_, 1), GRAFT_NOT_FOUND);
  EXPECT_EQ(graft_generator_finished(several_, &id, nullptr), GRAFT_OK);
  EXPECT_EQ(id, 0u);
  std::size_t left = 5;
  EXPECT_EQ(graft_generator_step(several_, &left), GRAFT_OK) << "there is nothing to do";
  EXPECT_EQ(left, 0u);
  // One text's own error, and another beside it that goes on.
  auto options = sized<graft_generate_options>();
  options.max_tokens = 3;
  std::uint64_t good = 0, bad = 0;
  ASSERT_EQ(graft_generator_submit(several_, "abc", &options, &good), GRAFT_OK) << h_.message();
  options.grammar = "root ::= \"xyz\"";  // which no token spells
  ASSERT_EQ(graft_generator_submit(several_, "abc", &options, &bad), GRAFT_OK) << h_.message();
  for (left = 1; left != 0;) ASSERT_EQ(graft_generator_step(several_, &left), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_generator_finished(several_, &id, nullptr), GRAFT_UNSUPPORTED);
  EXPECT_EQ(id, bad);
  EXPECT_NE(h_.message().find("as the grammar asks"), std::string::npos) << h_.message();
  auto text = sized<graft_generated>();
  EXPECT_EQ(graft_generator_finished(several_, &id, &text), GRAFT_OK);
  EXPECT_EQ(id, good);
  EXPECT_EQ(text.token_count, 3u);
  auto impossible = sized<graft_generator_options>();
  impossible.sequences = 2;
  impossible.prompt_lookup = 3;
  graft_generator* none = nullptr;
  EXPECT_EQ(graft_generator_create(h_.model, &impossible, &none), GRAFT_UNSUPPORTED);
}

TEST_F(CBatch, StoriesAreWhatTheyAreAlone) {
  const std::string from = test_data("llm-tinystories-656k");
  if (!os::exists(os::system_files(), from + "/config.json")) GTEST_SKIP() << "There is no " << from << ".";
  const std::string path = folder_.file("story.graft");
  graft_conversion* conversion = nullptr;
  const graft_status converted = graft_convert(from.c_str(), nullptr, path.c_str(), &conversion);
  EXPECT_EQ(converted, GRAFT_OK) << graft_conversion_message(conversion);
  graft_conversion_destroy(conversion);
  ASSERT_EQ(graft_model_load(h_.context, path.c_str(), &h_.model), GRAFT_OK) << h_.message();
  make(4);
  auto options = sized<graft_generate_options>();
  options.max_tokens = 24;
  compare({"Once upon a time", "Once upon a time, there was a little girl named Lily", "The dog",
           "Tom and Mia went to the park. They saw", "One day, a big bear", "Once upon a time, there was a boy"},
          options);
}

}  // namespace
}  // namespace graft::test::c_api_batch_test
