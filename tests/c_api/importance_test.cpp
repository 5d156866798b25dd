// ctest: middle
// graft/importance.h: sums of squares beside those of the model's own values in double precision; what a chunk is; what
// is refused.
#include "graft/importance.h"

#include <cmath>
#include <limits>
#include <map>

#include "runtime/core/op_id.gen.h"
#include "runtime/text/tokenizer/vocabulary_bytes.h"
#include "tests/support/c_api.h"
#include "tests/support/letter_model.h"

namespace graft::test::c_api_importance_test {
namespace {

using Ids = std::vector<std::int32_t>;
using Sums = std::map<std::string, std::vector<double>>;
constexpr std::uint32_t kContext = 6;
const Ids kText = {3, 0, 5, 2, 9, 9, 1, 7, 7, 15, 14, 13, 12, 11, 10, 4, 4, 4, 8, 2};  // three chunks, and two more

/// What goes into each product with a matrix, squared and added up over chunks.
Sums expected_sums(const Model& model, const std::vector<Ids>& chunks, bool head) {
  Sums out;
  for (const Ids& chunk : chunks) {
    RefTensors values = letter_values(model, chunk);
    for (const Node& node : model.graph.nodes()) {
      const bool is_head = model.graph.value(node.outputs[0]).name.find("lm_head") != std::string::npos;
      if (node.op != Op::matmul || !model.weight(node.inputs[1]) || (is_head && !head)) continue;
      const std::vector<double>& x = values[model.graph.value(node.inputs[0]).name].data;
      std::vector<double>& sums = out[model.graph.value(node.inputs[1]).name];
      sums.resize(x.size() / chunk.size());
      for (std::size_t i = 0; i < x.size(); ++i) sums[i % sums.size()] += x[i] * x[i];
    }
  }
  return out;
}

/// The letters' model with tokens around each text.
Model with_ends(std::vector<text::TokenId> before, std::vector<text::TokenId> after) {
  Model model = letter_model();
  text::Vocabulary vocabulary = text::vocabulary_from_bytes(std::as_bytes(std::span(model.tokenizer->bytes))).value();
  vocabulary.before = std::move(before);
  vocabulary.after = std::move(after);
  model.tokenizer->bytes = text::vocabulary_to_bytes(vocabulary);
  return model;
}

class ImportanceApi : public testing::Test {
 protected:
  void open(const Model& model) {
    const std::string path = folder_.file("m.graft");
    ASSERT_TRUE(save_model(os::system_files(), path, model).ok());
    if (h_.context == nullptr) {
      const auto options = context_options(device_);
      const graft_status made = graft_context_create(&options, &h_.context);
      if (made == GRAFT_NOT_FOUND) GTEST_SKIP() << h_.message();
      ASSERT_EQ(made, GRAFT_OK) << h_.message();
    }
    graft_importance_destroy(std::exchange(importance_, nullptr));
    h_.destroy_parts();
    ASSERT_EQ(graft_model_load(h_.context, path.c_str(), &h_.model), GRAFT_OK) << h_.message();
  }
  void TearDown() override { graft_importance_destroy(importance_); }

  static graft_importance_options options_of(std::uint32_t context) {
    auto options = sized<graft_importance_options>();
    options.context = context;
    return options;
  }
  graft_status make(const graft_importance_options& options) {
    graft_importance_destroy(std::exchange(importance_, nullptr));
    return graft_importance_create(h_.model, &options, &importance_);
  }
  graft_status add(const Ids& text, std::uint64_t* waiting = nullptr) {
    return graft_importance_add_tokens(importance_, text.data(), text.size(), waiting);
  }
  void compute_all() {
    for (std::uint64_t waiting = 1; waiting != 0;) {
      ASSERT_EQ(graft_importance_step(importance_, &waiting), GRAFT_OK) << h_.message();
    }
  }
  graft_importance_info info() {
    auto info = sized<graft_importance_info>();
    EXPECT_EQ(graft_importance_describe(importance_, &info), GRAFT_OK) << h_.message();
    return info;
  }
  Sums found(std::uint64_t tokens) {
    Sums out;
    for (std::size_t i = 0; i < graft_importance_count(importance_); ++i) {
      graft_importance_matrix one = {};
      EXPECT_EQ(graft_importance_at(importance_, i, &one), GRAFT_OK) << h_.message();
      EXPECT_EQ(one.tokens, tokens) << one.name;
      out[one.name].assign(one.sums, one.sums + one.columns);
    }
    EXPECT_EQ(out.size(), graft_importance_count(importance_)) << "no name twice";
    return out;
  }
  void expect_sums(const Sums& expected, std::uint64_t tokens) {
    const Sums sums = found(tokens);
    ASSERT_EQ(sums.size(), expected.size());
    for (const auto& [name, numbers] : expected) {
      ASSERT_TRUE(sums.contains(name)) << name;
      ASSERT_EQ(sums.at(name).size(), numbers.size()) << name;
      // f32 through two layers, squared.
      for (std::size_t k = 0; k < numbers.size(); ++k) {
        EXPECT_NEAR(sums.at(name)[k], numbers[k], 1e-4 * numbers[k] + 1e-6) << name;
      }
    }
  }
  bool says(const char* part) const { return h_.message().find(part) != std::string::npos; }

  TemporaryFolder folder_;
  std::string device_;
  CHandles h_;
  graft_importance* importance_ = nullptr;
};

const std::vector<Ids> kChunks = {{3, 0, 5, 2, 9, 9}, {1, 7, 7, 15, 14, 13}, {12, 11, 10, 4, 4, 4}};

TEST_F(ImportanceApi, SumsAreThoseOfTheModelsValues) {
  const Model model = letter_model();
  open(model);
  if (IsSkipped()) return;
  for (const bool head : {false, true}) {
    auto options = options_of(kContext);
    options.head = head ? 1 : 0;
    ASSERT_EQ(make(options), GRAFT_OK) << h_.message();
    EXPECT_EQ(graft_importance_count(importance_), head ? 15u : 14u);  // seven of each of two layers
    std::uint64_t waiting = 0;
    ASSERT_EQ(add(kText, &waiting), GRAFT_OK) << h_.message();
    EXPECT_EQ(waiting, 3u);
    compute_all();
    EXPECT_EQ(info().context, kContext);
    EXPECT_EQ(info().chunks, 3u);
    EXPECT_EQ(info().dropped, 2u);
    expect_sums(expected_sums(model, kChunks, head), 18);
  }
}

TEST_F(ImportanceApi, ChunksOfSeveralTextsAddUpToTheLimit) {
  const Model model = letter_model();
  open(model);
  if (IsSkipped()) return;
  auto options = options_of(kContext);
  options.chunks = 2;
  ASSERT_EQ(make(options), GRAFT_OK) << h_.message();
  ASSERT_EQ(add(kChunks[2]), GRAFT_OK) << h_.message();
  compute_all();
  expect_sums(expected_sums(model, {kChunks[2]}, false), 6);
  std::uint64_t waiting = 0;
  ASSERT_EQ(add(kText, &waiting), GRAFT_OK) << h_.message();
  EXPECT_EQ(waiting, 1u) << "two in all";
  compute_all();
  ASSERT_EQ(add(kText, &waiting), GRAFT_OK) << h_.message();
  EXPECT_EQ(waiting, 0u);
  EXPECT_EQ(info().dropped, 14u + 20u);
  expect_sums(expected_sums(model, {kChunks[0], kChunks[2]}, false), 12);
}

TEST_F(ImportanceApi, ChunksBeginAsTextsDo) {
  const Model model = with_ends({16}, {1, 1});
  open(model);
  if (IsSkipped()) return;
  ASSERT_EQ(make(options_of(kContext)), GRAFT_OK) << h_.message();
  const std::string text = "dafcjjbhhpo";  // with one before them two chunks; those behind are no part of it
  ASSERT_EQ(graft_importance_add(importance_, text.data(), text.size(), nullptr), GRAFT_OK) << h_.message();
  compute_all();
  EXPECT_EQ(info().dropped, 0u);
  expect_sums(expected_sums(model, {{16, 3, 0, 5, 2, 9}, {16, 1, 7, 7, 15, 14}}, false), 12);
  EXPECT_EQ(graft_importance_add(importance_, "abc", 3, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(says("4 tokens") && says("chunk of 6")) << h_.message();
  EXPECT_EQ(graft_importance_add(importance_, nullptr, 0, nullptr), GRAFT_INVALID_ARGUMENT) << "no text";
  expect_sums(expected_sums(model, {{16, 3, 0, 5, 2, 9}, {16, 1, 7, 7, 15, 14}}, false), 12);
}

TEST_F(ImportanceApi, AdaptersHaveNone) {
  const Model model = letter_model();
  open(model);
  if (IsSkipped()) return;
  ASSERT_EQ(graft_model_add_adapters(h_.model, "r=2", 1), GRAFT_OK) << h_.message();
  ASSERT_EQ(make(options_of(kContext)), GRAFT_OK) << h_.message();
  ASSERT_EQ(add(kChunks[0]), GRAFT_OK) << h_.message();
  compute_all();
  expect_sums(expected_sums(model, {kChunks[0]}, false), 6);  // fresh ones change nothing
}

TEST_F(ImportanceApi, WhatIsNotFiniteIsNamedAndAddsNothing) {
  Model model = letter_model();
  const ValueId norm = model.graph.find_value("model.layers.1.post_attention_layernorm.weight");
  std::vector<float> numbers(16, 1e30F);  // whose squares f32 does not hold
  ASSERT_TRUE(model.copy_weight(norm, std::as_bytes(std::span(numbers))).ok());
  open(model);
  if (IsSkipped()) return;
  ASSERT_EQ(make(options_of(kContext)), GRAFT_OK) << h_.message();
  ASSERT_EQ(add(kChunks[0]), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_importance_step(importance_, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(says("layers.1.mlp") && says("not finite")) << h_.message();
  EXPECT_EQ(info().waiting, 1u);
  for (const auto& [name, sums] : found(0)) EXPECT_EQ(sums, std::vector<double>(sums.size())) << name;
}

TEST_F(ImportanceApi, RefusesWhatItCannotTell) {
  open(letter_model());
  if (IsSkipped()) return;
  EXPECT_EQ(make(options_of(49)), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(says("made for 48")) << h_.message();
  auto small = options_of(0);
  small.budget = 1000;
  EXPECT_EQ(make(small), GRAFT_OUT_OF_MEMORY) << h_.message();
  ASSERT_EQ(make(options_of(0)), GRAFT_OK) << h_.message();
  EXPECT_EQ(info().context, 48u) << "the model's own";
  auto memory = sized<graft_memory>();
  ASSERT_EQ(graft_importance_memory(importance_, &memory), GRAFT_OK) << h_.message();
  EXPECT_GT(memory.total, 0u);
  EXPECT_EQ(add(Ids(48, 17)), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(says("Token 17")) << h_.message();
  EXPECT_EQ(add(Ids(48, -1)), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_importance_add_tokens(importance_, nullptr, 48, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_importance_step(importance_, nullptr), GRAFT_OK) << "nothing waits";
  EXPECT_EQ(info().chunks, 0u);
  graft_importance_matrix one = {};
  EXPECT_EQ(graft_importance_at(importance_, 14, &one), GRAFT_NOT_FOUND);
  EXPECT_EQ(graft_importance_at(importance_, 0, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_importance_create(h_.model, nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
  Model encoder = letter_model({.tokenizer = false});
  open(encoder);
  ASSERT_EQ(make(options_of(8)), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_importance_add(importance_, "abcdefgh", 8, nullptr), GRAFT_NOT_FOUND) << "without a tokenizer";
  for (std::uint32_t i = 0; i < encoder.graph.nodes().size(); ++i) {
    if (encoder.graph.nodes()[i].op == Op::attention)
      encoder.graph.mutable_node({i}).attrs.set("causal", std::int64_t{0});
  }
  open(encoder);
  EXPECT_EQ(make(options_of(8)), GRAFT_UNSUPPORTED);
  EXPECT_TRUE(says("Only causal language models") && says("encoder")) << h_.message();
  write_model(tiny_mlp(4, 4, 2), folder_.file("m.graft"));
  h_.destroy_parts();
  ASSERT_EQ(graft_model_load(h_.context, folder_.file("m.graft").c_str(), &h_.model), GRAFT_OK) << h_.message();
  EXPECT_EQ(make(options_of(8)), GRAFT_UNSUPPORTED);
  EXPECT_TRUE(says("Only causal language models")) << h_.message();
}

}  // namespace
}  // namespace graft::test::c_api_importance_test
