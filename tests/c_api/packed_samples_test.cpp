// Samples given as bytes and halves: training on them takes the steps of training on the numbers that they stand for.
#include <algorithm>
#include <cstring>

#include "runtime/c_api/c_handles.h"
#include "tests/support/c_api.h"
#include "tests/support/parse_graph.h"
#include "tests/support/state_hash.h"

namespace graft::test::c_api_packed_samples_test {
namespace {

constexpr std::uint32_t kPictures = 5, kClassesHere = 3;
constexpr std::size_t kPixels = 3 * 3, kSample = 3 * kPixels;  // 27 bytes: samples begin within words

class PackedSamples : public testing::Test {
 protected:
  void SetUp() override {
    const auto options = context_options(device_);
    const graft_status made = graft_context_create(&options, &h_.context);
    if (made == GRAFT_NOT_FOUND) GTEST_SKIP() << h_.message();
    ASSERT_EQ(made, GRAFT_OK) << h_.message();
    TinyModel tiny;
    auto parsed = parse_graph(R"(
      input x: f32[batch, 3, 3, 3]
      parameter w: f32[4, 3, 3, 3]
      parameter v: f32[4, 3]
      t = transpose(x) {perm=[0, 2, 3, 1]}
      c = conv(t, w) {pads=[1, 1, 1, 1]}
      r = relu(c)
      m = reduce_mean(r) {axes=[1, 2], keepdims=0}
      y = matmul(m, v)
      output y
    )");
    ASSERT_TRUE(parsed.ok()) << parsed.status().message();
    tiny.graph = std::move(parsed->graph);
    data::Random random(data::mix(5));
    for (const auto& [name, count] : {std::pair("w", 4 * 27), {"v", 12}}) {
      auto& weights = tiny.weights[name];
      for (int i = 0; i < count; ++i) weights.push_back(static_cast<float>(random.uniform(-1, 1)));
    }
    write_model(tiny, path_);
    ASSERT_EQ(graft_model_load(h_.context, path_.c_str(), &h_.model), GRAFT_OK) << h_.message();
    for (std::size_t i = 0; i < kPictures * kSample; ++i) {
      pixels_.push_back(static_cast<std::uint8_t>(random.uniform(0, 256)));
    }
    for (std::size_t i = 0; i < kPictures * kSample; ++i) {
      const std::size_t n = i / kSample, c = i / kPixels % 3, at = i % kPixels;
      x_.push_back(static_cast<float>(pixels_[n * kSample + at * 3 + c]) * scale_[c] + offset_[c]);
    }
    for (std::uint32_t i = 0; i < kPictures; ++i) labels_.push_back(static_cast<std::int32_t>(i % kClassesHere));
    format_.name = "x";
    format_.element = GRAFT_ELEMENT_U8;
    format_.channels_last = 1;
    format_.scale = scale_;
    format_.offset = offset_;
    format_.scale_count = format_.offset_count = 3;
  }

  graft_trainer_options options() const {
    auto options = training_options(GRAFT_ADAM);
    options.learning_rate = 0.01;
    options.batch = kPictures;
    options.micro_batch = 2;  // the last has one sample
    return options;
  }
  graft_trainer_options packed(const graft_input_format& format) const {
    auto of = options();
    of.inputs = &format;
    of.input_count = 1;
    return of;
  }
  graft_status open(const graft_trainer_options& options) {
    graft_trainer_destroy(std::exchange(h_.trainer, nullptr));
    return graft_trainer_create(h_.model, &options, &h_.trainer);
  }
  graft_status step(const void* x, graft_metrics* metrics = nullptr) {
    return graft_train_step(h_.trainer, &x, 1, labels_.data(), kPictures, metrics);
  }
  /// The state after three steps, and what an evaluation then gives.
  std::string train(const void* x) {
    for (int i = 0; i < 3; ++i) EXPECT_EQ(step(x), GRAFT_OK) << h_.message();
    auto metrics = sized<graft_metrics>();
    EXPECT_EQ(graft_evaluate(h_.trainer, &x, 1, labels_.data(), kPictures, &metrics), GRAFT_OK) << h_.message();
    return state_text(*h_.trainer->trainer) + std::to_string(metrics.loss);
  }

  TemporaryFolder folder_;
  std::string path_ = folder_.file("m.graft");
  std::string device_;
  CHandles h_;
  // Powers of two, so that a fused product and sum give the same bits as two roundings.
  float scale_[3] = {1.0F / 256, 0.5F, 2}, offset_[3] = {0.25F, 0, -1};
  std::vector<std::uint8_t> pixels_;  ///< channels last
  std::vector<float> x_;              ///< what they stand for, as the model has it
  std::vector<std::int32_t> labels_;
  graft_input_format format_{};
};

TEST_F(PackedSamples, BytesTrainAsTheNumbersThatTheyStandFor) {
  ASSERT_EQ(open(options()), GRAFT_OK) << h_.message();
  const std::string expected = train(x_.data());
  ASSERT_EQ(open(packed(format_)), GRAFT_OK) << h_.message();
  graft_tensor_info info{};
  ASSERT_EQ(graft_trainer_sample(h_.trainer, 0, &info), GRAFT_OK) << h_.message();
  EXPECT_EQ(info.dtype, GRAFT_U8);
  EXPECT_EQ(std::vector(info.dims, info.dims + info.rank), (std::vector<std::int64_t>{3, 3, 3}));
  EXPECT_EQ(train(pixels_.data()), expected);
}

TEST_F(PackedSamples, ByALoader) {
  const graft_field fields[] = {{"x", GRAFT_F32, 3, {3, 3, 3}, 0}, {"label", GRAFT_I32, 0, {}, 1}};
  const graft_field of_bytes[] = {{"x", GRAFT_U8, 3, {3, 3, 3}, 0}, fields[1]};
  const void* const blocks[] = {x_.data(), labels_.data()};
  const void* const blocks_of_bytes[] = {pixels_.data(), labels_.data()};
  auto loading = sized<graft_loader_options>();
  loading.batch = kPictures;
  std::string states[2];
  graft_data_set* set = nullptr;
  for (const bool bytes : {false, true}) {
    graft_data_destroy(set);
    ASSERT_EQ(graft_data_from_memory(h_.context, bytes ? of_bytes : fields, 2, bytes ? blocks_of_bytes : blocks,
                                     kPictures, &set),
              GRAFT_OK)
        << h_.message();
    graft_loader* loader = nullptr;
    ASSERT_EQ(graft_loader_create(set, &loading, &loader), GRAFT_OK) << h_.message();
    auto of = bytes ? packed(format_) : options();
    of.data = set;
    ASSERT_EQ(open(of), GRAFT_OK) << h_.message();
    int more = 0;
    for (int i = 0; i < 2; ++i) {
      ASSERT_EQ(graft_train_next(h_.trainer, loader, &more, nullptr), GRAFT_OK) << h_.message();
    }
    states[bytes ? 1 : 0] = state_text(*h_.trainer->trainer);
    graft_loader_destroy(loader);
  }
  EXPECT_EQ(states[0], states[1]);
  graft_field field{};
  ASSERT_EQ(graft_data_field(set, 0, &field), GRAFT_OK);
  EXPECT_EQ(field.dtype, GRAFT_U8);
  auto of = options();
  of.data = set;
  EXPECT_EQ(open(of), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "given as u8, and the input \"x\" of the trainer as f32")) << h_.message();
  graft_input_format halves = format_;
  halves.element = GRAFT_ELEMENT_F16;
  of = packed(halves);
  of.data = set;
  EXPECT_EQ(open(of), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "given as f16, but field \"x\" of the data as u8")) << h_.message();
  graft_data_destroy(set);
}

TEST_F(PackedSamples, HalvesThatAreNotFiniteAreRefused) {
  std::vector<std::uint16_t> halves;
  std::vector<float> x;
  for (const float number : x_) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &number, sizeof bits);
    halves.push_back(static_cast<std::uint16_t>(bits >> 16));
    bits &= 0xffff0000;
    x.push_back(0);
    std::memcpy(&x.back(), &bits, sizeof bits);
  }
  ASSERT_EQ(open(options()), GRAFT_OK) << h_.message();
  const std::string expected = train(x.data());
  graft_input_format format{};
  format.name = "x";
  format.element = GRAFT_ELEMENT_BF16;
  ASSERT_EQ(open(packed(format)), GRAFT_OK) << h_.message();
  const std::string before = state_text(*h_.trainer->trainer);
  auto wrong = halves;
  wrong[kSample * 3 + 7] = 0x7fc0;
  EXPECT_EQ(step(wrong.data()), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "Field \"x\" of sample 3")) << h_.message();
  EXPECT_TRUE(contains(h_.message(), "is not finite at element 7")) << h_.message();
  EXPECT_EQ(state_text(*h_.trainer->trainer), before);
  EXPECT_EQ(train(halves.data()), expected);
}

TEST_F(PackedSamples, WhatCannotBeIsRefused) {
  auto of = packed(format_);
  of.fetch = "x";
  EXPECT_EQ(open(of), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "cannot be fetched")) << h_.message();
  graft_input_format other = format_;
  other.name = "z";
  EXPECT_EQ(open(packed(other)), GRAFT_NOT_FOUND);
  EXPECT_TRUE(contains(h_.message(), "no input \"z\"")) << h_.message();
  const graft_field labels[] = {{"x", GRAFT_F32, 3, {3, 3, 3}, 0}, {"label", GRAFT_U8, 0, {}, 1}};
  const void* const blocks[] = {x_.data(), labels_.data()};
  graft_data_set* set = nullptr;
  EXPECT_EQ(graft_data_from_memory(h_.context, labels, 2, blocks, kPictures, &set), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "which only inputs of the model are")) << h_.message();
  auto forecast = sized<graft_forecast>();
  of = packed(format_);
  EXPECT_EQ(graft_forecast_training(h_.model, &of, &forecast), GRAFT_OK) << h_.message();
}

}  // namespace
}  // namespace graft::test::c_api_packed_samples_test
