// ctest: middle
// Generation: what caches give is what the whole model gives; how a text ends; what is refused.
#include "runtime/core/op_id.gen.h"
#include "runtime/language/generator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/passes/decode_graph.h"
#include "runtime/session/session.h"
#include "tests/support/device_test.h"
#include "tests/support/letter_model.h"

namespace graft::generator_test {
namespace {

using text::TokenId;
using Tokens = std::vector<TokenId>;

const Tokens kPrompt = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3};

class GeneratorTest : public test::DeviceTest {
 protected:
  std::unique_ptr<Generator> make(const Model& model, GeneratorOptions options = {}) {
    options.program.timeout = test::kTestTimeout;
    auto generator = Generator::create(*device_, model, options);
    EXPECT_TRUE(generator.ok()) << generator.status().message();
    return generator.ok() ? std::move(*generator) : nullptr;
  }

  static Generated run(Generator& generator, const Tokens& prompt, const GenerateOptions& options) {
    auto out = generator.generate(prompt, options);
    EXPECT_TRUE(out.ok()) << out.status().message();
    return out.ok() ? std::move(*out) : Generated();
  }

  /// The most probable next token by the model's own graph, without any cache.
  TokenId next_of_whole(const Model& model, const Tokens& tokens) {
    SessionOptions options;
    options.bindings = {{"batch", 1}, {"seq", static_cast<std::int64_t>(tokens.size())}};
    options.program.timeout = test::kTestTimeout;
    const auto session = Session::create(*device_, model, options);
    EXPECT_TRUE((*session)->set_input("tokens", std::as_bytes(std::span(tokens))).ok());
    EXPECT_TRUE((*session)->run().ok());
    const auto bytes = (*session)->output("logits");
    std::vector<float> logits(bytes.size() / sizeof(float));
    std::memcpy(logits.data(), bytes.data(), bytes.size());
    const auto last = logits.end() - static_cast<std::ptrdiff_t>(logits.size() / tokens.size());
    return static_cast<TokenId>(std::max_element(last, logits.end()) - last);
  }
};

/// Ids alone: no token ends the text.
test::LetterModel ids_only(test::LetterModel options = {}) {
  options.tokenizer = false;
  return options;
}

TEST_F(GeneratorTest, CachesGiveWhatTheWholeModelGives) {
  for (const test::LetterModel& kind : {ids_only(), ids_only({.window = 5}), ids_only({.learned_positions = true})}) {
    const Model model = test::letter_model(kind);
    Tokens whole = kPrompt;
    for (int i = 0; i < 6; ++i) whole.push_back(next_of_whole(model, whole));
    const Tokens expected(whole.begin() + static_cast<std::ptrdiff_t>(kPrompt.size()), whole.end());
    for (const std::uint32_t chunk : {1u, 5u, 17u, 64u}) {
      const auto generator = make(model, {.prefill = chunk});
      EXPECT_EQ(run(*generator, kPrompt, {.max_tokens = 6}).tokens, expected) << "prefill of " << chunk;
    }
  }
}

// Each key and value is rounded once: f16 keeps 11 bits of it, bf16 8, and the scores of two layers nearly as many.
TEST_F(GeneratorTest, RoundedCachesTakeLessMemory) {
  const auto scores = [&](const Model& model, DType cache, bool pauses, std::uint64_t& bytes) {
    const auto generator = make(model, {.context = 40, .prefill = 5, .cache = cache});
    std::vector<float> out;
    GenerateOptions options = {.max_tokens = 1};
    options.on_token = [&](TokenId, std::span<const float> logits) {
      out.assign(logits.begin(), logits.end());
      return true;
    };
    if (pauses) {
      run(*generator, Tokens(kPrompt.begin(), kPrompt.end() - 3), {.max_tokens = 1});
      EXPECT_TRUE(generator->pause().ok());
    }
    EXPECT_EQ(run(*generator, kPrompt, options).reused_tokens, pauses ? kPrompt.size() - 3 : 0);
    bytes = generator->memory().total();
    return out;
  };
  for (const test::LetterModel& kind : {ids_only({.head_dim = 16}), ids_only({.window = 5, .head_dim = 16})}) {
    const Model model = test::letter_model(kind);
    std::uint64_t whole_bytes = 0, bytes = 0;
    const std::vector<float> whole = scores(model, DType::f32, false, whole_bytes);
    // Blocks of q8_0 hold two heads; their codes are off by up to 1/254 of the largest number.
    for (const auto& [cache, near] :
         {std::pair(DType::f16, 1e-2F), std::pair(DType::bf16, 1e-1F), std::pair(DType::q8_0, 2e-1F)}) {
      const std::vector<float> half = scores(model, cache, false, bytes);
      // Two layers of keys and values: 2 heads of 16 numbers, 40 tokens; places are aligned to some 256 bytes.
      const double numbers = 2 * 2 * 32 * 40;
      const double saved = 4 * numbers - static_cast<double>(storage_bytes(cache, static_cast<std::uint64_t>(numbers)));
      EXPECT_NEAR(static_cast<double>(whole_bytes - bytes), saved, 2048);
      EXPECT_NE(half, whole);
      ASSERT_EQ(half.size(), whole.size());
      for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(half[i], whole[i], near);
      EXPECT_EQ(scores(model, cache, true, bytes), half) << "what waits with the host comes back to the bit";
    }
  }
}

Tokens long_prompt(std::size_t count, std::size_t salt = 0) {
  Tokens out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(static_cast<TokenId>((i * 7 + i / 3 + salt) % 9 + 1));
  return out;
}

/// One of its two layers has a window.
Model windowed_model(std::int64_t head_dim) {
  Model model = test::letter_model(ids_only({.window = 5, .head_dim = head_dim}));
  model.metadata.insert_or_assign(std::string(kMetaContext), "1000");
  return model;
}

// Caches of what a window sees, beside caches of all: kernels go through the same keys in the same order.
TEST_F(GeneratorTest, CachesForgetWhatNoWindowSees) {
  const Model model = windowed_model(16);
  const Tokens prompt = long_prompt(420);
  for (const DType cache : {DType::f32, DType::f16, DType::q8_0}) {
    std::vector<std::vector<float>> scores[2];
    std::uint64_t bytes[2] = {};
    for (const bool forget : {false, true}) {
      const auto generator = make(model, {.context = 900, .prefill = 32, .cache = cache, .forget = forget});
      GenerateOptions options = {.max_tokens = 150};
      options.on_token = [&](TokenId, std::span<const float> logits) {
        scores[forget].emplace_back(logits.begin(), logits.end());
        return true;
      };
      run(*generator, prompt, options);
      bytes[forget] = generator->memory().total();
    }
    ASSERT_EQ(scores[0].size(), 150u);
    EXPECT_EQ(scores[0], scores[1]);
    // Keys and values of one layer: 2 heads of 16 numbers, 384 tokens in place of 900.
    const std::uint64_t saved = storage_bytes(cache, std::uint64_t{2} * 32 * (900 - 384));
    EXPECT_NEAR(static_cast<double>(bytes[0] - bytes[1]), static_cast<double>(saved), 2048);
  }
}

TEST_F(GeneratorTest, WhatIsForgottenIsComputedAgain) {
  const Model model = windowed_model(4);
  const auto generator = make(model, {.context = 900, .prefill = 32, .prompt_lookup = 3});
  const auto fresh = [&](const Tokens& prompt) {
    return run(*make(model, {.context = 900, .prefill = 32, .forget = false}), prompt, {.max_tokens = 20}).tokens;
  };
  const Tokens prompt = long_prompt(480);
  EXPECT_EQ(run(*generator, prompt, {.max_tokens = 20}).tokens, fresh(prompt));
  Tokens near(prompt.begin(), prompt.begin() + 450);
  near.push_back(9);
  ASSERT_NE(prompt[450], 9);
  const Generated kept = run(*generator, near, {.max_tokens = 20});
  EXPECT_EQ(kept.reused_tokens, 450u);
  EXPECT_EQ(kept.tokens, fresh(near));
  ASSERT_TRUE(generator->pause().ok());
  Tokens far(prompt.begin(), prompt.begin() + 250);  // places from 256 on are there
  far.push_back(9);
  ASSERT_NE(prompt[250], 9);
  const Generated again = run(*generator, far, {.max_tokens = 20});
  EXPECT_EQ(again.reused_tokens, 0u);
  EXPECT_EQ(again.tokens, fresh(far));
  const Generated other = run(*generator, long_prompt(60, 4), {.max_tokens = 20});
  EXPECT_EQ(other.tokens, fresh(long_prompt(60, 4)));
}

TEST_F(GeneratorTest, APromptThatGoesOnCostsItsNewTokensOnly) {
  const Model model = test::letter_model(ids_only());
  const auto generator = make(model, {.prefill = 4});
  const Generated first = run(*generator, kPrompt, {.max_tokens = 5});
  EXPECT_EQ(first.reused_tokens, 0u);
  Tokens longer = kPrompt;
  longer.insert(longer.end(), first.tokens.begin(), first.tokens.end());
  longer.push_back(7);
  const Generated again = run(*generator, longer, {.max_tokens = 5});
  EXPECT_EQ(again.reused_tokens, kPrompt.size() + 4) << "the last token given was never fed";
  EXPECT_EQ(again.tokens, run(*make(model), longer, {.max_tokens = 5}).tokens);
  const Generated other = run(*generator, {3, 1, 9}, {.max_tokens = 5});
  EXPECT_EQ(other.reused_tokens, 2u);
  EXPECT_EQ(other.tokens, run(*make(model), {3, 1, 9}, {.max_tokens = 5}).tokens) << "what is stale is never seen";
}

TEST_F(GeneratorTest, TextsEndForAReason) {
  const Model model = test::letter_model();
  const auto generator = make(model);
  const GenerateOptions options = {.max_tokens = 30, .sampling = {.temperature = 1.5, .seed = 11}};
  const auto full = generator->generate("abc", options);
  ASSERT_TRUE(full.ok()) << full.status().message();
  ASSERT_GT(full->tokens.size(), 6u) << "choose another seed";
  EXPECT_EQ(full->prompt_tokens, 3u);
  EXPECT_EQ(full->text.size(), full->tokens.size()) << "a letter for each token";
  const auto again = generator->generate("abc", options);
  EXPECT_EQ(again->tokens, full->tokens) << "the same seed";

  GenerateOptions stopped = options;
  stopped.stop = {full->text.substr(3, 2)};
  std::string streamed;
  const auto cut = generator->generate("abc", stopped, [&](std::string_view piece) {
    streamed += piece;
    return true;
  });
  EXPECT_EQ(cut->reason, StopReason::stop_string);
  EXPECT_EQ(cut->text, full->text.substr(0, full->text.find(stopped.stop[0])));
  EXPECT_EQ(streamed, cut->text);

  int pieces = 0;
  const auto refused = generator->generate("abc", options, [&](std::string_view) { return ++pieces < 4; });
  EXPECT_EQ(refused->reason, StopReason::callback);
  EXPECT_EQ(refused->tokens.size(), 4u);

  GenerateOptions endless = options;
  endless.max_tokens = 1000;
  bool ended = false;
  bool filled = false;
  for (std::uint64_t seed = 0; seed < 40 && !(ended && filled); ++seed) {
    endless.sampling.seed = seed;
    const auto out = generator->generate("abc", endless);
    ended = ended || out->reason == StopReason::end_of_text;
    if (out->reason != StopReason::context_full) continue;
    filled = true;
    EXPECT_EQ(out->tokens.size() + 3, 48u + 1) << "the last token was drawn, and needs no place";
  }
  EXPECT_TRUE(ended && filled) << "forty texts of a random model end in both ways";
}

TEST_F(GeneratorTest, DraftsChangeNoBitOfWhatIsGenerated) {
  for (const test::LetterModel& kind : {ids_only(), ids_only({.window = 5}), ids_only({.learned_positions = true})}) {
    const Model model = test::letter_model(kind);
    const auto plain = make(model, {.prefill = 8});
    for (const std::uint32_t longest : {1u, 3u, 7u}) {
      const auto ahead = make(model, {.prefill = 8, .prompt_lookup = longest});
      ASSERT_TRUE(ahead->verifies_drafts()) << longest;
      std::uint32_t drafted = 0;
      for (std::uint64_t seed = 0; seed < 6; ++seed) {
        Tokens prompt = {static_cast<TokenId>(seed), 3, 1, 4, 1, 5, 3, 1, 4, 1};
        std::vector<float> scores, same_scores;
        const auto into = [](std::vector<float>& all) {
          return [&all](TokenId, std::span<const float> logits) {
            all.insert(all.end(), logits.begin(), logits.end());
            return true;
          };
        };
        GenerateOptions options = {.max_tokens = 60, .sampling = {.temperature = seed * 0.3, .seed = seed}};
        options.on_token = into(scores);
        const Generated expected = run(*plain, prompt, options);
        options.on_token = into(same_scores);
        const Generated got = run(*ahead, prompt, options);
        EXPECT_EQ(got.tokens, expected.tokens) << "seed " << seed << ", drafts of " << longest;
        EXPECT_EQ(got.reason, expected.reason);
        EXPECT_EQ(same_scores, scores) << "bit for bit";
        drafted += got.drafted_tokens;
        EXPECT_LE(got.right_drafts, got.drafted_tokens);
      }
      EXPECT_GT(drafted, 0u);
    }
  }
}

TEST_F(GeneratorTest, DraftsOutliveAPause) {
  const Model model = test::letter_model(ids_only());
  const auto plain = make(model);
  const auto ahead = make(model, {.prompt_lookup = 3});
  const Tokens prompt = {3, 1, 4, 1, 5, 3, 1, 4, 1};
  const Generated first = run(*ahead, prompt, {.max_tokens = 9});
  ASSERT_TRUE(ahead->pause().ok());
  Tokens longer = prompt;
  longer.insert(longer.end(), first.tokens.begin(), first.tokens.end());
  const Generated more = run(*ahead, longer, {.max_tokens = 9});
  EXPECT_GT(more.reused_tokens, prompt.size());
  EXPECT_EQ(more.tokens, run(*plain, longer, {.max_tokens = 9}).tokens);
}

TEST_F(GeneratorTest, TellsProbabilitiesAndTheTimeOfTheFirstToken) {
  const Model model = test::letter_model(ids_only());
  const auto generator = make(model);
  GenerateOptions options = {.max_tokens = 4, .log_probabilities = true, .most_probable = 3};
  std::vector<float> expected;
  options.on_token = [&](TokenId token, std::span<const float> logits) {
    double sum = 0;
    for (const float logit : logits) sum += std::exp(double{logit});
    expected.push_back(static_cast<float>(logits[static_cast<std::size_t>(token)] - std::log(sum)));
    return true;
  };
  const Generated out = run(*generator, kPrompt, options);
  ASSERT_EQ(out.log_probabilities.size(), 4u);
  ASSERT_EQ(out.most_probable.size(), 12u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(out.log_probabilities[i], expected[i], 1e-5);
    EXPECT_EQ(out.most_probable[3 * i].token, out.tokens[i]) << "the most probable is what was taken";
    EXPECT_EQ(out.most_probable[3 * i].log_probability, out.log_probabilities[i]);
  }
  EXPECT_GT(out.first_token_seconds, 0);
  options.sampling.bias = {{out.tokens[0], -INFINITY}};
  EXPECT_EQ(run(*generator, kPrompt, options).tokens[0], out.most_probable[1].token) << "the next best";
  options.sampling.bias = {{17, 1}};
  EXPECT_NE(generator->generate(kPrompt, options).status().message().find("token 17"), std::string::npos);
}

TEST_F(GeneratorTest, PlannedIsAllocatedAndCachesAreActivations) {
  const Model model = test::letter_model(ids_only());
  const auto small = make(model, {.context = 16, .prefill = 4});
  const auto large = make(model, {.context = 48, .prefill = 4});
  const std::uint64_t caches = 32ull * 2 * 2 * 2 * 4 * sizeof(float);  // tokens, layers, k and v, heads, elements
  const std::uint64_t alignments = 4 * 256;
  const std::uint64_t more = large->memory()[MemoryClass::activations] - small->memory()[MemoryClass::activations];
  EXPECT_GE(more, caches - alignments);
  EXPECT_LE(more, caches + alignments);
  EXPECT_EQ(small->memory()[MemoryClass::optimizer], 0u);
}

TEST_F(GeneratorTest, RefusesWhatCannotBe) {
  const Model model = test::letter_model(ids_only());
  const auto generator = make(model, {.context = 8});
  const auto message = [&](const Tokens& prompt, const GenerateOptions& options = {}) {
    return generator->generate(prompt, options).status().message();
  };
  EXPECT_NE(message({}).find("prompt is empty"), std::string::npos);
  EXPECT_NE(message({1, 17}).find("token 17; the model knows 17"), std::string::npos);
  EXPECT_NE(message({-1}).find("token -1"), std::string::npos);
  EXPECT_NE(message(Tokens(8, 1)).find("no room in a context of 8"), std::string::npos);
  EXPECT_NE(message({1}, {.sampling = {.top_p = 2}}).find("top-p is 2"), std::string::npos);
  EXPECT_NE(message({1}, {.stop = {"a"}}).find("carries none"), std::string::npos);
  EXPECT_EQ(generator->generate("abc").status().code(), Code::not_found);
  EXPECT_NE(Generator::create(*device_, model, {.context = 49}).status().message().find("made for 48"),
            std::string::npos);
}

TEST(DecodeGraph, RefusesOtherModels) {
  const auto message = [](const Graph& graph) { return passes::decode_graph(graph, 1, 8, true).status().message(); };
  const Dim batch = Dim::symbol("batch");
  Graph graph;
  EXPECT_NE(message(graph).find("has 0 inputs"), std::string::npos);
  const ValueId x = *graph.add_value("x", DType::f32, {batch, 3}, ValueKind::input);
  EXPECT_NE(message(graph).find("takes i32[batch, seq]"), std::string::npos);
  graph.add_output("y", x);
  Model model = test::letter_model();
  model.graph.clear_outputs();
  EXPECT_NE(message(model.graph).find("no output \"logits\""), std::string::npos);
  model.graph.add_output("logits", model.graph.find_value("model.norm"));
  EXPECT_TRUE(passes::decode_graph(model.graph, 1, 8, true).ok()) << "any number of columns will do";
  for (const Node& node : model.graph.nodes()) {
    if (node.op != Op::attention) continue;
    model.graph.mutable_node(model.graph.find_node(node.name)).attrs.set("causal", std::int64_t{0});
  }
  EXPECT_NE(message(model.graph).find("not causal"), std::string::npos);
}

}  // namespace
}  // namespace graft::generator_test
