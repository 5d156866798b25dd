// The C ABI: deltas are made of trained models, sent, averaged and applied; what is wrong changes nothing.
#include <cmath>
#include <cstring>

#include "tests/support/c_api.h"

namespace graft::test::c_api_delta_test {
namespace {

class CApiDelta : public CApi {
 protected:
  void TearDown() override {
    for (graft_delta* delta : deltas_) graft_delta_destroy(delta);
    graft_model_destroy(base_);
    CApi::TearDown();
  }

  /// h_.model after some steps; base_ is as it was.
  void train() {
    ASSERT_EQ(graft_model_load(h_.context, path_.c_str(), &base_), GRAFT_OK) << h_.message();
    ASSERT_EQ(open_trainer(trainer_options()), GRAFT_OK) << h_.message();
    for (int i = 0; i < 5; ++i) ASSERT_EQ(batch_.step(h_.trainer, nullptr), GRAFT_OK) << h_.message();
    ASSERT_EQ(graft_trainer_store(h_.trainer), GRAFT_OK) << h_.message();
    graft_trainer_destroy(h_.trainer);
    h_.trainer = nullptr;
  }
  graft_delta* made(const graft_model* base, const graft_delta_options* options = nullptr) {
    graft_delta* delta = nullptr;
    EXPECT_EQ(graft_delta_make(base, h_.model, options, &delta), GRAFT_OK) << h_.message();
    deltas_.push_back(delta);
    return delta;
  }
  bool says(const char* text) const { return contains(h_.message(), text); }

  graft_model* base_ = nullptr;
  std::vector<graft_delta*> deltas_;
};

TEST_F(CApiDelta, ADeltaBringsTheBaseToTheNewModel) {
  train();
  graft_delta* delta = made(base_);
  auto info = sized<graft_delta_info>();
  ASSERT_EQ(graft_delta_describe(delta, &info), GRAFT_OK);
  EXPECT_EQ(info.tensors, 4u);
  EXPECT_EQ(info.clients, 1u);
  EXPECT_EQ(std::string(info.base).size(), 32u);
  EXPECT_FALSE(info.of_adapters);
  const std::vector<float> wanted = run_model(h_.model);
  ASSERT_NE(run_model(base_), wanted);
  EXPECT_EQ(graft_delta_apply(base_, delta, NAN), GRAFT_INVALID_ARGUMENT);
  ASSERT_EQ(graft_delta_apply(base_, delta, 1), GRAFT_OK) << h_.message();
  const std::vector<float> got = run_model(base_);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-5);
  EXPECT_EQ(graft_delta_apply(base_, delta, 1), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(says("does not belong on")) << h_.message();
  EXPECT_EQ(run_model(base_), got) << "failures change nothing";
}

TEST_F(CApiDelta, WhatCodingLosesIsKeptInMemoryAsInAFile) {
  train();
  auto options = sized<graft_delta_options>();
  options.coding = GRAFT_DELTA_INT8;
  const auto bytes_of = [&](graft_delta* delta) {
    const void* data = nullptr;
    std::size_t count = 0;
    EXPECT_EQ(graft_delta_bytes(delta, &data, &count), GRAFT_OK) << h_.message();
    const auto* const first = static_cast<const char*>(data);
    return std::string(first, first + count);
  };
  const std::string path = folder_.file("rest");
  options.residual = path.c_str();
  std::string by_file[2], in_memory[2];
  for (std::string& round : by_file) round = bytes_of(made(base_, &options));
  ASSERT_EQ(graft_residual_create(h_.context, &options.kept), GRAFT_OK) << h_.message();
  graft_delta* delta = nullptr;
  EXPECT_EQ(graft_delta_make(base_, h_.model, &options, &delta), GRAFT_INVALID_ARGUMENT) << "both";
  options.residual = nullptr;
  for (std::string& round : in_memory) round = bytes_of(made(base_, &options));
  EXPECT_EQ(in_memory[0], by_file[0]);
  EXPECT_EQ(in_memory[1], by_file[1]);
  EXPECT_NE(in_memory[1], in_memory[0]) << "what the first lost is in the second";
  graft_residual_destroy(options.kept);
  graft_residual_destroy(nullptr);
}

TEST_F(CApiDelta, AnAverageOfOneAfterTheOtherIsThatOfAll) {
  train();
  auto options = sized<graft_delta_options>();
  options.samples = 3;
  graft_delta* const both[] = {made(base_), made(base_, &options)};
  graft_delta* together = nullptr;
  ASSERT_EQ(graft_delta_average(h_.context, both, 2, nullptr, &together), GRAFT_OK) << h_.message();
  deltas_.push_back(together);
  graft_averager* averager = nullptr;
  ASSERT_EQ(graft_averager_create(h_.context, nullptr, &averager), GRAFT_OK) << h_.message();
  graft_delta* one_by_one = nullptr;
  EXPECT_EQ(graft_averager_finish(averager, &one_by_one), GRAFT_INVALID_ARGUMENT) << "of nothing";
  for (const graft_delta* delta : both) ASSERT_EQ(graft_averager_add(averager, delta), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_averager_finish(averager, &one_by_one), GRAFT_OK) << h_.message();
  graft_averager_destroy(averager);
  deltas_.push_back(one_by_one);
  const void* a = nullptr;
  const void* b = nullptr;
  std::size_t bytes_a = 0, bytes_b = 0;
  ASSERT_EQ(graft_delta_bytes(together, &a, &bytes_a), GRAFT_OK);
  ASSERT_EQ(graft_delta_bytes(one_by_one, &b, &bytes_b), GRAFT_OK);
  ASSERT_EQ(bytes_a, bytes_b);
  EXPECT_EQ(std::memcmp(a, b, bytes_a), 0);
}

TEST_F(CApiDelta, AServerKeepsMomentsFromRoundToRound) {
  train();
  graft_delta* delta = made(base_);
  auto options = sized<graft_server_options>();
  graft_server* server = nullptr;
  ASSERT_EQ(graft_server_create(h_.context, nullptr, &server), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_server_keeps(server), 0) << "a plain average";
  graft_server_destroy(server);
  options.beta1 = 2;
  EXPECT_EQ(graft_server_create(h_.context, &options, &server), GRAFT_INVALID_ARGUMENT);
  options.kind = GRAFT_SERVER_FEDADAM;
  options.beta1 = 0.9;
  ASSERT_EQ(graft_server_create(h_.context, &options, &server), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_server_keeps(server), 1);
  const auto first_of_step = [&](graft_server* from) {
    graft_delta* step = nullptr;
    EXPECT_EQ(graft_server_step(from, base_, delta, &step), GRAFT_OK) << h_.message();
    deltas_.push_back(step);
    std::vector<float> bias(kClasses);
    EXPECT_EQ(graft_delta_numbers(step, "fc2.bias", bias.data(), bias.size()), GRAFT_OK) << h_.message();
    return bias[0];
  };
  first_of_step(server);
  const std::string path = folder_.file("moments");
  ASSERT_EQ(graft_server_save(server, path.c_str()), GRAFT_OK) << h_.message();
  const float second = first_of_step(server);
  graft_server_destroy(server);
  ASSERT_EQ(graft_server_create(h_.context, &options, &server), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_server_load(server, path.c_str()), GRAFT_OK) << h_.message();
  EXPECT_EQ(first_of_step(server), second) << "as if the server had stayed";
  EXPECT_NE(first_of_step(server), second) << "the moments move";
  EXPECT_EQ(graft_server_load(server, path_.c_str()), GRAFT_CORRUPT) << "a model";
  graft_server_destroy(server);
}

TEST_F(CApiDelta, AdaptersGoAsADeltaAndOnAModel) {
  ASSERT_EQ(graft_model_add_adapters(h_.model, "r=2,targets=fc1|fc2", 1), GRAFT_OK) << h_.message();
  train();
  graft_delta* whole = made(base_);
  auto info = sized<graft_delta_info>();
  ASSERT_EQ(graft_delta_describe(whole, &info), GRAFT_OK);
  EXPECT_TRUE(info.of_adapters);
  EXPECT_EQ(info.rank, 2u);
  ASSERT_EQ(graft_delta_apply(base_, whole, 1), GRAFT_OK) << h_.message();
  EXPECT_EQ(run_model(base_), run_model(h_.model)) << "bit for bit";
  // From adapters to adapters: base_ has those of this round now.
  const std::vector<float> before = run_model(base_);
  ASSERT_EQ(open_trainer(trainer_options()), GRAFT_OK) << h_.message();
  for (int i = 0; i < 5; ++i) ASSERT_EQ(batch_.step(h_.trainer, nullptr), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_trainer_store(h_.trainer), GRAFT_OK);
  graft_trainer_destroy(h_.trainer);
  h_.trainer = nullptr;
  graft_delta* step = made(base_);
  ASSERT_EQ(graft_delta_describe(step, &info), GRAFT_OK);
  EXPECT_FALSE(info.of_adapters);
  ASSERT_EQ(graft_delta_apply(base_, step, 1), GRAFT_OK) << h_.message();
  const std::vector<float> got = run_model(base_), wanted = run_model(h_.model);
  EXPECT_NE(got, before);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-5);
}

TEST_F(CApiDelta, WhatIsWrongIsSaid) {
  train();
  auto options = sized<graft_delta_options>();
  options.coding = static_cast<graft_delta_coding>(9);
  graft_delta* delta = nullptr;
  EXPECT_EQ(graft_delta_make(base_, h_.model, &options, &delta), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(says("coding number 9")) << h_.message();
  options.coding = GRAFT_DELTA_F32;
  options.noise = 1;
  EXPECT_EQ(graft_delta_make(base_, h_.model, &options, &delta), GRAFT_INVALID_ARGUMENT);
  options.struct_size = 3;
  EXPECT_EQ(graft_delta_make(base_, h_.model, &options, &delta), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_delta_make(nullptr, h_.model, nullptr, &delta), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_delta_make(base_, h_.model, nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_delta_load(h_.context, folder_.file("none").c_str(), &delta), GRAFT_NOT_FOUND);
  EXPECT_EQ(graft_delta_load(h_.context, path_.c_str(), &delta), GRAFT_CORRUPT);
  EXPECT_EQ(delta, nullptr);

  delta = made(base_);
  std::vector<float> numbers(3);
  EXPECT_EQ(graft_delta_numbers(delta, "fc1.bias", numbers.data(), 3), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_delta_numbers(delta, "nothing", numbers.data(), 3), GRAFT_NOT_FOUND);
  std::uint32_t* integers = nullptr;
  std::size_t count = 0;
  EXPECT_EQ(graft_delta_integers(delta, "fc1.bias", &integers, &count), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(says("not coded as integers")) << h_.message();
  graft_tensor_info tensor;
  EXPECT_EQ(graft_delta_tensor(delta, 4, &tensor), GRAFT_NOT_FOUND);
  graft_delta* average = nullptr;
  EXPECT_EQ(graft_delta_average(h_.context, nullptr, 0, nullptr, &average), GRAFT_INVALID_ARGUMENT);
  graft_delta* none[] = {nullptr};
  EXPECT_EQ(graft_delta_average(h_.context, none, 1, nullptr, &average), GRAFT_INVALID_ARGUMENT);
  auto how = sized<graft_average_options>();
  how.products = 1;
  EXPECT_EQ(graft_delta_average(h_.context, &delta, 1, &how, &average), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(says("against their model")) << h_.message();
  double epsilon = 0;
  EXPECT_EQ(graft_delta_privacy(h_.context, 0, 1, 1, 1e-5, &epsilon), GRAFT_INVALID_ARGUMENT);
  // A trainer lives on the model.
  ASSERT_EQ(open_trainer(trainer_options()), GRAFT_OK);
  EXPECT_EQ(graft_delta_apply(h_.model, delta, 1), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(says("only once that is destroyed")) << h_.message();
}

TEST_F(CApiDelta, AResidualIsKeptBetweenRounds) {
  train();
  const std::string kept = folder_.file("residual");
  auto options = sized<graft_delta_options>();
  options.coding = GRAFT_DELTA_INT8;
  options.residual = kept.c_str();
  std::vector<float> first(std::size_t{1}), second;
  for (std::vector<float>* numbers : {&first, &second}) {
    graft_delta* delta = made(base_, &options);
    graft_tensor_info tensor;
    ASSERT_EQ(graft_delta_tensor(delta, 3, &tensor), GRAFT_OK);
    std::size_t count = 1;
    for (std::uint32_t d = 0; d < tensor.rank; ++d) count *= static_cast<std::size_t>(tensor.dims[d]);
    numbers->resize(count);
    ASSERT_EQ(graft_delta_numbers(delta, tensor.name, numbers->data(), count), GRAFT_OK);
  }
  EXPECT_NE(first, second);
}

}  // namespace
}  // namespace graft::test::c_api_delta_test
