// ctest: middle
// Several texts at once: each is what it is alone, whoever comes and goes beside it.
#include "runtime/language/batch_generator.h"

#include <gtest/gtest.h>

#include <map>

#include "runtime/core/dtype.h"
#include "tests/support/device_test.h"
#include "tests/support/letter_model.h"

namespace graft::batch_generator_test {
namespace {

using text::TokenId;
using Tokens = std::vector<TokenId>;
using Id = BatchGenerator::Id;

Tokens made_up(std::size_t count, std::size_t salt) {
  Tokens out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(static_cast<TokenId>((i * 7 + i / 3 + salt * 5) % 16));
  return out;
}

test::LetterModel ids_only(test::LetterModel options = {}) {
  options.tokenizer = false;
  return options;
}

class BatchGeneratorTest : public test::DeviceTest {
 protected:
  std::unique_ptr<BatchGenerator> make(const Model& model, GeneratorOptions options) {
    options.program.timeout = test::kTestTimeout;
    auto generator = BatchGenerator::create(*device_, model, options);
    EXPECT_TRUE(generator.ok()) << generator.status().message();
    return generator.ok() ? std::move(*generator) : nullptr;
  }
  std::unique_ptr<Generator> make_single(const Model& model, GeneratorOptions options = {}) {
    options.program.timeout = test::kTestTimeout;
    auto generator = Generator::create(*device_, model, options);
    EXPECT_TRUE(generator.ok()) << generator.status().message();
    return generator.ok() ? std::move(*generator) : nullptr;
  }
  static Id submit(BatchGenerator& generator, const Tokens& prompt, const GenerateOptions& options) {
    const auto id = generator.submit(prompt, options);
    EXPECT_TRUE(id.ok()) << id.status().message();
    return id.ok() ? *id : 0;
  }
  static void steps(BatchGenerator& generator, int count) {
    for (int i = 0; i < count; ++i) ASSERT_TRUE(generator.step().ok());
  }
  static void take_all(BatchGenerator& generator, std::map<Id, Generated>& into) {
    while (auto finished = generator.take()) {
      ASSERT_TRUE(finished->result.ok()) << finished->result.status().message();
      into[finished->id] = std::move(*finished->result);
    }
  }
  static std::map<Id, Generated> run(BatchGenerator& generator) {
    std::map<Id, Generated> out;
    for (std::size_t left = 1; left != 0;) {
      const auto done = generator.step();
      EXPECT_TRUE(done.ok()) << done.status().message();
      left = done.ok() ? *done : 0;
    }
    take_all(generator, out);
    return out;
  }
  static Generated alone(Generator& generator, const Tokens& prompt, const GenerateOptions& options) {
    auto out = generator.generate(prompt, options);
    EXPECT_TRUE(out.ok()) << out.status().message();
    return out.ok() ? std::move(*out) : Generated();
  }
};

GenerateOptions scores_into(std::vector<float>& all, GenerateOptions options) {
  options.on_token = [&all](TokenId, std::span<const float> logits) {
    all.insert(all.end(), logits.begin(), logits.end());
    return true;
  };
  return options;
}

// Ragged prompts, more texts than slots, so that they join and leave while others go on.
TEST_F(BatchGeneratorTest, EachTextIsWhatItIsAlone) {
  const std::vector<std::pair<test::LetterModel, DType>> kinds = {
      {ids_only(), DType::f32},
      {ids_only({.window = 5, .head_dim = 16}), DType::q8_0},
      {ids_only({.learned_positions = true}), DType::f16}};
  for (const auto& [kind, cache] : kinds) {
    const Model model = test::letter_model(kind);
    const auto single = make_single(model, {.prefill = 8, .cache = cache});
    const auto several = make(model, {.prefill = 8, .cache = cache, .sequences = 3});
    std::map<Id, Generated> expected;
    std::map<Id, std::vector<float>> scores, same_scores;
    for (std::size_t i = 0; i < 7; ++i) {
      const Tokens prompt = made_up(1 + i * 5 % 19, i);
      GenerateOptions options = {.max_tokens = static_cast<std::uint32_t>(3 + i * 4 % 11)};
      if (i % 2 == 1) options.sampling = {.temperature = 0.8, .seed = i};
      const Id id = submit(*several, prompt, scores_into(same_scores[i + 1], options));
      ASSERT_EQ(id, i + 1);
      expected[id] = alone(*single, prompt, scores_into(scores[id], options));
    }
    const auto got = run(*several);
    ASSERT_EQ(got.size(), expected.size());
    for (const auto& [id, text] : expected) {
      EXPECT_EQ(got.at(id).tokens, text.tokens) << "text " << id;
      EXPECT_EQ(got.at(id).reason, text.reason);
      EXPECT_EQ(same_scores[id], scores[id]) << "bit for bit, text " << id;
    }
    const auto agree = several->rows_agree();
    ASSERT_TRUE(agree.ok()) << agree.status().message();
    EXPECT_TRUE(*agree) << "as the scores above say";
  }
}

TEST_F(BatchGeneratorTest, CachesThatForgetMoveEachByItself) {
  Model model = test::letter_model(ids_only({.window = 5, .head_dim = 16}));
  model.metadata.insert_or_assign(std::string(kMetaContext), "1000");
  const auto single = make_single(model, {.context = 700, .prefill = 32});
  const auto several = make(model, {.context = 700, .prefill = 32, .sequences = 3});
  const Tokens prompts[] = {made_up(420, 0), made_up(20, 1), made_up(300, 2)};
  std::map<Id, Generated> expected;
  for (const Tokens& prompt : prompts) {
    const GenerateOptions options = {.max_tokens = 150};
    expected[submit(*several, prompt, options)] = alone(*single, prompt, options);
  }
  const auto got = run(*several);
  for (const auto& [id, text] : expected) EXPECT_EQ(got.at(id).tokens, text.tokens) << "text " << id;
  // A text that begins as the longest did, beside it: its caches are copied with their places.
  Tokens longer = prompts[0];
  longer.push_back(9);
  const Id first = submit(*several, longer, {.max_tokens = 5});
  longer.back() = 8;
  const Id second = submit(*several, longer, {.max_tokens = 5});
  const auto more = run(*several);
  EXPECT_EQ(more.at(second).reused_tokens, 420u);
  EXPECT_EQ(more.at(second).tokens, alone(*single, longer, {.max_tokens = 5}).tokens);
  EXPECT_EQ(more.at(first).tokens.size(), 5u);
}

TEST_F(BatchGeneratorTest, WhatTextsBeginWithIsComputedOnce) {
  for (const DType cache : {DType::f32, DType::f16, DType::q8_0}) {
    const Model model = test::letter_model(ids_only({.head_dim = 16}));
    const auto single = make_single(model, {.prefill = 8, .cache = cache});
    const auto several = make(model, {.prefill = 8, .cache = cache, .sequences = 4});
    const Tokens system = made_up(21, 3);
    std::map<Id, Generated> expected;
    for (std::size_t i = 0; i < 6; ++i) {
      Tokens prompt = system;
      const Tokens own = made_up(2 + i, i + 20);
      prompt.push_back(static_cast<TokenId>(i));  // they part here
      prompt.insert(prompt.end(), own.begin(), own.end());
      const GenerateOptions options = {.max_tokens = 8};
      expected[submit(*several, prompt, options)] = alone(*single, prompt, options);
    }
    const auto got = run(*several);
    for (const auto& [id, text] : expected) {
      EXPECT_EQ(got.at(id).reused_tokens, id == 1 ? 0 : system.size()) << "text " << id;
      EXPECT_EQ(got.at(id).tokens, text.tokens) << "text " << id;
    }
  }
}

TEST_F(BatchGeneratorTest, TextsJoinLeaveAndAreDropped) {
  const Model model = test::letter_model(ids_only());
  const auto single = make_single(model);
  const auto several = make(model, {.sequences = 2});
  const GenerateOptions options = {.max_tokens = 20};
  const Tokens prompts[] = {made_up(6, 1), made_up(9, 2), made_up(4, 3), made_up(7, 4)};
  const Id a = submit(*several, prompts[0], options);
  steps(*several, 4);
  const Id b = submit(*several, prompts[1], options);
  const Id c = submit(*several, prompts[2], options);
  const Id d = submit(*several, prompts[3], options);
  steps(*several, 3);
  EXPECT_EQ(several->unfinished(), 4u);
  EXPECT_TRUE(several->drop(b)) << "under way";
  EXPECT_TRUE(several->drop(d)) << "queued";
  EXPECT_FALSE(several->drop(b));
  const auto got = run(*several);
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got.at(a).tokens, alone(*single, prompts[0], options).tokens);
  EXPECT_EQ(got.at(c).tokens, alone(*single, prompts[2], options).tokens);
  // A call that generates one text takes the others along.
  const Id e = submit(*several, prompts[3], {.max_tokens = 3});
  const auto one = several->generate(prompts[1], options);
  ASSERT_TRUE(one.ok()) << one.status().message();
  EXPECT_EQ(one->tokens, alone(*single, prompts[1], options).tokens);
  const auto other = several->take();
  ASSERT_TRUE(other.has_value());
  EXPECT_EQ(other->id, e);
}

TEST_F(BatchGeneratorTest, EachHasItsOwnEndGrammarAndError) {
  const Model model = test::letter_model();
  const auto single = make_single(model);
  const auto several = make(model, {.sequences = 5});
  GenerateOptions sampled = {.max_tokens = 30, .sampling = {.temperature = 1.5, .seed = 11}};
  const auto full = single->generate("abc", sampled);
  ASSERT_TRUE(full.ok());
  ASSERT_GT(full->text.size(), 6u) << "choose another seed";
  GenerateOptions stopped = sampled;
  stopped.stop = {full->text.substr(3, 2)};
  GenerateOptions ruled = {.max_tokens = 30, .grammar = "root ::= [a-c] [d-f] [g-i]"};
  GenerateOptions failing = {.max_tokens = 30, .grammar = "root ::= \"a\" \"xyz\""};  // which no token spells
  int pieces = 0;
  std::string streamed;
  const Id free = *several->submit("abc", sampled);
  const Id cut = *several->submit("abc", stopped, [&](std::string_view piece) {
    streamed += piece;
    return true;
  });
  const Id formed = *several->submit("abc", ruled);
  const Id refused = *several->submit("abc", sampled, [&](std::string_view) { return ++pieces < 4; });
  const Id wrong = *several->submit("abc", failing);
  EXPECT_FALSE(several->submit("abc", {.grammar = "root ::= ("}).ok());
  EXPECT_FALSE(several->submit(Tokens(), {}).ok());
  for (std::size_t left = 1; left != 0;) left = *several->step();
  std::map<Id, Result<Generated>> got;
  while (auto finished = several->take()) got.emplace(finished->id, std::move(finished->result));
  ASSERT_EQ(got.size(), 5u);
  EXPECT_EQ(got.at(free)->text, full->text);
  EXPECT_EQ(got.at(cut)->reason, StopReason::stop_string);
  EXPECT_EQ(got.at(cut)->text, full->text.substr(0, full->text.find(stopped.stop[0])));
  EXPECT_EQ(streamed, got.at(cut)->text);
  EXPECT_EQ(got.at(formed)->text, single->generate("abc", ruled)->text);
  EXPECT_EQ(got.at(formed)->reason, StopReason::end_of_text);
  EXPECT_EQ(got.at(refused)->reason, StopReason::callback);
  EXPECT_EQ(got.at(refused)->tokens.size(), 4u);
  EXPECT_EQ(got.at(wrong).status().message(), single->generate("abc", failing).status().message());
  EXPECT_FALSE(got.at(wrong).ok());
}

TEST_F(BatchGeneratorTest, APauseIsNotNoticed) {
  const Model model = test::letter_model(ids_only());
  const auto single = make_single(model);
  const auto several = make(model, {.prefill = 4, .sequences = 2});
  std::map<Id, Generated> expected;
  for (std::size_t i = 0; i < 3; ++i) {
    const Tokens prompt = made_up(7 + i, i);
    expected[submit(*several, prompt, {.max_tokens = 12})] = alone(*single, prompt, {.max_tokens = 12});
  }
  steps(*several, 7);
  ASSERT_TRUE(several->pause().ok());
  EXPECT_TRUE(several->is_paused());
  EXPECT_FALSE(several->swap_adapters(nullptr).ok()) << "texts are under way";
  const auto got = run(*several);
  for (const auto& [id, text] : expected) EXPECT_EQ(got.at(id).tokens, text.tokens) << "text " << id;
}

TEST_F(BatchGeneratorTest, MemoryIsThatOfSoManyCaches) {
  const Model model = test::letter_model(ids_only({.head_dim = 16}));
  const auto bytes = [&](std::uint32_t sequences, DType cache) {
    return make(model, {.context = 40, .cache = cache, .sequences = sequences})->memory()[MemoryClass::activations];
  };
  for (const DType cache : {DType::f32, DType::f16, DType::q8_0}) {
    const std::uint64_t three = bytes(3, cache), five = bytes(5, cache);
    // Two layers of keys and values: 2 heads of 16 numbers, 40 tokens.
    const std::uint64_t one = storage_bytes(cache, 2ull * 2 * 32 * 40);
    const std::uint64_t more = five - three;
    EXPECT_GE(more, 2 * one);
    EXPECT_LE(more, 2 * one + 2048) << "places are aligned";
  }
}

TEST_F(BatchGeneratorTest, SaysHowManyWouldFit) {
  const Model model = test::letter_model(ids_only({.head_dim = 16}));
  GeneratorOptions options = {.sequences = 3};
  const std::uint64_t three = make(model, options)->memory().total();
  options.sequences = 40;
  options.plan.budget = three;
  const auto refused = BatchGenerator::create(*device_, model, options);
  EXPECT_EQ(refused.status().code(), Code::out_of_memory);
  EXPECT_NE(refused.status().message().find("40 sequences at once are too many"), std::string::npos);
  EXPECT_NE(refused.status().message().find(" 3 sequences would fit."), std::string::npos)
      << refused.status().message();
  options.sequences = 3;
  EXPECT_TRUE(BatchGenerator::create(*device_, model, options).ok());
  options.plan.budget = 1000;
  EXPECT_NE(BatchGenerator::create(*device_, model, options).status().message().find("Not even one"),
            std::string::npos);
  EXPECT_NE(BatchGenerator::create(*device_, model, {.prompt_lookup = 3, .sequences = 2})
                .status()
                .message()
                .find("one sequence at a time"),
            std::string::npos);
}

}  // namespace
}  // namespace graft::batch_generator_test
