// ctest: middle
// The C ABI: preferences against a reference, and several adapters at once.
#include <cmath>
#include <map>
#include <string_view>

#include "graft/embed.h"
#include "graft/language.h"

#include "runtime/c_api/c_handles.h"
#include "tests/support/c_api.h"
#include "tests/support/letter_model.h"

namespace graft::test::c_api_preference_test {
namespace {

constexpr std::string_view kPairs =
    R"({"prompt": "ab", "chosen": "c", "rejected": "dd"}
{"prompt": "a", "chosen": "ef", "rejected": "gp"}
{"prompt": "c", "chosen": "ab", "rejected": "ac"}
{"prompt": "p", "chosen": "o", "rejected": "n"}
)";

class CPreference : public CApi {
 protected:
  void SetUp() override {
    CApi::SetUp();
    if (h_.context == nullptr || h_.model == nullptr) return;
    const std::string path = folder_.file("letters.graft");
    ASSERT_TRUE(save_model(os::system_files(), path, letter_model()).ok());
    graft_model_destroy(h_.model);
    h_.model = nullptr;
    ASSERT_EQ(graft_model_load(h_.context, path.c_str(), &h_.model), GRAFT_OK) << h_.message();
    ASSERT_EQ(graft_model_load(h_.context, path.c_str(), &base_), GRAFT_OK) << h_.message();
  }
  void TearDown() override {
    graft_loader_destroy(loader_);
    graft_trainer_destroy(h_.trainer);
    h_.trainer = nullptr;
    graft_data_destroy(set_);
    graft_model_destroy(base_);
  }

  graft_status open(std::string_view text, graft_preference preference) {
    graft_data_destroy(set_);
    auto options = sized<graft_data_options>();
    options.model = base_;
    options.length = 8;
    options.preference = preference;
    const std::string spec = "jsonl:" + folder_.write("pairs.jsonl", text);
    return graft_data_open_with(h_.context, spec.c_str(), &options, &set_);
  }

  graft_model* base_ = nullptr;
  graft_data_set* set_ = nullptr;
  graft_loader* loader_ = nullptr;
};

TEST_F(CPreference, PairsAreLearnedAgainstTheModelWithoutAdapters) {
  ASSERT_EQ(open(kPairs, GRAFT_PREFERENCE_PAIRS), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_data_field_count(set_), 4U);
  graft_field field{};
  ASSERT_EQ(graft_data_field(set_, 3, &field), GRAFT_OK);
  EXPECT_STREQ(field.name, "reference");
  EXPECT_EQ(field.dims[0], 2);
  ASSERT_EQ(graft_data_field(set_, 0, &field), GRAFT_OK);
  EXPECT_EQ(field.dims[0], 16) << "two texts";
  ASSERT_EQ(graft_data_add_reference(set_, base_, 3), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_model_add_adapters(h_.model, "r=4", 1), GRAFT_OK) << h_.message();
  auto options = training_options();
  options.loss = GRAFT_LOSS_DPO;
  options.preference_beta = 0.5;
  options.learning_rate = 2e-2;
  options.batch = 4;
  options.data = set_;
  ASSERT_EQ(open_trainer(options), GRAFT_OK) << h_.message();
  auto order = sized<graft_loader_options>();
  order.batch = 4;
  ASSERT_EQ(graft_loader_create(set_, &order, &loader_), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_data_add_reference(set_, base_, 3), GRAFT_INVALID_ARGUMENT) << "its samples are read";
  auto first = sized<graft_metrics>(), last = sized<graft_metrics>();
  int more = 0;
  ASSERT_EQ(graft_train_next(h_.trainer, loader_, &more, &first), GRAFT_OK) << h_.message();
  for (int i = 0; i < 20; ++i) ASSERT_EQ(graft_train_next(h_.trainer, loader_, &more, &last), GRAFT_OK) << h_.message();
  EXPECT_NEAR(first.loss, std::log(2.0), 1e-5) << "adapters begin as nothing";
  EXPECT_NEAR(first.reward_margin, 0, 1e-5);
  EXPECT_LT(last.loss, 0.5);
  EXPECT_GT(last.reward_margin, 0.3);
  EXPECT_EQ(last.accuracy, 1);
}

TEST_F(CPreference, AReferenceIsTheModelBeforeItsAdapters) {
  ASSERT_EQ(open(kPairs, GRAFT_PREFERENCE_PAIRS), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_model_add_adapters(h_.model, "r=4", 1), GRAFT_OK) << h_.message();
  // Adapters that change much, so that they would be seen.
  std::vector<float> numbers(17 * 4, 3);
  graft_tensor_info info{};
  for (std::size_t i = 0; graft_model_tensor(h_.model, GRAFT_PARAMETERS, i, &info) == GRAFT_OK; ++i) {
    if (!std::string_view(info.name).ends_with("lora_B.weight")) continue;
    numbers.assign(static_cast<std::size_t>(info.dims[0] * info.dims[1]), 3);
    ASSERT_EQ(graft_model_write(h_.model, info.name, numbers.data(), numbers.size() * sizeof(float)), GRAFT_OK)
        << h_.message();
  }
  auto reference = sized<graft_reference_options>();
  reference.batch = 2;
  reference.precision = static_cast<graft_precision>(9);
  EXPECT_EQ(graft_data_add_reference_with(set_, h_.model, &reference), GRAFT_INVALID_ARGUMENT);
  reference.precision = GRAFT_PRECISION_F32;
  ASSERT_EQ(graft_data_add_reference_with(set_, h_.model, &reference), GRAFT_OK) << h_.message();
  const auto margin_of = [&](graft_model* model) {
    auto training = training_options();
    training.losses = "dpo";
    training.batch = 2;
    auto options = sized<graft_evaluation_options>();
    options.training = &training;
    graft_evaluation* made = nullptr;
    EXPECT_EQ(graft_evaluate_model(model, set_, &options, &made), GRAFT_OK) << h_.message();
    auto totals = sized<graft_totals>();
    EXPECT_EQ(graft_evaluation_totals(made, &totals), GRAFT_OK);
    graft_evaluation_destroy(made);
    return totals.reward_margin;
  };
  EXPECT_NEAR(margin_of(base_), 0, 1e-5) << "it is the reference";
  EXPECT_GT(std::abs(margin_of(h_.model)), 1e-3);
}

TEST_F(CPreference, WhatIsWrongIsSaid) {
  EXPECT_EQ(open("{\"text\": \"abcd\"}\n", GRAFT_NO_PREFERENCE), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_data_add_reference(set_, base_, 1), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "no preferences")) << h_.message();
  EXPECT_EQ(open(kPairs, static_cast<graft_preference>(7)), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(open(kPairs, GRAFT_PREFERENCE_LABELLED), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "line 1")) << h_.message();
  ASSERT_EQ(open(kPairs, GRAFT_PREFERENCE_PAIRS), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_data_add_reference(set_, base_, 0), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "graft_reference_options.batch is 0; it must be 1 or more.")) << h_.message();
  EXPECT_EQ(graft_data_add_reference(set_, nullptr, 1), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_data_add_reference(nullptr, base_, 0), GRAFT_INVALID_ARGUMENT);
}

TEST_F(CPreference, GroupsTrainVectorsOfTexts) {
  constexpr std::string_view kGroups =
      R"({"query": "ab", "positive": "cd", "negatives": ["e", "f"]}
{"anchor": "gh", "positive": "ij", "negative": "k"}
{"query": "lm", "positive": "no"}
)";
  EXPECT_EQ(open(kPairs, GRAFT_PREFERENCE_GROUPS), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "line 1")) << h_.message();
  ASSERT_EQ(open(kGroups, GRAFT_PREFERENCE_GROUPS), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_data_field_count(set_), 2U);
  graft_field field{};
  ASSERT_EQ(graft_data_field(set_, 0, &field), GRAFT_OK);
  EXPECT_EQ(field.dims[0], 4) << "of the record with the most texts";
  EXPECT_EQ(field.dims[1], 8);
  auto options = training_options();
  options.loss = GRAFT_LOSS_INFO_NCE;
  options.learning_rate = 1e-2;
  options.batch = 3;
  options.data = set_;
  ASSERT_EQ(open_trainer(options), GRAFT_OK) << h_.message();
  auto order = sized<graft_loader_options>();
  order.batch = 3;
  ASSERT_EQ(graft_loader_create(set_, &order, &loader_), GRAFT_OK) << h_.message();
  auto first = sized<graft_metrics>(), last = sized<graft_metrics>();
  int more = 0;
  ASSERT_EQ(graft_train_next(h_.trainer, loader_, &more, &first), GRAFT_OK) << h_.message();
  for (int i = 0; i < 20; ++i) ASSERT_EQ(graft_train_next(h_.trainer, loader_, &more, &last), GRAFT_OK) << h_.message();
  EXPECT_LT(last.loss, first.loss / 2);
  EXPECT_EQ(last.accuracy, 1);
  EXPECT_TRUE(std::isnan(last.reward_margin));
  ASSERT_EQ(graft_trainer_store(h_.trainer), GRAFT_OK) << h_.message();
  graft_embedder* embedder = nullptr;  // as the vectors were trained: means of length 1
  ASSERT_EQ(graft_embedder_create(h_.model, nullptr, &embedder), GRAFT_OK) << h_.message();
  const char* const texts[] = {"ab", "abcdefgh"};
  const float* vectors = nullptr;
  ASSERT_EQ(graft_embed(embedder, texts, 2, &vectors, nullptr), GRAFT_OK) << h_.message();
  const std::size_t width = graft_embedder_width(embedder);
  for (std::size_t text = 0; text < 2; ++text) {
    double squares = 0;
    for (std::size_t i = 0; i < width; ++i) squares += double{vectors[text * width + i]} * vectors[text * width + i];
    EXPECT_NEAR(squares, 1, 1e-5);
  }
  graft_embedder_destroy(embedder);
}

using CDistillation = CPreference;

TEST_F(CDistillation, LearnsFromAnotherModelThatMayGo) {
  ASSERT_EQ(open("{\"text\": \"abcdefgh\"}\n{\"text\": \"ponmlkji\"}\n", GRAFT_NO_PREFERENCE), GRAFT_OK)
      << h_.message();
  const std::string path = folder_.file("teacher.graft");
  ASSERT_TRUE(save_model(os::system_files(), path, letter_model({.seed = 5, .layers = 3})).ok());
  graft_model* teacher = nullptr;
  ASSERT_EQ(graft_model_load(h_.context, path.c_str(), &teacher), GRAFT_OK) << h_.message();
  auto options = training_options();
  options.learning_rate = 1e-2;
  options.batch = 2;
  options.data = set_;
  auto alone = sized<graft_forecast>(), together = sized<graft_forecast>();
  ASSERT_EQ(graft_forecast_training(h_.model, &options, &alone), GRAFT_OK) << h_.message();
  options.teacher = teacher;
  options.distill_weight = 1;
  options.distill_temperature = 1;
  ASSERT_EQ(graft_forecast_training(h_.model, &options, &together), GRAFT_OK) << h_.message();
  EXPECT_GT(together.weights, alone.weights);
  options.loss = GRAFT_LOSS_MSE;
  EXPECT_EQ(open_trainer(options), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "loss ce alone")) << h_.message();
  options.loss = GRAFT_LOSS_CROSS_ENTROPY;
  options.distill_weight = 1.5;
  EXPECT_EQ(open_trainer(options), GRAFT_INVALID_ARGUMENT);
  options.distill_weight = 1;
  ASSERT_EQ(open_trainer(options), GRAFT_OK) << h_.message();
  graft_model_destroy(teacher);
  auto order = sized<graft_loader_options>();
  order.batch = 2;
  ASSERT_EQ(graft_loader_create(set_, &order, &loader_), GRAFT_OK) << h_.message();
  auto first = sized<graft_metrics>(), last = sized<graft_metrics>();
  int more = 0;
  ASSERT_EQ(graft_train_next(h_.trainer, loader_, &more, &first), GRAFT_OK) << h_.message();
  for (int i = 0; i < 40; ++i) ASSERT_EQ(graft_train_next(h_.trainer, loader_, &more, &last), GRAFT_OK) << h_.message();
  EXPECT_GT(first.loss, 0);
  EXPECT_LT(last.loss, first.loss / 2) << "of the divergence nothing has to be left";
  EXPECT_GE(last.loss, 0);
  const std::size_t parameters = graft_model_count(h_.model, GRAFT_PARAMETERS);
  ASSERT_EQ(graft_trainer_store(h_.trainer), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_model_count(h_.model, GRAFT_PARAMETERS), parameters);

  // A run that is kept goes on with its own teacher alone.
  const std::string kept = folder_.file("kept");
  auto in_folder = sized<graft_checkpoint_options>();
  in_folder.folder = kept.c_str();
  in_folder.resume = 1;
  options.checkpoints = 1;
  for (const std::uint64_t seed : {5, 6}) {
    ASSERT_TRUE(save_model(os::system_files(), path, letter_model({.seed = seed, .layers = 3})).ok());
    ASSERT_EQ(graft_model_load(h_.context, path.c_str(), &options.teacher), GRAFT_OK) << h_.message();
    ASSERT_EQ(open_trainer(options), GRAFT_OK) << h_.message();
    graft_model_destroy(options.teacher);
    const graft_status opened = graft_checkpoint_open(h_.trainer, &in_folder, nullptr);
    EXPECT_EQ(opened, seed == 5 ? GRAFT_OK : GRAFT_INVALID_ARGUMENT) << h_.message();
    if (seed == 6) {
      EXPECT_TRUE(contains(h_.message(), "another teacher")) << h_.message();
    } else {
      ASSERT_EQ(graft_checkpoint_close(h_.trainer), GRAFT_OK) << h_.message();
    }
  }
}

TEST_F(CPreference, NewTokensHaveRowsOfTheirOwn) {
  for (const char* bad : {"[]", "<x>", "[3]", R"(["a"])", R"(["<x>", "<x>"])", R"([{"special": true}])"}) {
    EXPECT_EQ(graft_model_add_tokens(h_.model, bad) == GRAFT_OK, false) << bad;
  }
  EXPECT_EQ(graft_model_add_tokens(h_.model, nullptr), GRAFT_INVALID_ARGUMENT);
  const std::size_t all = graft_model_count(h_.model, GRAFT_PARAMETERS);
  ASSERT_EQ(graft_model_add_tokens(h_.model, R"(["<x>", {"content": "<y>", "special": true}])"), GRAFT_OK)
      << h_.message();
  const std::size_t rows = graft_model_count(h_.model, GRAFT_PARAMETERS);
  EXPECT_LE(rows, 2U);
  EXPECT_LT(rows, all);
  ASSERT_EQ(graft_model_add_adapters(h_.model, "r=2,targets=q_proj", 1), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_model_count(h_.model, GRAFT_PARAMETERS), rows + 4) << "two layers' A and B beside them";
  const std::string path = folder_.file("tokens.graft");
  ASSERT_EQ(graft_model_save_adapters(h_.model, path.c_str()), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_model_load_adapters(base_, path.c_str()), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_model_merge_adapters(base_, nullptr), GRAFT_OK) << h_.message();
  graft_tokenizer* tokenizer = nullptr;
  ASSERT_EQ(graft_tokenizer_create(base_, &tokenizer), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_tokenizer_size(tokenizer), 19U);
  EXPECT_EQ(graft_tokenizer_find(tokenizer, "<y>"), 18);
  graft_tokenizer_destroy(tokenizer);
  std::int64_t longest = 0;
  auto info = graft_tensor_info{};
  for (std::size_t i = 0; graft_model_tensor(base_, GRAFT_PARAMETERS, i, &info) == GRAFT_OK; ++i) {
    if (std::string_view(info.name).find("embed_tokens") != std::string_view::npos) longest = info.dims[0];
  }
  EXPECT_EQ(longest, 19);
  // Fresh adapters alone, where those of a file were on.
  ASSERT_EQ(graft_model_load_adapters(h_.model, path.c_str()), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_model_add_adapters(h_.model, "r=2,targets=q_proj", 1), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_model_count(h_.model, GRAFT_PARAMETERS), 4U);
}

TEST_F(CPreference, MoreTokensKeepRowsAndAdapters) {
  const auto numbers = [&](const std::string& name) {
    const ValueId id = h_.model->model.graph.find_value(name);
    const auto bytes = id.valid() ? h_.model->model.weight(id) : std::nullopt;
    EXPECT_TRUE(bytes) << name;
    std::vector<float> out(bytes ? bytes->size() / sizeof(float) : 0);
    if (bytes) std::memcpy(out.data(), bytes->data(), bytes->size());
    return out;
  };
  const auto parameters = [&] {
    std::map<std::string, std::vector<float>> all;
    for (const ValueId id : h_.model->model.graph.of_kind(ValueKind::parameter)) {
      const std::string& name = h_.model->model.graph.value(id).name;
      all[name] = numbers(name);
    }
    return all;
  };
  const auto is_rows = [](const std::string& name) { return name.ends_with(".new_rows"); };
  for (const char* lora :
       {"r=2,targets=q_proj,dropout=0.25", "r=2,targets=q_proj|v_proj,init=pissa", "r=2,targets=q_proj,dora=yes"}) {
    ASSERT_EQ(graft_model_load_adapters(h_.model, nullptr), GRAFT_OK) << h_.message();
    ASSERT_EQ(graft_model_add_tokens(h_.model, R"(["<x>", "<y>"])"), GRAFT_OK) << h_.message();
    const auto shift = [&] {  // as if they were trained
      for (const ValueId id : h_.model->model.graph.of_kind(ValueKind::parameter)) {
        std::vector<float> moved = numbers(h_.model->model.graph.value(id).name);
        for (std::size_t i = 0; i < moved.size(); ++i) moved[i] += 0.01f * static_cast<float>(i % 7);
        ASSERT_TRUE(h_.model->model.copy_weight(id, std::as_bytes(std::span(moved))).ok());
      }
    };
    shift();
    auto before = parameters();
    ASSERT_EQ(graft_model_add_adapters(h_.model, lora, 1), GRAFT_OK) << h_.message();
    for (const auto& [name, values] : before) EXPECT_EQ(parameters().at(name), values) << lora << ": " << name;
    shift();
    before = parameters();
    const std::string nodes = std::to_string(h_.model->model.graph.nodes().size());
    ASSERT_EQ(graft_model_add_tokens(h_.model, R"(["<z>"])"), GRAFT_OK) << lora << h_.message();
    const auto after = parameters();
    ASSERT_EQ(after.size(), before.size()) << lora;
    for (const auto& [name, values] : before) {
      const std::vector<float>& now = after.at(name);
      ASSERT_GE(now.size(), values.size()) << name;
      EXPECT_TRUE(std::equal(values.begin(), values.end(), now.begin())) << lora << ": " << name;
      EXPECT_EQ(now.size() == values.size(), !is_rows(name)) << lora << ": " << name;
    }
    EXPECT_EQ(std::to_string(h_.model->model.graph.nodes().size()), nodes) << "dropout and beginnings stay";
    // It can be saved, loaded, and trained on.
    const std::string path = folder_.file("more.graft");
    ASSERT_EQ(graft_model_save_adapters(h_.model, path.c_str()), GRAFT_OK) << h_.message();
    ASSERT_EQ(graft_model_load_adapters(base_, path.c_str()), GRAFT_OK) << h_.message();
    graft_tokenizer* tokenizer = nullptr;
    ASSERT_EQ(graft_tokenizer_create(base_, &tokenizer), GRAFT_OK) << h_.message();
    EXPECT_EQ(graft_tokenizer_find(tokenizer, "<y>"), 18);
    EXPECT_EQ(graft_tokenizer_find(tokenizer, "<z>"), 19);
    graft_tokenizer_destroy(tokenizer);
    EXPECT_EQ(graft_model_add_tokens(h_.model, R"(["<y>"])"), GRAFT_INVALID_ARGUMENT) << "it is there";
    EXPECT_EQ(parameters(), after) << "nothing changed";
    ASSERT_EQ(graft_model_load_adapters(base_, nullptr), GRAFT_OK) << h_.message();
  }
}

using CAdapters = CApi;

TEST_F(CAdapters, SeveralAddUpByTheirWeights) {
  const std::vector<float> plain = run_model(h_.model);
  ASSERT_EQ(graft_model_add_adapters(h_.model, "r=2,targets=fc1|fc2", 1), GRAFT_OK) << h_.message();
  ASSERT_EQ(open_trainer(trainer_options()), GRAFT_OK) << h_.message();
  for (int i = 0; i < 20; ++i) ASSERT_EQ(batch_.step(h_.trainer), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_trainer_store(h_.trainer), GRAFT_OK) << h_.message();
  graft_trainer_destroy(h_.trainer);
  h_.trainer = nullptr;
  const std::vector<float> trained = run_model(h_.model);
  const std::string path = folder_.file("a.graft");
  ASSERT_EQ(graft_model_save_adapters(h_.model, path.c_str()), GRAFT_OK) << h_.message();
  const char* const twice[] = {path.c_str(), path.c_str()};
  const auto with = [&](double a, double b) {
    const double weights[] = {a, b};
    EXPECT_EQ(graft_model_load_adapters_together(h_.model, twice, weights, 2), GRAFT_OK) << h_.message();
    return run_model(h_.model);
  };
  const std::vector<float> halves = with(0.25, 0.75), nothing = with(1, -1);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_NEAR(halves[i], trained[i], 1e-5);
    EXPECT_NEAR(nothing[i], plain[i], 1e-5);
  }
  EXPECT_NE(trained, plain);
  EXPECT_EQ(graft_model_load_adapters_together(h_.model, nullptr, nullptr, 2), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_model_load_adapters_together(h_.model, twice, nullptr, 0), GRAFT_INVALID_ARGUMENT);
  const double infinite[] = {1, INFINITY};
  EXPECT_EQ(graft_model_load_adapters_together(h_.model, twice, infinite, 2), GRAFT_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace graft::test::c_api_preference_test
