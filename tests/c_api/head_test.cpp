// The C ABI: another number of classes for a classifier that was trained, and a run that goes on with it.
#include <algorithm>
#include <cmath>
#include <map>

#include "runtime/c_api/c_handles.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/run_state/resize_head.h"
#include "tests/support/c_api.h"
#include "tests/support/state_hash.h"

namespace graft::test::c_api_head_test {
namespace {

constexpr std::int64_t kMore = 5;  // classes after widening, of kClasses before
constexpr std::int64_t kHidden = 6;

std::vector<float> weight_of(const Model& model, const std::string& name) {
  const auto bytes = model.weight(model.graph.find_value(name));
  EXPECT_TRUE(bytes) << name;
  std::vector<float> out(bytes->size() / sizeof(float));
  std::memcpy(out.data(), bytes->data(), bytes->size());
  return out;
}

class CHead : public CApi {
 protected:
  graft_status resize(std::int64_t classes, std::uint32_t seed = 0, bool replace = false) {
    auto options = sized<graft_head_options>();
    options.classes = classes;
    options.seed = seed;
    options.replace = replace ? 1 : 0;
    return graft_model_resize_head(h_.model, &options);
  }
  void reload() {
    h_.destroy_parts();
    ASSERT_EQ(graft_model_load(h_.context, path_.c_str(), &h_.model), GRAFT_OK) << h_.message();
  }
  static graft_trainer_options kept_options() {
    auto options = trainer_options();
    options.optimizer = GRAFT_ADAMW;
    options.checkpoints = 1;
    return options;
  }
  /// Opens the folder of the run; resumes where it holds one.
  graft_status keep(const char* from = nullptr) {
    auto options = sized<graft_checkpoint_options>();
    options.folder = store_.c_str();
    options.resume = 1;
    options.from = from;
    auto info = sized<graft_checkpoint_info>();
    const graft_status opened = graft_checkpoint_open(h_.trainer, &options, &info);
    step_ = info.step;
    return opened;
  }
  std::map<std::string, std::vector<float>> state() {
    std::map<std::string, std::vector<float>> out;
    train::Trainer& trainer = *h_.trainer->trainer;
    for (const train::NamedTensor& tensor : trainer.named_tensors()) {
      if (tensor.kind == ValueKind::constant || tensor.dtype != DType::f32) continue;
      auto& numbers = out[std::string(tensor.name)];
      numbers.resize(tensor.bytes / sizeof(float));
      EXPECT_TRUE(trainer.read(tensor.name, std::as_writable_bytes(std::span(numbers))).ok()) << tensor.name;
    }
    return out;
  }

  std::string store_ = folder_.file("kept");
  std::uint64_t step_ = 0;
};

TEST_F(CHead, OldRowsKeepTheirBitsAndNewOnesFollowFromTheSeed) {
  const std::vector<float> w = weight_of(h_.model->model, "fc2.weight"), b = weight_of(h_.model->model, "fc2.bias");
  const std::vector<float> before = run_model(h_.model);
  std::map<std::uint32_t, std::vector<float>> by_seed;
  for (const std::uint32_t seed : {1u, 2u, 1u}) {
    reload();
    ASSERT_EQ(resize(kMore, seed), GRAFT_OK) << h_.message();
    const auto wide = weight_of(h_.model->model, "fc2.weight"), bias = weight_of(h_.model->model, "fc2.bias");
    ASSERT_EQ(wide.size(), static_cast<std::size_t>(kHidden * kMore));
    const float bound = 1 / std::sqrt(static_cast<float>(kHidden));
    std::vector<float> fresh;
    for (std::int64_t i = 0; i < kHidden; ++i) {  // [in, out]
      for (std::int64_t c = 0; c < kMore; ++c) {
        const float number = wide[static_cast<std::size_t>(i * kMore + c)];
        if (c < kClasses) {
          EXPECT_EQ(number, w[static_cast<std::size_t>(i * kClasses + c)]);
        } else {
          EXPECT_LE(std::abs(number), bound);
          fresh.push_back(number);
        }
      }
    }
    for (std::size_t c = 0; c < bias.size(); ++c) {
      if (c < b.size()) {
        EXPECT_EQ(bias[c], b[c]);
      } else {
        EXPECT_LE(std::abs(bias[c]), bound);
      }
    }
    EXPECT_GT(*std::ranges::max_element(fresh) - *std::ranges::min_element(fresh), bound / 2) << "they are spread";
    const auto [known, first] = by_seed.emplace(seed, fresh);
    if (!first) {
      EXPECT_EQ(known->second, fresh);
    }
    EXPECT_EQ(weight_of(h_.model->model, "fc1.weight").size(), static_cast<std::size_t>(kInputs * kHidden));
  }
  EXPECT_NE(by_seed[1], by_seed[2]);
  // What is saved is a model like any other; old classes have the logits that they had.
  const std::string wide = folder_.file("wide.graft");
  ASSERT_EQ(graft_model_save(h_.model, wide.c_str()), GRAFT_OK) << h_.message();
  h_.destroy_parts();
  ASSERT_EQ(graft_model_load(h_.context, wide.c_str(), &h_.model), GRAFT_OK) << h_.message();
  const std::vector<float> after = run_model(h_.model);
  ASSERT_EQ(after.size(), static_cast<std::size_t>(kSamples * kMore));
  for (std::size_t s = 0; s < kSamples; ++s) {
    for (std::size_t c = 0; c < kClasses; ++c) EXPECT_NEAR(after[s * kMore + c], before[s * kClasses + c], 1e-6);
  }
}

TEST_F(CHead, LabelsAreThoseOfTheNewHead) {
  const auto step_with = [&](std::int32_t label) {
    CBatch batch = batch_;
    batch.inputs[0] = batch.x.data();
    batch.labels[0] = label;
    return batch.step(h_.trainer);
  };
  ASSERT_EQ(open_trainer(trainer_options()), GRAFT_OK) << h_.message();
  EXPECT_EQ(step_with(kClasses), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(resize(kMore), GRAFT_INVALID_ARGUMENT) << "a trainer lives";
  reload();
  ASSERT_EQ(resize(kMore), GRAFT_OK) << h_.message();
  ASSERT_EQ(open_trainer(trainer_options()), GRAFT_OK) << h_.message();
  EXPECT_EQ(step_with(kMore - 1), GRAFT_OK) << h_.message();
  EXPECT_EQ(step_with(kMore), GRAFT_INVALID_ARGUMENT);
}

TEST_F(CHead, ARunGoesOnWithTheMomentsOfOldRows) {
  ASSERT_EQ(open_trainer(kept_options()), GRAFT_OK) << h_.message();
  ASSERT_EQ(keep(), GRAFT_OK) << h_.message();
  for (int i = 0; i < 4; ++i) ASSERT_EQ(batch_.step(h_.trainer), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_checkpoint_save(h_.trainer, "narrow"), GRAFT_OK) << h_.message();
  const auto before = state();
  ASSERT_EQ(batch_.step(h_.trainer), GRAFT_OK) << h_.message();  // journalled; it is of the narrow head
  ASSERT_EQ(graft_checkpoint_close(h_.trainer), GRAFT_OK) << h_.message();
  for (const bool replace : {false, true}) {
    reload();
    ASSERT_EQ(resize(kMore, 3, replace), GRAFT_OK) << h_.message();
    const auto fresh_w = weight_of(h_.model->model, "fc2.weight");
    ASSERT_EQ(open_trainer(kept_options()), GRAFT_OK) << h_.message();
    ASSERT_EQ(keep("narrow"), GRAFT_OK) << h_.message();
    EXPECT_EQ(step_, 4u);
    const auto after = state();
    ASSERT_EQ(after.size(), before.size());
    int moments = 0;
    for (const auto& [name, numbers] : after) {
      const std::vector<float>& old = before.at(name);
      if (!name.starts_with("fc2.")) {
        EXPECT_EQ(numbers, old) << name;
        continue;
      }
      const bool is_state = name.find('/') != std::string::npos;
      moments += is_state ? 1 : 0;
      const std::size_t rows = numbers.size() / kMore;
      ASSERT_EQ(old.size(), rows * kClasses) << name;
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        const std::size_t row = i / kMore, c = i % kMore;
        if (!replace && c < kClasses) {
          EXPECT_EQ(numbers[i], old[row * kClasses + c]) << name << ' ' << i;
        } else if (is_state) {
          EXPECT_EQ(numbers[i], 0) << name << ' ' << i;
        } else if (name == "fc2.weight") {
          EXPECT_EQ(numbers[i], fresh_w[i]) << i;
        }
      }
    }
    EXPECT_EQ(moments, 4) << "exp_avg and exp_avg_sq of weight and bias";
    for (int i = 0; i < 2; ++i) ASSERT_EQ(batch_.step(h_.trainer), GRAFT_OK) << h_.message();
    const std::string tag = replace ? "replaced" : "wide";
    ASSERT_EQ(graft_checkpoint_save(h_.trainer, tag.c_str()), GRAFT_OK) << h_.message();
    ASSERT_EQ(batch_.step(h_.trainer), GRAFT_OK) << h_.message();
    const std::string expected = state_text(*h_.trainer->trainer);
    ASSERT_EQ(graft_checkpoint_close(h_.trainer), GRAFT_OK) << h_.message();
    // From then on it is a run like others: exact, and journalled.
    ASSERT_EQ(open_trainer(kept_options()), GRAFT_OK) << h_.message();
    ASSERT_EQ(keep(), GRAFT_OK) << h_.message();
    EXPECT_EQ(step_, 6u);
    ASSERT_EQ(batch_.step(h_.trainer), GRAFT_OK) << h_.message();
    EXPECT_EQ(state_text(*h_.trainer->trainer), expected);
  }
  // The model before does not go on from snapshots of the new one, nor one with another new head.
  reload();
  ASSERT_EQ(open_trainer(kept_options()), GRAFT_OK) << h_.message();
  EXPECT_EQ(keep(), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "made with another head")) << h_.message();
  reload();
  ASSERT_EQ(resize(kMore + 1), GRAFT_OK) << h_.message();
  ASSERT_EQ(open_trainer(kept_options()), GRAFT_OK) << h_.message();
  EXPECT_EQ(keep(), GRAFT_INVALID_ARGUMENT) << "the newest is of " << kMore << " classes";
  ASSERT_EQ(graft_warm_start(h_.trainer, store_.c_str(), "narrow", nullptr), GRAFT_OK) << h_.message();
  EXPECT_EQ(state().at("fc1.weight"), before.at("fc1.weight"));
}

/// Heads as exporters write them, each with the names of weight and bias.
TEST_F(CHead, LinearLayersAndConvolutionsOfAnyForm) {
  enum Form { kTransposed, kMatMulAdd, kConvPoolFlatten, kSoftmaxBehind };
  for (const Form form : {kTransposed, kMatMulAdd, kConvPoolFlatten, kSoftmaxBehind}) {
    TinyModel tiny;
    Builder b(tiny.graph);
    const Dim batch = Dim::symbol("batch");
    ValueId y;
    if (form == kConvPoolFlatten) {
      const ValueId x = tiny.input("x", {2, 2, 3});
      const ValueId w = tiny.weight("head.weight", {kClasses, 1, 1, 3}, 0.5);
      const ValueId bias = tiny.weight("head.bias", {kClasses}, 0.5);
      const ValueId conv = b.node(Op::conv, {x, w, bias},
                                  {{"strides", Ints{1, 1}},
                                   {"pads", Ints{0, 0, 0, 0}},
                                   {"dilations", Ints{1, 1}},
                                   {"groups", std::int64_t{1}}});
      const ValueId mean = b.node(Op::reduce_mean, {conv}, {{"axes", Ints{1, 2}}, {"keepdims", std::int64_t{1}}});
      y = b.node(Op::reshape, {mean}, {{"shape", Shape{batch, Dim(kClasses)}}});
    } else {
      const bool transposed = form == kTransposed;
      const ValueId x = tiny.input("x", {kInputs});
      const auto dims =
          transposed ? std::vector<std::int64_t>{kClasses, kInputs} : std::vector<std::int64_t>{kInputs, kClasses};
      const ValueId w = tiny.weight("head.weight", dims, 0.5);
      y = b.node(Op::matmul, {x, w}, {{"trans_b", std::int64_t{transposed}}});
      if (form == kMatMulAdd) y = b.node(Op::add, {tiny.weight("head.bias", {1, kClasses}, 0.5), y});
      if (form == kSoftmaxBehind) y = b.node(Op::softmax, {y}, {{"axis", std::int64_t{1}}});
    }
    tiny.graph.add_output("y", y);
    ASSERT_TRUE(b.status().ok()) << b.status().message();
    const Model model = model_of(tiny);
    HeadOptions options;
    options.classes = kMore;
    const auto wide = resize_head(model, options);
    ASSERT_TRUE(wide.ok()) << form << ": " << wide.status().message();
    EXPECT_EQ(wide->graph.value(wide->graph.outputs()[0].value).shape, (Shape{batch, Dim(kMore)})) << form;
    EXPECT_TRUE(validate(*wide).ok()) << form;
    if (form != kMatMulAdd && form != kSoftmaxBehind) {  // rows of classes come first
      const auto before = weight_of(model, "head.weight"), after = weight_of(*wide, "head.weight");
      EXPECT_TRUE(std::equal(before.begin(), before.end(), after.begin())) << form;
    }
    const auto head = resized_head_of(wide->metadata);
    ASSERT_TRUE(head);
    EXPECT_EQ(head->parameters.size(), form == kMatMulAdd || form == kConvPoolFlatten ? 2u : 1u);
    EXPECT_TRUE(head->holds("head.weight/exp_avg"));
    EXPECT_FALSE(head->holds("head.weights"));
  }
}

TEST_F(CHead, WhatCannotBeResizedIsNamed) {
  const auto says = [&](graft_status status, std::string_view part) {
    EXPECT_EQ(status == GRAFT_OK, false);
    EXPECT_TRUE(contains(h_.message(), part)) << h_.message();
  };
  says(resize(kClasses), "has 3 classes, and 3 were asked for; 4 to ");
  says(resize(0, 0, true), "1 to ");
  EXPECT_EQ(graft_model_resize_head(h_.model, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_model_resize_head(nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
  auto options = sized<graft_head_options>();
  options.classes = kMore;
  options.output = "nowhere";
  says(graft_model_resize_head(h_.model, &options), "no output \"nowhere\"; there are \"y\"");
  options.output = nullptr;
  const char* names[] = {"d", "e"};
  options.class_names = names;
  options.class_name_count = 2;
  says(graft_model_resize_head(h_.model, &options), "names for 0 of its 3 classes");
  ASSERT_EQ(graft_model_set_metadata(h_.model, "data.classes", R"(["a","b","c"])"), GRAFT_OK) << h_.message();
  says(resize(kMore), "knows its 3 classes by their names");
  options.class_name_count = 1;
  says(graft_model_resize_head(h_.model, &options), "1 names for 2 new classes");
  names[1] = "b";
  options.class_name_count = 2;
  says(graft_model_resize_head(h_.model, &options), "a class \"b\" already");
  names[1] = "e";
  ASSERT_EQ(graft_model_resize_head(h_.model, &options), GRAFT_OK) << h_.message();
  const char* classes = nullptr;
  ASSERT_EQ(graft_model_metadata(h_.model, "data.classes", &classes), GRAFT_OK) << h_.message();
  EXPECT_STREQ(classes, R"(["a","b","c","d","e"])");
  ASSERT_EQ(graft_model_add_adapters(h_.model, "r=2,targets=fc1", 1), GRAFT_OK) << h_.message();
  says(resize(kMore + 1), "adapters");
  // A weight that something else reads, and an output that is no layer's.
  TinyModel tied;
  Builder b(tied.graph);
  const ValueId x = tied.input("x", {kClasses});
  const ValueId w = tied.weight("w", {kClasses, kClasses}, 0.5);
  const ValueId hidden = b.node(Op::matmul, {x, w});
  tied.graph.add_output("y", b.node(Op::matmul, {b.node(Op::relu, {hidden}), w}));
  tied.graph.add_output("x2", b.node(Op::mul, {x, x}));
  HeadOptions wanted{.output = "y", .classes = kMore};
  EXPECT_TRUE(contains(resize_head(model_of(tied), wanted).status().message(), "\"w\" is read by"));
  wanted.output = "x2";
  EXPECT_TRUE(contains(resize_head(model_of(tied), wanted).status().message(), "(mul) stands between"));
  wanted.output.clear();
  EXPECT_TRUE(contains(resize_head(model_of(tied), wanted).status().message(), "several outputs"));
}

}  // namespace
}  // namespace graft::test::c_api_head_test
