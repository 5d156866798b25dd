// graft/embed.h: vectors of texts beside the model's own in double precision; models whose tokens see each other.
#include "graft/embed.h"

#include <cmath>

#include "runtime/core/op_id.gen.h"
#include "runtime/passes/decode_graph.h"
#include "tests/support/c_api.h"
#include "tests/support/letter_model.h"

namespace graft::test::c_api_embed_test {
namespace {

using Ids = std::vector<std::int32_t>;
const std::vector<Ids> kTexts = {{3}, {0, 5, 2, 9, 9, 1}, {7, 7}, {15, 14, 13, 12, 11, 10}, Ids(20, 4)};

/// The same without a head, as an encoder: every token sees all others.
Model encoder() {
  Model model = letter_model();
  Graph& graph = model.graph;
  const Node& head = graph.node(graph.value(graph.outputs()[0].value).producer);
  const ValueId hidden = head.inputs[0];
  for (std::uint32_t i = 0; i < graph.nodes().size(); ++i) {
    if (graph.nodes()[i].op == Op::attention) graph.mutable_node({i}).attrs.set("causal", std::int64_t{0});
  }
  graph.clear_outputs();
  graph.add_output("last_hidden_state", hidden);
  return model;
}

/// What the model gives for a text alone: vectors of its tokens.
std::vector<double> hidden_of(const Model& model, const Ids& text) {
  const ValueId output = model.graph.outputs()[0].value;
  const Node& last = model.graph.node(model.graph.value(output).producer);
  const ValueId hidden = model.graph.outputs()[0].name == "logits" ? last.inputs[0] : output;
  return letter_values(model, text)[model.graph.value(hidden).name].data;
}

class Embed : public testing::Test {
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
    ASSERT_EQ(graft_model_load(h_.context, path.c_str(), &h_.model), GRAFT_OK) << h_.message();
  }
  void TearDown() override { graft_embedder_destroy(embedder_); }

  graft_status make(const graft_embedder_options& options) {
    graft_embedder_destroy(embedder_);
    return graft_embedder_create(h_.model, &options, &embedder_);
  }
  graft_status embed(const std::vector<Ids>& texts) {
    std::vector<const std::int32_t*> ids;
    std::vector<std::size_t> counts;
    for (const Ids& text : texts) {
      ids.push_back(text.data());
      counts.push_back(text.size());
    }
    const float* vectors = nullptr;
    const graft_status done = graft_embed_tokens(embedder_, ids.data(), counts.data(), texts.size(), &vectors);
    if (done == GRAFT_OK) found_.assign(vectors, vectors + texts.size() * graft_embedder_width(embedder_));
    return done;
  }
  void expect_pooled(const Model& model, graft_pooling pooling, bool normalize) {
    const std::size_t width = graft_embedder_width(embedder_);
    ASSERT_EQ(width, 16u);
    for (std::size_t t = 0; t < kTexts.size(); ++t) {
      const std::vector<double> states = hidden_of(model, kTexts[t]);
      const std::size_t count = kTexts[t].size();
      std::vector<double> expected(width);
      for (std::size_t i = 0; i < count; ++i) {
        const bool counts = pooling == GRAFT_POOLING_MEAN || (pooling == GRAFT_POOLING_CLS ? i == 0 : i + 1 == count);
        const double share = pooling == GRAFT_POOLING_MEAN ? 1.0 / static_cast<double>(count) : 1;
        for (std::size_t k = 0; counts && k < width; ++k) expected[k] += share * states[i * width + k];
      }
      double squares = 0;
      for (const double x : expected) squares += x * x;
      const double length = normalize ? std::sqrt(squares) : 1;
      // f32 through two layers: some hundred roundings of numbers near 1.
      for (std::size_t k = 0; k < width; ++k) EXPECT_NEAR(found_[t * width + k], expected[k] / length, 3e-5) << t;
    }
  }

  TemporaryFolder folder_;
  std::string device_;
  CHandles h_;
  graft_embedder* embedder_ = nullptr;
  std::vector<float> found_;
};

TEST_F(Embed, IsWhatTheModelsVectorsPooledAre) {
  for (const bool causal : {true, false}) {
    const Model model = causal ? letter_model() : encoder();
    open(model);
    if (IsSkipped()) return;
    auto options = sized<graft_embedder_options>();
    options.batch = 2;
    options.length = 24;
    for (const graft_pooling pooling : {GRAFT_POOLING_MEAN, GRAFT_POOLING_LAST, GRAFT_POOLING_CLS}) {
      options.pooling = pooling;
      options.normalize = pooling == GRAFT_POOLING_LAST ? 1 : 0;
      ASSERT_EQ(make(options), GRAFT_OK) << h_.message();
      EXPECT_EQ(graft_embedder_length(embedder_), 24u);
      ASSERT_EQ(embed(kTexts), GRAFT_OK) << h_.message();
      expect_pooled(model, pooling, options.normalize != 0);
    }
    const std::vector<float> together = found_;
    ASSERT_EQ(embed({kTexts[1]}), GRAFT_OK) << h_.message();
    EXPECT_TRUE(std::equal(found_.begin(), found_.end(), together.begin() + 16)) << "alone, to the bit";
    graft_embedder_destroy(std::exchange(embedder_, nullptr));
    h_.destroy_parts();
  }
}

TEST_F(Embed, OfTextsSaysHowLongTheyAre) {
  open(letter_model());
  if (IsSkipped()) return;
  auto options = sized<graft_embedder_options>();
  options.length = 4;
  ASSERT_EQ(make(options), GRAFT_OK) << h_.message();
  const char* const texts[] = {"abc", "cab", "ponmlkji"};
  const float* vectors = nullptr;
  const std::uint32_t* counts = nullptr;
  EXPECT_EQ(graft_embed(embedder_, texts, 3, &vectors, &counts), GRAFT_INVALID_ARGUMENT);
  EXPECT_NE(h_.message().find("Text 2 has 8 tokens; 4 fit"), std::string::npos) << h_.message();
  options.cut = 1;
  ASSERT_EQ(make(options), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_embed(embedder_, texts, 3, &vectors, &counts), GRAFT_OK) << h_.message();
  EXPECT_EQ(std::vector<std::uint32_t>(counts, counts + 3), (std::vector<std::uint32_t>{3, 3, 8}));
  const std::vector<float> of_texts(vectors, vectors + 3 * graft_embedder_width(embedder_));
  ASSERT_EQ(embed({{0, 1, 2}, {2, 0, 1}, {15, 14, 13, 12}}), GRAFT_OK) << h_.message();
  EXPECT_EQ(found_, of_texts);
  auto memory = sized<graft_memory>();
  ASSERT_EQ(graft_embedder_memory(embedder_, &memory), GRAFT_OK) << h_.message();
  EXPECT_GT(memory.total, 0u);
  ASSERT_EQ(graft_embed(embedder_, nullptr, 0, nullptr, nullptr), GRAFT_OK) << "no texts, no vectors";
}

TEST_F(Embed, RefusesWhatItCannotTell) {
  open(letter_model());
  if (IsSkipped()) return;
  auto options = sized<graft_embedder_options>();
  options.pooling = static_cast<graft_pooling>(4);
  EXPECT_EQ(make(options), GRAFT_INVALID_ARGUMENT);
  options = sized<graft_embedder_options>();
  options.length = 49;
  EXPECT_EQ(make(options), GRAFT_INVALID_ARGUMENT);
  EXPECT_NE(h_.message().find("made for 48"), std::string::npos) << h_.message();
  options.length = 0;
  options.budget = 1000;
  EXPECT_EQ(make(options), GRAFT_OUT_OF_MEMORY) << h_.message();
  ASSERT_EQ(make(sized<graft_embedder_options>()), GRAFT_OK) << h_.message();
  EXPECT_EQ(embed({{1}, {}}), GRAFT_INVALID_ARGUMENT);
  EXPECT_NE(h_.message().find("Text 1 has no tokens"), std::string::npos) << h_.message();
  EXPECT_EQ(embed({{1}, {2, 17}}), GRAFT_INVALID_ARGUMENT);
  EXPECT_NE(h_.message().find("Token 17 of text 1"), std::string::npos) << h_.message();
  EXPECT_EQ(embed({{-1}}), GRAFT_INVALID_ARGUMENT);
  const char* const texts[] = {"a", nullptr};
  EXPECT_EQ(graft_embed(embedder_, texts, 2, nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_embed_tokens(embedder_, nullptr, nullptr, 1, nullptr), GRAFT_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace graft::test::c_api_embed_test
