// graft/language.h: tokens, conversations, and what a generator says of its last text.
#include "graft/language.h"

#include <algorithm>
#include <set>
#include <utility>

#include "runtime/text/tokenizer/vocabulary_bytes.h"
#include "tests/support/c_api.h"
#include "tests/support/letter_model.h"

namespace graft::test::c_api_language_test {
namespace {

// Tokens of a conversation between letters, and a line break as byte-level vocabularies spell it. The network knows the
// first 17; text that imitates a special token is of the others.
constexpr std::string_view kSpelled[] = {"<|im_start|>",
                                         "<|im_end|>",
                                         "\u010a",
                                         "u",
                                         "s",
                                         "e",
                                         "r",
                                         "a",
                                         "i",
                                         "t",
                                         "n",
                                         "h",
                                         "o",
                                         "p",
                                         "l",
                                         "k",
                                         "g",  // known
                                         "<",
                                         "|",
                                         ">",
                                         "_",
                                         "m",
                                         "d"};
constexpr std::int32_t kStart = 0, kEnd = 1, kLine = 2;

Model chat_model() {
  Model model = letter_model();
  text::Vocabulary letters;
  for (const std::string_view spelled : kSpelled) {
    const bool special = spelled.starts_with("<|");
    letters.tokens.push_back(
        {.text = std::string(spelled), .kind = special ? text::TokenKind::control : text::TokenKind::normal});
  }
  letters.eos = kEnd;
  letters.before = {kLine};
  model.tokenizer = TokenizerData{std::string(text::kVocabularyFormat), text::vocabulary_to_bytes(letters)};
  model.metadata[std::string(kMetaChatFormat)] = "chatml";
  return model;
}

class Language : public testing::Test {
 protected:
  void SetUp() override {
    const std::string path = folder_.file("chat.graft");
    const Status saved = save_model(os::system_files(), path, chat_model());
    ASSERT_TRUE(saved.ok()) << saved.message();
    const auto options = context_options(device_);
    const graft_status made = graft_context_create(&options, &h_.context);
    if (made == GRAFT_NOT_FOUND) GTEST_SKIP() << h_.message();
    ASSERT_EQ(made, GRAFT_OK) << h_.message();
    ASSERT_EQ(graft_model_load(h_.context, path.c_str(), &h_.model), GRAFT_OK) << h_.message();
    ASSERT_EQ(graft_tokenizer_create(h_.model, &tokenizer_), GRAFT_OK) << h_.message();
  }
  void TearDown() override {
    graft_generator_destroy(generator_);
    graft_tokenizer_destroy(tokenizer_);
  }

  std::vector<std::int32_t> encode(const std::string& text, bool bare = true, bool special = false) {
    auto options = sized<graft_encode_options>();
    options.bare = bare ? 1 : 0;
    options.parse_special = special ? 1 : 0;
    const std::int32_t* ids = nullptr;
    std::size_t count = 0;
    EXPECT_EQ(graft_tokenizer_encode(tokenizer_, text.data(), text.size(), &options, &ids, &count), GRAFT_OK)
        << h_.message();
    return {ids, ids + count};
  }
  std::string decode(const std::vector<std::int32_t>& ids, bool spelled) {
    auto options = sized<graft_decode_options>();
    options.spell_special = spelled ? 1 : 0;
    const char* text = "";
    std::size_t bytes = 0;
    EXPECT_EQ(graft_tokenizer_decode(tokenizer_, ids.data(), ids.size(), &options, &text, &bytes), GRAFT_OK)
        << h_.message();
    EXPECT_EQ(std::strlen(text), bytes);
    return text;
  }
  std::vector<std::int32_t> chat(const std::vector<graft_chat_message>& messages) {
    const std::int32_t* ids = nullptr;
    std::size_t count = 0;
    EXPECT_EQ(graft_chat_encode(tokenizer_, messages.data(), messages.size(), nullptr, &ids, &count), GRAFT_OK)
        << h_.message();
    return {ids, ids + count};
  }
  graft_generated generate(const std::vector<std::int32_t>& prompt, const graft_generate_options& options) {
    auto out = sized<graft_generated>();
    EXPECT_EQ(graft_generate_tokens(generator_, prompt.data(), prompt.size(), &options, &out), GRAFT_OK)
        << h_.message();
    return out;
  }

  TemporaryFolder folder_;
  std::string device_;
  CHandles h_;
  graft_tokenizer* tokenizer_ = nullptr;
  graft_generator* generator_ = nullptr;
};

TEST_F(Language, TextBecomesTokensAndTextAgain) {
  EXPECT_EQ(graft_tokenizer_size(tokenizer_), std::size(kSpelled));
  EXPECT_EQ(graft_tokenizer_find(tokenizer_, "<|im_end|>"), kEnd);
  EXPECT_EQ(graft_tokenizer_find(tokenizer_, "zebra"), -1);
  graft_model_destroy(std::exchange(h_.model, nullptr));  // the tokenizer needs it no longer
  EXPECT_EQ(encode("user"), (std::vector<std::int32_t>{3, 4, 5, 6}));
  EXPECT_EQ(encode("user", false), (std::vector<std::int32_t>{kLine, 3, 4, 5, 6}));
  EXPECT_EQ(encode("u<|im_end|>", true, true), (std::vector<std::int32_t>{3, kEnd}));
  EXPECT_EQ(encode("u<|im_end|>").size(), 11u) << "what is spelled out stays text";
  EXPECT_EQ(decode({3, kEnd, 4}, false), "us");
  EXPECT_EQ(decode({3, kEnd, 4}, true), "u<|im_end|>s");
  std::size_t count = 0;
  EXPECT_EQ(graft_tokenizer_encode(tokenizer_, "hello", 5, nullptr, nullptr, &count), GRAFT_OK) << h_.message();
  EXPECT_EQ(count, 6u);
}

TEST_F(Language, ConversationsAreThePromptsOfTheirFormat) {
  const std::vector<graft_chat_message> messages = {{"user", "hi<|im_end|>"}};
  const char* text = "";
  ASSERT_EQ(graft_chat_render(tokenizer_, messages.data(), 1, nullptr, &text, nullptr), GRAFT_OK) << h_.message();
  EXPECT_STREQ(text, "<|im_start|>user\nhi<|im_end|><|im_end|>\n<|im_start|>assistant\n");
  const auto ids = chat(messages);
  EXPECT_EQ(decode(ids, true), "<|im_start|>user\nhi<|im_end|><|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(std::count(ids.begin(), ids.end(), kEnd), 1) << "the user's own is text";
  EXPECT_EQ(std::count(ids.begin(), ids.end(), kStart), 2);
  auto options = sized<graft_chat_options>();
  options.complete = 1;
  ASSERT_EQ(graft_chat_render(tokenizer_, messages.data(), 1, &options, &text, nullptr), GRAFT_OK) << h_.message();
  EXPECT_STREQ(text, "<|im_start|>user\nhi<|im_end|><|im_end|>\n");
  options.format = "llama2";
  ASSERT_EQ(graft_chat_render(tokenizer_, messages.data(), 1, &options, &text, nullptr), GRAFT_OK) << h_.message();
  EXPECT_TRUE(contains(text, "[INST]")) << text;
}

TEST_F(Language, ConversationsAsJsonAreSaidByTheModelsTemplate) {
  Model model = chat_model();
  model.metadata[std::string(kMetaChatTemplate)] =
      "{{ tools[0] }}{{ documents[0] }}{{ mood }}{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}";
  const std::string path = folder_.file("template.graft");
  ASSERT_TRUE(save_model(os::system_files(), path, model).ok());
  graft_model* loaded = nullptr;
  graft_tokenizer* tokenizer = nullptr;
  ASSERT_EQ(graft_model_load(h_.context, path.c_str(), &loaded), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_tokenizer_create(loaded, &tokenizer), GRAFT_OK) << h_.message();
  auto options = sized<graft_chat_options>();
  options.messages = R"([{"role": "user", "content": "hi"}])";
  options.tools = R"(["k"])";
  options.documents = R"(["o"])";
  options.variables = R"({"mood": "g"})";
  const char* text = "";
  EXPECT_EQ(graft_chat_render(tokenizer, nullptr, 0, &options, &text, nullptr), GRAFT_OK) << h_.message();
  EXPECT_STREQ(text, "koghi<|im_end|>");
  const graft_chat_message message = {"user", "h"};
  EXPECT_EQ(graft_chat_render(tokenizer, &message, 1, &options, &text, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "twice")) << h_.message();
  options.messages = nullptr;
  EXPECT_EQ(graft_chat_render(tokenizer, &message, 1, &options, &text, nullptr), GRAFT_OK) << h_.message();
  EXPECT_STREQ(text, "kogh<|im_end|>");
  options.format = "chatml";
  EXPECT_EQ(graft_chat_render(tokenizer, &message, 1, &options, &text, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "no place")) << h_.message();
  graft_tokenizer_destroy(tokenizer);
  graft_model_destroy(loaded);
}

struct Tokens {
  std::vector<std::int32_t> tokens;
  std::size_t left = 1000;
  bool highest = true;  // each was the one of the highest score
};

int take_token(void* user, std::int32_t token, const float* logits, std::size_t vocabulary) {
  auto& seen = *static_cast<Tokens*>(user);
  seen.tokens.push_back(token);
  const auto* best = std::max_element(logits, logits + vocabulary);
  seen.highest = seen.highest && vocabulary == 17 && best - logits == token;
  return --seen.left > 0 ? 1 : 0;
}

TEST_F(Language, TheNextTurnCostsItsNewTokensOnly) {
  ASSERT_EQ(graft_generator_create(h_.model, nullptr, &generator_), GRAFT_OK) << h_.message();
  auto nothing = sized<graft_generated>();
  ASSERT_EQ(graft_generator_last(generator_, &nothing), GRAFT_OK);
  EXPECT_EQ(nothing.token_count, 0u);
  auto options = sized<graft_generate_options>();
  options.max_tokens = 3;
  options.temperature = 1.5;
  options.seed = 3;
  const auto first = chat({{"user", "h"}});
  const graft_generated said = generate(first, options);
  const std::string reply(said.text, said.bytes);
  ASSERT_EQ(reply.size(), 3u) << "choose another seed";
  EXPECT_EQ(said.reason, GRAFT_STOP_MAX_TOKENS);
  EXPECT_EQ(said.prompt_tokens, first.size());
  EXPECT_EQ(said.cached_tokens, 0u);
  EXPECT_EQ(said.token_count, 3u);
  EXPECT_GT(said.prompt_ms, 0);
  EXPECT_GT(said.generated_ms, 0);

  const auto second = chat({{"user", "h"}, {"assistant", reply.c_str()}, {"user", "o"}});
  ASSERT_TRUE(std::equal(first.begin(), first.end(), second.begin()));
  options.max_tokens = 2;
  const graft_generated more = generate(second, options);
  EXPECT_EQ(more.prompt_tokens, second.size());
  // The last token of a text is chosen, and not yet computed with.
  EXPECT_EQ(more.cached_tokens, first.size() + said.token_count - 1);
  const std::vector<std::int32_t> with_cache(more.tokens, more.tokens + more.token_count);
  graft_generator_destroy(std::exchange(generator_, nullptr));
  ASSERT_EQ(graft_generator_create(h_.model, nullptr, &generator_), GRAFT_OK) << h_.message();
  const graft_generated fresh = generate(second, options);
  EXPECT_EQ(fresh.cached_tokens, 0u);
  EXPECT_EQ(std::vector<std::int32_t>(fresh.tokens, fresh.tokens + fresh.token_count), with_cache);
}

TEST_F(Language, WhatWasSaidKeepsItsTokens) {
  ASSERT_EQ(graft_generator_create(h_.model, nullptr, &generator_), GRAFT_OK) << h_.message();
  graft_tokenizer_destroy(std::exchange(tokenizer_, nullptr));
  ASSERT_EQ(graft_generator_tokenizer(generator_, &tokenizer_), GRAFT_OK) << h_.message();
  graft_generator_destroy(std::exchange(generator_, nullptr));  // the tokenizer keeps what it needs
  const std::vector<graft_chat_message> all = {{"user", "h"}, {"assistant", "op"}, {"user", "o"}};
  const auto plain = chat(all);
  const char* rendered = nullptr;
  std::size_t bytes = 0;
  ASSERT_EQ(graft_chat_render(tokenizer_, all.data(), 1, nullptr, &rendered, &bytes), GRAFT_OK) << h_.message();
  const std::string said = std::string(rendered, bytes) + "op";
  // No tokens that this text would be cut into: they are taken as they are.
  const std::vector<std::int32_t> tokens = {kStart, 7, 7, 7};
  auto options = sized<graft_chat_options>();
  options.said = said.data();
  options.said_bytes = said.size();
  options.said_tokens = tokens.data();
  options.said_count = tokens.size();
  const auto with_said = [&](std::size_t messages) {
    const std::int32_t* ids = nullptr;
    std::size_t count = 0;
    EXPECT_EQ(graft_chat_encode(tokenizer_, all.data(), messages, &options, &ids, &count), GRAFT_OK) << h_.message();
    return std::vector<std::int32_t>(ids, ids + count);
  };
  const auto known = with_said(3);
  ASSERT_GT(known.size(), tokens.size());
  EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), known.begin()));
  const std::size_t rest = known.size() - tokens.size();
  ASSERT_LT(rest, plain.size());
  EXPECT_TRUE(std::equal(known.end() - static_cast<std::ptrdiff_t>(rest), known.end(),
                         plain.end() - static_cast<std::ptrdiff_t>(rest)));
  EXPECT_EQ(with_said(1), chat({all[0]})) << "this one does not begin with what was said";
  options.said_tokens = nullptr;
  EXPECT_EQ(graft_chat_encode(tokenizer_, all.data(), 3, &options, nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "they are NULL")) << h_.message();
  options = sized<graft_chat_options>();
  options.said_bytes = 1;
  EXPECT_EQ(graft_chat_encode(tokenizer_, all.data(), 3, &options, nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
}

TEST_F(Language, APromptAloneIsTakenInForLater) {
  ASSERT_EQ(graft_generator_create(h_.model, nullptr, &generator_), GRAFT_OK) << h_.message();
  const std::vector<std::int32_t> prompt = {3, 4, 5, 6};
  auto options = sized<graft_generate_options>();
  options.max_tokens = 0;
  const auto nothing = generate(prompt, options);
  EXPECT_EQ(nothing.token_count, 0u);
  EXPECT_EQ(nothing.prompt_tokens, prompt.size());
  EXPECT_EQ(nothing.reason, GRAFT_STOP_MAX_TOKENS);
  options.max_tokens = 3;
  const auto more = generate(prompt, options);
  EXPECT_EQ(more.token_count, 3u);
  EXPECT_GE(more.cached_tokens, prompt.size() - 1) << "all but what gives the first scores";
  auto info = sized<graft_generator_info>();
  ASSERT_EQ(graft_generator_describe(generator_, &info), GRAFT_OK) << h_.message();
  EXPECT_GT(info.context, prompt.size());
  EXPECT_EQ(info.sequences, 0u);
  EXPECT_EQ(info.verifies_drafts, 0) << "nobody asked for drafts";
  EXPECT_STREQ(info.streaming, "") << "nor gave a budget";
  int agree = 0;
  ASSERT_EQ(graft_generator_rows_agree(generator_, &agree), GRAFT_OK) << h_.message();
  EXPECT_EQ(agree, 1) << "one text after the other";
  EXPECT_EQ(graft_generator_rows_agree(generator_, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_generator_tokenizer(generator_, nullptr), GRAFT_INVALID_ARGUMENT);
}

TEST_F(Language, SaysWhyATextEndedAndGivesEachToken) {
  ASSERT_EQ(graft_generator_create(h_.model, nullptr, &generator_), GRAFT_OK) << h_.message();
  const std::vector<std::int32_t> prompt = {3, 4, 5, 6};
  Tokens seen;
  auto options = sized<graft_generate_options>();
  options.max_tokens = 6;
  options.on_token = take_token;
  options.user = &seen;
  auto all = generate(prompt, options);
  const std::vector<std::int32_t> tokens(all.tokens, all.tokens + all.token_count);
  EXPECT_EQ(seen.tokens, tokens);
  EXPECT_TRUE(seen.highest);
  ASSERT_GE(tokens.size(), 4u) << "choose another prompt";
  seen = {{}, 2};
  all = generate(prompt, options);
  EXPECT_EQ(all.reason, GRAFT_STOP_CALLBACK);
  EXPECT_EQ(all.token_count, 2u);
  EXPECT_EQ(seen.tokens.size(), 2u);

  options.on_token = nullptr;
  options.max_tokens = 100;
  options.temperature = 2;
  std::set<graft_stop_reason> reasons;
  for (options.seed = 0; options.seed < 8; ++options.seed) {
    all = generate(prompt, options);
    reasons.insert(all.reason);
    for (std::size_t i = 0; i < all.token_count; ++i) EXPECT_NE(all.tokens[i], kEnd) << "it ends texts";
  }
  EXPECT_TRUE(reasons.contains(GRAFT_STOP_END_OF_TEXT));
  options.temperature = 0;
  all = generate(std::vector<std::int32_t>(46, 3), options);
  EXPECT_EQ(all.reason, GRAFT_STOP_CONTEXT_FULL) << "choose another prompt";
  EXPECT_EQ(all.token_count, 3u) << "of a context of 48, the last token needs no place";
  const std::string spelled = decode(tokens, false);
  const std::string part = spelled.substr(2, 1);
  const char* stop[] = {part.c_str()};
  options.stop = stop;
  options.stop_count = 1;
  all = generate(prompt, options);
  EXPECT_EQ(all.reason, GRAFT_STOP_STRING);
  EXPECT_EQ(std::string(all.text), spelled.substr(0, spelled.find(part)));

  // graft_generate leaves the same.
  options = sized<graft_generate_options>();
  options.max_tokens = 6;
  ASSERT_EQ(graft_generate(generator_, "ser", &options, nullptr, nullptr), GRAFT_OK) << h_.message();
  auto last = sized<graft_generated>();
  ASSERT_EQ(graft_generator_last(generator_, &last), GRAFT_OK);
  EXPECT_EQ(last.prompt_tokens, 4u) << "with what stands before a text";
}

TEST_F(Language, WrongInputsAreOneSentence) {
  const std::int32_t wrong[] = {0, 99};
  const char* text = nullptr;
  EXPECT_EQ(graft_tokenizer_decode(tokenizer_, wrong, 2, nullptr, &text, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "99")) << h_.message();
  EXPECT_EQ(text, nullptr);
  EXPECT_EQ(graft_tokenizer_decode(tokenizer_, nullptr, 2, nullptr, &text, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_tokenizer_encode(tokenizer_, nullptr, 2, nullptr, nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_tokenizer_encode(tokenizer_, "XY", 2, nullptr, nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
  auto encode_options = sized<graft_encode_options>();
  encode_options.struct_size += 8;
  EXPECT_EQ(graft_tokenizer_encode(tokenizer_, "u", 1, &encode_options, nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
  const graft_chat_message unknown = {"wizard", "h"};
  EXPECT_EQ(graft_chat_encode(tokenizer_, &unknown, 1, nullptr, nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "wizard")) << h_.message();
  const graft_chat_message empty = {"user", nullptr};
  EXPECT_EQ(graft_chat_encode(tokenizer_, &empty, 1, nullptr, nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_chat_render(tokenizer_, nullptr, 1, nullptr, nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
  auto chat_options = sized<graft_chat_options>();
  chat_options.format = "esperanto";
  const graft_chat_message message = {"user", "h"};
  EXPECT_EQ(graft_chat_render(tokenizer_, &message, 1, &chat_options, nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "chatml")) << "names those that there are: " << h_.message();

  ASSERT_EQ(graft_generator_create(h_.model, nullptr, &generator_), GRAFT_OK) << h_.message();
  auto generated = sized<graft_generated>();
  EXPECT_EQ(graft_generate_tokens(generator_, wrong, 2, nullptr, &generated), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_generate_tokens(generator_, wrong, 0, nullptr, &generated), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_generate_tokens(generator_, nullptr, 2, nullptr, &generated), GRAFT_INVALID_ARGUMENT);
  generated.struct_size = 0;
  EXPECT_EQ(graft_generate_tokens(generator_, wrong, 1, nullptr, &generated), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_generator_last(generator_, nullptr), GRAFT_INVALID_ARGUMENT);

  EXPECT_EQ(graft_tokenizer_create(nullptr, &tokenizer_), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_tokenizer_create(h_.model, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_tokenizer_size(nullptr), 0u);
  EXPECT_EQ(graft_tokenizer_find(nullptr, "u"), -1);
  EXPECT_EQ(graft_generator_last(nullptr, &generated), GRAFT_INVALID_ARGUMENT);
  graft_tokenizer_destroy(nullptr);
}

TEST_F(CApi, AModelWithoutATokenizerHasNone) {
  auto* tokenizer = reinterpret_cast<graft_tokenizer*>(this);
  EXPECT_EQ(graft_tokenizer_create(h_.model, &tokenizer), GRAFT_NOT_FOUND);
  EXPECT_EQ(tokenizer, nullptr);
}

}  // namespace
}  // namespace graft::test::c_api_language_test
