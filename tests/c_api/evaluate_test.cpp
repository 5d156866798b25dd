// Evaluations, comparisons, what a run makes of them, and data sets that are opened for a model, by the C ABI.
#include "graft/evaluate.h"

#include <cmath>

#include "graft/language.h"
#include "runtime/text/tokenizer/vocabulary_bytes.h"
#include "tests/support/c_api.h"
#include "tests/support/letter_model.h"

namespace graft::test::c_api_evaluate_test {
namespace {

constexpr std::uint64_t kRows = 12;

class CApiEvaluate : public CApi {
 protected:
  void SetUp() override {
    CApi::SetUp();
    if (h_.model == nullptr) return;
    data::Random random(data::mix(3));
    x_.resize(kRows * kInputs);
    for (float& value : x_) value = static_cast<float>(random.uniform(-1, 1));
    for (std::uint64_t i = 0; i < kRows; ++i) labels_.push_back(static_cast<std::int32_t>(i) % kClasses);
    graft_field fields[2] = {};
    fields[0] = {"x", GRAFT_F32, 1, {kInputs}, 0};
    fields[1] = {"label", GRAFT_I32, 0, {}, 1};
    const void* const blocks[] = {x_.data(), labels_.data()};
    ASSERT_EQ(graft_data_from_memory(h_.context, fields, 2, blocks, kRows, &set_), GRAFT_OK) << h_.message();
  }
  void TearDown() override {
    graft_evaluation_destroy(evaluation_);
    graft_data_destroy(set_);
  }

  graft_status evaluate(const char* metrics, int confusion = 0, int outcomes = 0) {
    graft_evaluation_destroy(evaluation_);
    evaluation_ = nullptr;
    auto options = sized<graft_evaluation_options>();
    options.metrics = metrics;
    options.confusion = confusion;
    options.outcomes = outcomes;
    return graft_evaluate_model(h_.model, set_, &options, &evaluation_);
  }

  std::vector<float> x_;
  std::vector<std::int32_t> labels_;
  graft_data_set* set_ = nullptr;
  graft_evaluation* evaluation_ = nullptr;
};

TEST_F(CApiEvaluate, MetricsAndTheConfusionMatrixFitTogether) {
  ASSERT_EQ(evaluate("accuracy,f1,recall", 1), GRAFT_OK) << h_.message();
  auto totals = sized<graft_totals>();
  ASSERT_EQ(graft_evaluation_totals(evaluation_, &totals), GRAFT_OK);
  EXPECT_EQ(totals.samples, kRows);
  EXPECT_NEAR(totals.perplexity, std::exp(totals.loss), 1e-9 * totals.perplexity);
  EXPECT_TRUE(std::isnan(totals.top5)) << "of three classes";
  ASSERT_EQ(graft_evaluation_count(evaluation_), 3u);
  auto value = sized<graft_metric_value>();
  ASSERT_EQ(graft_evaluation_metric(evaluation_, 0, &value), GRAFT_OK);
  EXPECT_STREQ(value.name, "accuracy");
  EXPECT_EQ(value.value, totals.accuracy);
  EXPECT_EQ(value.by_class, nullptr);
  const std::uint64_t* counts = nullptr;
  std::size_t classes = 0;
  ASSERT_EQ(graft_evaluation_confusion(evaluation_, &counts, &classes), GRAFT_OK);
  ASSERT_EQ(classes, std::size_t{kClasses});
  ASSERT_EQ(graft_evaluation_metric(evaluation_, 2, &value), GRAFT_OK);
  ASSERT_EQ(value.class_count, classes);
  std::uint64_t right = 0;
  for (std::size_t c = 0; c < classes; ++c) {
    std::uint64_t rows = 0;
    for (std::size_t p = 0; p < classes; ++p) rows += counts[c * classes + p];
    EXPECT_EQ(rows, kRows / kClasses);
    EXPECT_DOUBLE_EQ(value.by_class[c], static_cast<double>(counts[c * classes + c]) / static_cast<double>(rows));
    right += counts[c * classes + c];
  }
  EXPECT_DOUBLE_EQ(totals.accuracy, static_cast<double>(right) / kRows);
  EXPECT_EQ(graft_evaluation_metric(evaluation_, 3, &value), GRAFT_NOT_FOUND);
  EXPECT_EQ(graft_evaluation_class(evaluation_, 0), nullptr);
}

TEST_F(CApiEvaluate, RefusesWhatItWasNotAskedFor) {
  EXPECT_EQ(evaluate("speed"), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "speed")) << h_.message();
  EXPECT_TRUE(contains(graft_metric_names(), "auroc"));
  EXPECT_EQ(graft_evaluate_model(h_.model, nullptr, nullptr, &evaluation_), GRAFT_INVALID_ARGUMENT);
  ASSERT_EQ(evaluate(nullptr), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_evaluation_confusion(evaluation_, nullptr, nullptr), GRAFT_NOT_FOUND);
  auto comparison = sized<graft_comparison>();
  EXPECT_EQ(graft_evaluations_compare(evaluation_, evaluation_, &comparison), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "outcomes")) << h_.message();
  // A comparison of a model with itself says that nothing changed.
  ASSERT_EQ(evaluate(nullptr, 0, 1), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_evaluations_compare(evaluation_, evaluation_, &comparison), GRAFT_OK) << h_.message();
  EXPECT_EQ(comparison.rows, kRows);
  EXPECT_EQ(comparison.both_right + comparison.neither, kRows);
  EXPECT_EQ(comparison.changed_count, 0u);
  EXPECT_EQ(comparison.class_count, std::size_t{kClasses});
  EXPECT_EQ(comparison.p_value, 1);
}

TEST_F(CApiEvaluate, ATrainerIsObservedAndComparedWithItsModel) {
  auto options = training_options();
  options.data = set_;
  options.batch = kRows;
  options.schedule = GRAFT_PLATEAU;
  options.learning_rate = 0.1;
  options.predictions = 1;
  ASSERT_EQ(graft_trainer_create(h_.model, &options, &h_.trainer), GRAFT_OK) << h_.message();
  ASSERT_EQ(evaluate(nullptr, 0, 1), GRAFT_OK) << h_.message();
  for (int step = 0; step < 5; ++step) {
    const void* const inputs[] = {x_.data()};
    ASSERT_EQ(graft_train_step(h_.trainer, inputs, 1, labels_.data(), kRows, nullptr), GRAFT_OK) << h_.message();
  }
  auto wanted = sized<graft_evaluation_options>();
  wanted.metrics = "f1";
  wanted.outcomes = 1;
  graft_evaluation* now = nullptr;
  ASSERT_EQ(graft_evaluate_trainer(h_.trainer, set_, &wanted, &now), GRAFT_OK) << h_.message();
  auto comparison = sized<graft_comparison>();
  ASSERT_EQ(graft_evaluations_compare(evaluation_, now, &comparison), GRAFT_OK) << h_.message();
  EXPECT_GT(comparison.only_new, comparison.only_old) << "five steps on these very samples";
  EXPECT_EQ(comparison.gained_count, comparison.only_new) << "a sample is a row";
  EXPECT_EQ(comparison.regression, 0) << "of classes";
  auto totals = sized<graft_totals>();
  ASSERT_EQ(graft_evaluation_totals(now, &totals), GRAFT_OK);
  EXPECT_TRUE(std::isnan(totals.reward_margin)) << "nothing is preferred";

  auto watch = sized<graft_watch_options>();
  watch.plateau = "loss";
  watch.patience = 0;
  watch.factor = 0.5;
  watch.early_stop = "f1";
  watch.stop_patience = 2;
  watch.best = "accuracy";
  auto verdict = sized<graft_verdict>();
  const auto observe = [&] { return graft_trainer_observe(h_.trainer, now, &watch, &verdict); };
  ASSERT_EQ(observe(), GRAFT_OK) << h_.message();
  EXPECT_EQ(verdict.best, 1);
  EXPECT_EQ(verdict.stop + verdict.slower, 0);
  ASSERT_EQ(observe(), GRAFT_OK) << h_.message();
  EXPECT_EQ(verdict.best, 0) << "the same again is no better";
  EXPECT_EQ(verdict.slower, 1);
  EXPECT_EQ(verdict.learning_rate, 0.05);
  EXPECT_EQ(verdict.stop, 0);
  ASSERT_EQ(observe(), GRAFT_OK) << h_.message();
  EXPECT_EQ(verdict.stop, 1);
  double rate = 0;
  ASSERT_EQ(graft_trainer_learning_rate(h_.trainer, &rate), GRAFT_OK);
  EXPECT_EQ(rate, 0.025);
  watch.best = "auroc";
  EXPECT_EQ(observe(), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "auroc")) << h_.message();
  graft_evaluation_destroy(now);
}

TEST_F(CApiEvaluate, AProximalTermPullsBackAndFusionChangesNoBit) {
  const auto after = [&](double proximal, int no_fusion) {
    auto options = training_options(GRAFT_SGD);
    options.learning_rate = 0.1;
    options.batch = kRows;
    options.proximal = proximal;
    options.no_fusion = no_fusion;
    EXPECT_EQ(graft_trainer_create(h_.model, &options, &h_.trainer), GRAFT_OK) << h_.message();
    const void* const inputs[] = {x_.data()};
    auto metrics = sized<graft_metrics>();
    for (int step = 0; step < 3; ++step) {
      EXPECT_EQ(graft_train_step(h_.trainer, inputs, 1, labels_.data(), kRows, &metrics), GRAFT_OK) << h_.message();
    }
    graft_trainer_destroy(h_.trainer);
    h_.trainer = nullptr;
    return metrics.loss;
  };
  const double plain = after(0, 0);
  EXPECT_EQ(after(0, 1), plain);
  EXPECT_NE(after(1, 0), plain);
}

TEST(CApiDataFor, TextIsReadAsTokensOfAModelAndAPartOfIt) {
  CHandles h;
  auto options = sized<graft_context_options>();
  options.device = "none";
  ASSERT_EQ(graft_context_create(&options, &h.context), GRAFT_OK) << h.message();
  const TemporaryFolder folder;
  ASSERT_TRUE(save_model(os::system_files(), folder.file("letters.graft"), letter_model()).ok());
  ASSERT_EQ(graft_model_load(h.context, folder.file("letters.graft").c_str(), &h.model), GRAFT_OK) << h.message();
  const std::string spec = "text:" + folder.write("text", std::string(100, 'a'));
  graft_data_set* set = nullptr;
  EXPECT_EQ(graft_data_open(h.context, spec.c_str(), &set), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h.message(), "model")) << h.message();
  auto wanted = sized<graft_data_options>();
  wanted.model = h.model;
  wanted.length = 8;
  ASSERT_EQ(graft_data_open_with(h.context, spec.c_str(), &wanted, &set), GRAFT_OK) << h.message();
  const std::uint64_t all = graft_data_samples(set);
  EXPECT_GE(all, 10u);
  graft_data_destroy(set);
  wanted.first = 2;
  wanted.count = 3;
  ASSERT_EQ(graft_data_open_with(h.context, spec.c_str(), &wanted, &set), GRAFT_OK) << h.message();
  EXPECT_EQ(graft_data_samples(set), 3u);
  graft_field field{};
  ASSERT_EQ(graft_data_field(set, 0, &field), GRAFT_OK);
  EXPECT_STREQ(field.name, "tokens");
  EXPECT_EQ(field.dims[0], 8);
  EXPECT_EQ(graft_model_keep_classes(h.model, set), GRAFT_NOT_FOUND);
  graft_data_destroy(set);
  wanted.first = all;
  EXPECT_EQ(graft_data_open_with(h.context, spec.c_str(), &wanted, &set), GRAFT_INVALID_ARGUMENT);
  const std::string foreign = spec + "?tokenizer=tokenizer.json";
  wanted.first = 0;
  wanted.count = 0;
  EXPECT_EQ(graft_data_open_with(h.context, foreign.c_str(), &wanted, &set), GRAFT_UNSUPPORTED);
  // With a tokenizer of the app's own: the vocabulary turned around.
  text::Vocabulary words;
  for (int i = 0; i < 16; ++i) words.tokens.push_back({.text = std::string(1, static_cast<char>('p' - i))});
  const std::string bytes = text::vocabulary_to_bytes(words);
  graft_tokenizer* tokenizer = nullptr;
  EXPECT_EQ(graft_tokenizer_open(h.context, bytes.data(), bytes.size() / 2, &tokenizer), GRAFT_CORRUPT);
  EXPECT_EQ(graft_tokenizer_open(h.context, nullptr, 0, &tokenizer), GRAFT_INVALID_ARGUMENT);
  ASSERT_EQ(graft_tokenizer_open(h.context, bytes.data(), bytes.size(), &tokenizer), GRAFT_OK) << h.message();
  EXPECT_EQ(graft_tokenizer_find(tokenizer, "p"), 0);
  wanted.tokenizer = tokenizer;
  ASSERT_EQ(graft_data_open_with(h.context, foreign.c_str(), &wanted, &set), GRAFT_OK) << h.message();
  graft_tokenizer_destroy(tokenizer);
  auto summary = sized<graft_data_summary>();
  ASSERT_EQ(graft_data_describe(set, &summary), GRAFT_OK) << h.message();
  EXPECT_EQ(summary.is_text, 1);
  EXPECT_TRUE(contains(summary.text, "samples")) << summary.text;
  EXPECT_EQ(summary.json[0], '{') << summary.json;
  graft_data_destroy(set);
  const std::string records =
      "jsonl:" + folder.write("long.jsonl", "{\"prompt\": \"ab\", \"completion\": \"abcdefghijklmnop\"}\n");
  wanted.tokenizer = nullptr;
  wanted.on_long = GRAFT_ON_LONG_ERROR;
  EXPECT_EQ(graft_data_open_with(h.context, records.c_str(), &wanted, &set), GRAFT_INVALID_ARGUMENT);
  wanted.on_long = GRAFT_ON_LONG_CUT;
  ASSERT_EQ(graft_data_open_with(h.context, records.c_str(), &wanted, &set), GRAFT_OK) << h.message();
  ASSERT_EQ(graft_data_describe(set, &summary), GRAFT_OK) << h.message();
  EXPECT_EQ(summary.lost, 1) << summary.text;
  graft_data_destroy(set);
  wanted.on_long = static_cast<graft_on_long>(9);
  EXPECT_EQ(graft_data_open_with(h.context, records.c_str(), &wanted, &set), GRAFT_INVALID_ARGUMENT);
}

// A picture that is its own pixels: a byte each of width and height, then three bytes a pixel.
int own_size(void*, const void* file, std::size_t bytes, std::uint32_t* width, std::uint32_t* height) {
  const auto* from = static_cast<const unsigned char*>(file);
  if (bytes < 2) return 1;
  *width = from[0];
  *height = from[1];
  return 0;
}
int own_pixels(void*, const void* file, std::size_t bytes, graft_pixels pixels, void* out, std::size_t out_bytes) {
  if (pixels != GRAFT_PIXELS_RGB || bytes != out_bytes + 2) return 1;
  std::memcpy(out, static_cast<const unsigned char*>(file) + 2, out_bytes);
  return 0;
}

TEST(CApiDataFor, AnAppsDecodersReadPicturesOfFolders) {
  CHandles h;
  auto options = sized<graft_context_options>();
  options.device = "none";
  ASSERT_EQ(graft_context_create(&options, &h.context), GRAFT_OK) << h.message();
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.file("set/cat"));
  std::filesystem::create_directories(folder.file("set/dog"));
  folder.write("set/cat/1.png", std::string("\x01\x01\xff\xff\xff", 5));
  folder.write("set/dog/1.png", std::string("\x01\x01\0\0\0", 5));
  const std::string spec = "folder:" + folder.file("set");
  graft_data_set* set = nullptr;
  auto wanted = sized<graft_data_options>();
  EXPECT_NE(graft_data_open_with(h.context, spec.c_str(), &wanted, &set), GRAFT_OK) << "nothing reads pictures";
  auto media = sized<graft_media>();
  media.image_formats = "PNG";
  wanted.media = &media;
  EXPECT_EQ(graft_data_open_with(h.context, spec.c_str(), &wanted, &set), GRAFT_INVALID_ARGUMENT);
  media.image_size = own_size;
  media.decode_image = own_pixels;
  media.failure = [](void*) { return "is of no use."; };
  ASSERT_EQ(graft_data_open_with(h.context, spec.c_str(), &wanted, &set), GRAFT_OK) << h.message();
  EXPECT_EQ(graft_data_samples(set), 2u);
  auto summary = sized<graft_data_summary>();
  ASSERT_EQ(graft_data_describe(set, &summary), GRAFT_OK) << h.message();
  EXPECT_EQ(summary.is_text, 0);
  EXPECT_STREQ(summary.text, "");
  write_model(tiny_mlp(kInputs, 6, kClasses), folder.file("m.graft"));
  ASSERT_EQ(graft_model_load(h.context, folder.file("m.graft").c_str(), &h.model), GRAFT_OK) << h.message();
  EXPECT_EQ(graft_model_class(h.model, 0), nullptr);
  ASSERT_EQ(graft_model_keep_classes(h.model, set), GRAFT_OK) << h.message();
  EXPECT_STREQ(graft_model_class(h.model, 1), "dog");
  EXPECT_EQ(graft_model_class(h.model, 2), nullptr);
  auto in_order = sized<graft_loader_options>();
  in_order.batch = 2;
  in_order.in_order = 1;
  in_order.read_threads = 1;
  graft_loader* loader = nullptr;
  ASSERT_EQ(graft_loader_create(set, &in_order, &loader), GRAFT_OK) << h.message();
  auto batch = sized<graft_batch>();
  ASSERT_EQ(graft_loader_next(loader, &batch), GRAFT_OK) << h.message();
  const auto* pixels = static_cast<const float*>(batch.fields[0]);
  EXPECT_GT(pixels[0], pixels[3]) << "white before black";
  graft_loader_destroy(loader);
  graft_data_destroy(set);
}

TEST(CApiSignatures, ASessionRunsOneOfThem) {
  std::string device;
  const auto options = context_options(device);
  CHandles h;
  if (graft_context_create(&options, &h.context) == GRAFT_NOT_FOUND) GTEST_SKIP() << h.message();
  const TemporaryFolder folder;
  Model model = model_of(tiny_mlp(kInputs, 6, kClasses));
  const Graph& graph = model.graph;
  const ValueId hidden = graph.nodes().front().outputs[0];
  model.signatures.push_back({"features", {{"x", graph.inputs()[0]}}, {{"inner", hidden}}});
  ASSERT_TRUE(save_model(os::system_files(), folder.file("m.graft"), model).ok());
  ASSERT_EQ(graft_model_load(h.context, folder.file("m.graft").c_str(), &h.model), GRAFT_OK) << h.message();
  ASSERT_EQ(graft_model_signature_count(h.model), 1u);
  auto signature = sized<graft_signature>();
  ASSERT_EQ(graft_model_signature(h.model, 0, &signature), GRAFT_OK);
  EXPECT_STREQ(signature.name, "features");
  EXPECT_EQ(signature.output_count, 1u);
  EXPECT_EQ(graft_model_signature(h.model, 1, &signature), GRAFT_NOT_FOUND);
  graft_tensor_info info{};
  ASSERT_EQ(graft_model_signature_tensor(h.model, 0, GRAFT_OUTPUTS, 0, &info), GRAFT_OK);
  EXPECT_STREQ(info.name, "inner");
  EXPECT_EQ(graft_model_signature_tensor(h.model, 0, GRAFT_PARAMETERS, 0, &info), GRAFT_INVALID_ARGUMENT);
  const graft_binding batch = {"batch", 1};
  auto wanted = sized<graft_session_options>();
  wanted.bindings = &batch;
  wanted.binding_count = 1;
  wanted.signature = "features";
  ASSERT_EQ(graft_session_create(h.model, &wanted, &h.session), GRAFT_OK) << h.message();
  const float x[kInputs] = {1, 2, 3, 4, 5};
  ASSERT_EQ(graft_session_set_input(h.session, graph.value(graph.inputs()[0]).name.c_str(), x, sizeof x), GRAFT_OK);
  ASSERT_EQ(graft_session_run(h.session), GRAFT_OK) << h.message();
  std::size_t bytes = 0;
  ASSERT_EQ(graft_session_output(h.session, "inner", nullptr, &bytes, nullptr), GRAFT_OK) << h.message();
  EXPECT_GT(bytes, 0u);
  EXPECT_EQ(graft_session_output(h.session, graph.outputs()[0].name.c_str(), nullptr, nullptr, nullptr),
            GRAFT_NOT_FOUND);
  wanted.signature = "other";
  graft_session* none = nullptr;
  EXPECT_EQ(graft_session_create(h.model, &wanted, &none), GRAFT_NOT_FOUND);
  EXPECT_TRUE(contains(h.message(), "features")) << h.message();
}

}  // namespace
}  // namespace graft::test::c_api_evaluate_test
