// ctest: middle
// Generating text through the C ABI.
#include <cmath>
#include <utility>

#include "runtime/c_api/c_handles.h"
#include "runtime/lora/adapter.h"
#include "tests/support/c_api.h"
#include "tests/support/letter_model.h"

namespace graft::test::c_api_generator_test {
namespace {

class CGenerator : public testing::Test {
 protected:
  void SetUp() override {
    const std::string path = folder_.file("decoder.graft");
    ASSERT_TRUE(save_model(os::system_files(), path, letter_model()).ok());
    const auto options = context_options(device_);
    const graft_status made = graft_context_create(&options, &h_.context);
    if (made == GRAFT_NOT_FOUND) GTEST_SKIP() << h_.message();
    ASSERT_EQ(made, GRAFT_OK) << h_.message();
    ASSERT_EQ(graft_model_load(h_.context, path.c_str(), &h_.model), GRAFT_OK) << h_.message();
  }
  void TearDown() override { graft_generator_destroy(generator_); }

  TemporaryFolder folder_;
  std::string device_;
  CHandles h_;
  graft_generator* generator_ = nullptr;
};

struct Pieces {
  std::string text;
  int left = 1000;
};

int take_piece(void* user, const char* text, std::size_t bytes) {
  auto& pieces = *static_cast<Pieces*>(user);
  pieces.text.append(text, bytes);
  return --pieces.left > 0 ? 1 : 0;
}

struct Answered {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> all;
  static void tell(void* user, graft_stage stage, std::uint64_t done, std::uint64_t total) {
    if (stage == GRAFT_STAGE_ANSWER) static_cast<Answered*>(user)->all.emplace_back(done, total);
  }
};

TEST_F(CGenerator, GeneratesBesideTheApp) {
  ASSERT_EQ(graft_generator_create(h_.model, nullptr, &generator_), GRAFT_OK) << h_.message();
  auto options = sized<graft_generate_options>();
  options.max_tokens = 12;
  options.temperature = 1.5;
  options.seed = 11;
  const char* text = nullptr;
  std::size_t bytes = 0;
  ASSERT_EQ(graft_generate(generator_, "abc", &options, &text, &bytes), GRAFT_OK) << h_.message();
  const std::string expected(text, bytes);
  Pieces pieces;
  options.on_text = take_piece;
  options.user = &pieces;
  Answered answered;
  ASSERT_EQ(graft_set_progress(h_.context, Answered::tell, &answered), GRAFT_OK);
  graft_task* task = nullptr;
  ASSERT_EQ(graft_task_create(h_.context, &task), GRAFT_OK);
  std::string prompt = "abc";
  ASSERT_EQ(graft_generate_async(generator_, prompt.c_str(), &options, graft_task_done, task), GRAFT_OK);
  prompt.assign("xyz");  // it was copied
  options = {};
  graft_status outcome = GRAFT_INTERNAL;
  ASSERT_EQ(graft_task_wait(task, -1, &outcome), GRAFT_OK);
  ASSERT_EQ(outcome, GRAFT_OK) << graft_task_message(task);
  EXPECT_EQ(pieces.text, expected);
  auto last = sized<graft_generated>();
  ASSERT_EQ(graft_generator_last(generator_, &last), GRAFT_OK);
  EXPECT_EQ(std::string(last.text, last.bytes), expected);
  ASSERT_EQ(answered.all.size(), last.token_count);
  for (std::size_t i = 0; i < answered.all.size(); ++i)
    EXPECT_EQ(answered.all[i], (std::pair<std::uint64_t, std::uint64_t>(i + 1, 12)));
  EXPECT_EQ(graft_generate_async(generator_, nullptr, nullptr, graft_task_done, task), GRAFT_INVALID_ARGUMENT);
  graft_task_destroy(task);
}

TEST_F(CGenerator, StreamsATextAndEndsItOnRequest) {
  ASSERT_EQ(graft_generator_create(h_.model, nullptr, &generator_), GRAFT_OK) << h_.message();
  auto memory = sized<graft_memory>();
  ASSERT_EQ(graft_generator_memory(generator_, &memory), GRAFT_OK);
  EXPECT_GT(memory.activations, 0u);
  Pieces pieces;
  auto options = sized<graft_generate_options>();
  options.max_tokens = 12;
  options.temperature = 1.5;
  options.seed = 11;
  options.on_text = take_piece;
  options.user = &pieces;
  const char* text = nullptr;
  std::size_t bytes = 0;
  ASSERT_EQ(graft_generate(generator_, "abc", &options, &text, &bytes), GRAFT_OK) << h_.message();
  const std::string whole(text, bytes);
  ASSERT_GT(whole.size(), 6u) << "choose another seed";
  EXPECT_EQ(pieces.text, whole);
  pieces = {{}, 3};
  ASSERT_EQ(graft_generate(generator_, "abc", &options, &text, &bytes), GRAFT_OK) << h_.message();
  EXPECT_EQ(std::string(text, bytes), whole.substr(0, 3));
  const std::string stop = whole.substr(4, 2);
  const char* stops[] = {stop.c_str()};
  pieces = {};
  options.stop = stops;
  options.stop_count = 1;
  ASSERT_EQ(graft_generate(generator_, "abc", &options, &text, &bytes), GRAFT_OK) << h_.message();
  EXPECT_EQ(std::string(text), whole.substr(0, whole.find(stop)));
}

TEST_F(CGenerator, TellsProbabilitiesTakesBiasesAndDrafts) {
  auto planned = sized<graft_generator_options>();
  planned.prompt_lookup = 3;
  ASSERT_EQ(graft_generator_create(h_.model, &planned, &generator_), GRAFT_OK) << h_.message();
  auto options = sized<graft_generate_options>();
  options.max_tokens = 3;
  options.log_probabilities = 1;
  options.most_probable = 2;
  ASSERT_EQ(graft_generate(generator_, "abcabc", &options, nullptr, nullptr), GRAFT_OK) << h_.message();
  auto last = sized<graft_generated>();
  ASSERT_EQ(graft_generator_last(generator_, &last), GRAFT_OK);
  ASSERT_EQ(last.token_count, 3u);
  ASSERT_NE(last.log_probabilities, nullptr);
  ASSERT_EQ(last.most_probable_count, 2u);
  EXPECT_EQ(last.most_probable[0].token, last.tokens[0]);
  EXPECT_EQ(last.most_probable[0].log_probability, last.log_probabilities[0]);
  EXPECT_LT(last.most_probable[1].log_probability, last.log_probabilities[0]);
  EXPECT_GT(last.first_token_ms, 0);
  EXPECT_GT(last.drafted_tokens, 0u) << "the prompt repeats itself";
  const std::int32_t second = last.most_probable[1].token;
  const graft_logit_bias never[] = {{last.tokens[0], -INFINITY}};
  options.bias = never;
  options.bias_count = 1;
  options.log_probabilities = 0;
  ASSERT_EQ(graft_generate(generator_, "abcabc", &options, nullptr, nullptr), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_generator_last(generator_, &last), GRAFT_OK);
  EXPECT_EQ(last.tokens[0], second);
  EXPECT_EQ(last.log_probabilities, nullptr);
  EXPECT_EQ(last.most_probable_count, 0u);
  options.bias = nullptr;
  EXPECT_EQ(graft_generate(generator_, "abc", &options, nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
}

TEST_F(CGenerator, TakesOtherAdaptersBetweenTexts) {
  // A text of the model with adapters of the seed, whose B is made anything but zero.
  const auto write = [&](const std::string& path, std::uint32_t seed) {
    const Model base = letter_model();
    auto adapted = with_lora(base, {.rank = 2, .alpha = 8}, seed);
    ASSERT_TRUE(adapted.ok()) << adapted.status().message();
    for (const ValueId id : adapted->graph.of_kind(ValueKind::parameter)) {
      std::vector<float> numbers(adapted->graph.value(id).shape.elements());
      for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::sin(static_cast<float>(seed * 7 + i));
      ASSERT_TRUE(adapted->copy_weight(id, std::as_bytes(std::span(numbers))).ok());
    }
    const auto adapters = adapter_of(*adapted);
    ASSERT_TRUE(adapters.ok()) << adapters.status().message();
    ASSERT_TRUE(save_model(os::system_files(), path, *adapters).ok());
  };
  const std::string paths[] = {folder_.file("one.graft"), folder_.file("two.graft")};
  write(paths[0], 1);
  write(paths[1], 2);
  auto options = sized<graft_generate_options>();
  options.max_tokens = 12;
  options.temperature = 1.5;
  options.seed = 11;
  const auto say = [&] {
    const char* text = "";
    EXPECT_EQ(graft_generate(generator_, "abc", &options, &text, nullptr), GRAFT_OK) << h_.message();
    return std::string(text);
  };
  std::string alone[2];
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(graft_model_load_adapters(h_.model, paths[i].c_str()), GRAFT_OK) << h_.message();
    ASSERT_EQ(graft_generator_create(h_.model, nullptr, &generator_), GRAFT_OK) << h_.message();
    alone[i] = say();
    graft_generator_destroy(std::exchange(generator_, nullptr));
  }
  EXPECT_NE(alone[0], alone[1]) << "choose another seed";
  ASSERT_EQ(graft_generator_create(h_.model, nullptr, &generator_), GRAFT_OK) << h_.message();
  EXPECT_EQ(say(), alone[1]);
  ASSERT_EQ(graft_generator_swap_adapters(generator_, paths[0].c_str()), GRAFT_OK) << h_.message();
  EXPECT_EQ(say(), alone[0]) << "nothing of the other adapters is left in the caches";
  ASSERT_EQ(graft_generator_swap_adapters(generator_, paths[1].c_str()), GRAFT_OK) << h_.message();
  EXPECT_EQ(say(), alone[1]);
  // Adapters that were swapped in outlive a pause, as does what the caches hold.
  ASSERT_EQ(graft_generator_swap_adapters(generator_, paths[0].c_str()), GRAFT_OK) << h_.message();
  EXPECT_EQ(say(), alone[0]);
  const std::uint64_t held = h_.context->device->memory().reserved_bytes;
  ASSERT_EQ(graft_generator_pause(generator_), GRAFT_OK) << h_.message();
  EXPECT_GT(held, 0u);
  EXPECT_EQ(h_.context->device->memory().reserved_bytes, 0u);
  auto memory = sized<graft_memory>();
  EXPECT_EQ(graft_generator_memory(generator_, &memory), GRAFT_OK) << "as planned, also while paused";
  EXPECT_EQ(say(), alone[0]);
  auto said = sized<graft_generated>();
  ASSERT_EQ(graft_generator_last(generator_, &said), GRAFT_OK);
  EXPECT_GT(said.cached_tokens, 0u);
  ASSERT_EQ(graft_generator_pause(generator_), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_generator_swap_adapters(generator_, paths[1].c_str()), GRAFT_OK) << h_.message();
  EXPECT_EQ(say(), alone[1]);
  ASSERT_EQ(graft_generator_pause(generator_), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_generator_resume(generator_), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_generator_resume(generator_), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_generator_pause(nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_generator_resume(nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_generator_swap_adapters(generator_, "nowhere.graft"), GRAFT_NOT_FOUND);
  EXPECT_EQ(graft_generator_swap_adapters(nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(say(), alone[1]);
}

TEST_F(CGenerator, KeepsResultsIn16Bits) {
  std::uint64_t activations = 0;
  for (const graft_precision precision : {GRAFT_PRECISION_F32, GRAFT_PRECISION_F16, GRAFT_PRECISION_BF16}) {
    auto wanted = sized<graft_generator_options>();
    wanted.precision = precision;
    ASSERT_EQ(graft_generator_create(h_.model, &wanted, &generator_), GRAFT_OK) << h_.message();
    auto memory = sized<graft_memory>();
    ASSERT_EQ(graft_generator_memory(generator_, &memory), GRAFT_OK);
    if (precision == GRAFT_PRECISION_F32) activations = memory.activations;
    EXPECT_EQ(memory.activations < activations, precision != GRAFT_PRECISION_F32);
    auto options = sized<graft_generate_options>();
    options.max_tokens = 4;
    const char* text = nullptr;
    ASSERT_EQ(graft_generate(generator_, "abc", &options, &text, nullptr), GRAFT_OK) << h_.message();
    EXPECT_NE(*text, 0);
    graft_generator_destroy(std::exchange(generator_, nullptr));
  }
}

TEST_F(CGenerator, RefusesWhatCannotBe) {
  graft_generator_destroy(nullptr);
  EXPECT_EQ(graft_generator_create(nullptr, nullptr, &generator_), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_generator_create(h_.model, nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
  auto wanted = sized<graft_generator_options>();
  wanted.context = 49;
  EXPECT_EQ(graft_generator_create(h_.model, &wanted, &generator_), GRAFT_INVALID_ARGUMENT);
  EXPECT_NE(h_.message().find("made for 48"), std::string::npos);
  wanted.context = 0;
  wanted.cache = static_cast<graft_cache_format>(4);
  EXPECT_EQ(graft_generator_create(h_.model, &wanted, &generator_), GRAFT_INVALID_ARGUMENT);
  wanted.cache = GRAFT_CACHE_Q8_0;  // 2 heads of 4 numbers
  EXPECT_EQ(graft_generator_create(h_.model, &wanted, &generator_), GRAFT_UNSUPPORTED);
  EXPECT_NE(h_.message().find("2 heads of keys with 4 elements"), std::string::npos) << h_.message();
  wanted.cache = GRAFT_CACHE_F32;
  wanted.budget = 100;
  EXPECT_EQ(graft_generator_create(h_.model, &wanted, &generator_), GRAFT_OUT_OF_MEMORY) << h_.message();
  EXPECT_EQ(generator_, nullptr);
  ASSERT_EQ(graft_generator_create(h_.model, nullptr, &generator_), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_generate(generator_, nullptr, nullptr, nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_generate(nullptr, "a", nullptr, nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_generate(generator_, "", nullptr, nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_generate(generator_, "xyz", nullptr, nullptr, nullptr), GRAFT_INVALID_ARGUMENT) << "no such letters";
  auto options = sized<graft_generate_options>();
  options.temperature = -1;
  EXPECT_EQ(graft_generate(generator_, "a", &options, nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
  options.temperature = 0;
  options.stop_count = 1;
  EXPECT_EQ(graft_generate(generator_, "a", &options, nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
  options.struct_size = sizeof options + 1;
  EXPECT_EQ(graft_generate(generator_, "a", &options, nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_generate(generator_, "a", nullptr, nullptr, nullptr), GRAFT_OK) << h_.message();
}

TEST_F(CGenerator, SeveralTextsInASampleTrainAsOneEach) {
  // Two texts of three tokens, beside each other or one a sample with padding; the last of each learns nothing.
  constexpr std::int64_t kLength = 6;
  const std::vector<std::int32_t> packed = {1, 5, 9, 2, 7, 3};
  const std::vector<std::int32_t> begins = {0, 0, 0, 3, 3, 3};
  const std::vector<std::int32_t> labels = {5, 9, -100, 7, 3, -100};
  const std::vector<std::int32_t> alone = {1, 5, 9, 0, 0, 0, 2, 7, 3, 0, 0, 0};
  const std::vector<std::int32_t> alone_labels = {5, 9, -100, -100, -100, -100, 7, 3, -100, -100, -100, -100};
  const graft_binding seq = {"seq", kLength};
  const auto train = [&](int packed_sequences, const std::vector<std::int32_t>& tokens,
                         const std::vector<std::int32_t>& wanted) {
    auto options = training_options(GRAFT_SGD);
    options.learning_rate = 0.1;
    options.batch = static_cast<std::uint32_t>(tokens.size()) / kLength;
    options.packed_sequences = packed_sequences;
    options.bindings = &seq;
    options.binding_count = 1;
    graft_trainer_destroy(h_.trainer);
    h_.trainer = nullptr;
    EXPECT_EQ(graft_trainer_create(h_.model, &options, &h_.trainer), GRAFT_OK) << h_.message();
    const void* inputs[] = {tokens.data(), begins.data()};
    const std::size_t count = packed_sequences != 0 ? 2 : 1;
    EXPECT_EQ(graft_train_step(h_.trainer, inputs, 3 - count, wanted.data(), options.batch, nullptr),
              GRAFT_INVALID_ARGUMENT);
    std::vector<double> losses;
    for (int i = 0; i < 3; ++i) {
      auto metrics = sized<graft_metrics>();
      EXPECT_EQ(graft_train_step(h_.trainer, inputs, count, wanted.data(), options.batch, &metrics), GRAFT_OK)
          << h_.message();
      losses.push_back(metrics.loss);
    }
    auto forecast = sized<graft_forecast>();
    EXPECT_EQ(graft_forecast_training(h_.model, &options, &forecast), GRAFT_OK) << h_.message();
    auto memory = sized<graft_memory>();
    EXPECT_EQ(graft_trainer_memory(h_.trainer, &memory), GRAFT_OK);
    EXPECT_EQ(forecast.total, memory.total);
    return losses;
  };
  const auto apart = train(0, alone, alone_labels);
  const auto together = train(1, packed, labels);
  const auto mixed = train(0, packed, labels);
  EXPECT_LT(apart[2], apart[0]);
  for (std::size_t i = 0; i < apart.size(); ++i) EXPECT_NEAR(together[i], apart[i], 1e-5);
  EXPECT_GT(std::abs(mixed[0] - apart[0]), 1e-4);
  EXPECT_EQ(graft_trainer_store(h_.trainer), GRAFT_OK) << h_.message();
}

}  // namespace
}  // namespace graft::test::c_api_generator_test
