// ctest: slow (several trainers; a software driver compiles their kernels)
// The gate, losses of several terms and the mean of the weights by the C ABI.
#include "graft/gate.h"

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "graft/data.h"
#include "tests/support/c_api.h"

namespace graft::test::c_api_gate_test {
namespace {

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class CApiGate : public testing::Test {
 protected:
  void SetUp() override {
    std::string& name = device_;
    const auto options = context_options(name);
    const graft_status opened = graft_context_create(&options, &h_.context);
    if (opened != GRAFT_OK) GTEST_SKIP() << "There is no device.";
    write_model(lenet(), folder_.file("old.graft"));
    ASSERT_EQ(graft_model_load(h_.context, folder_.file("old.graft").c_str(), &old_), GRAFT_OK);
    ASSERT_EQ(graft_model_load(h_.context, folder_.file("old.graft").c_str(), &h_.model), GRAFT_OK);
    ASSERT_EQ(graft_data_open(h_.context, "digits:?count=64&split=test", &set_), GRAFT_OK);
  }
  void TearDown() override {
    graft_model_destroy(old_);
    graft_data_destroy(set_);
  }

  graft_gate_result gate(const char* conditions, double margin, const std::string& path) {
    auto options = sized<graft_gate_options>();
    options.conditions = conditions;
    options.margin = margin;
    auto result = sized<graft_gate_result>();
    EXPECT_EQ(graft_gate(h_.model, old_, set_, &options, path.c_str(), &result), GRAFT_OK) << graft_message(h_.context);
    return result;
  }

  std::string device_;
  TemporaryFolder folder_;
  CHandles h_;
  graft_model* old_ = nullptr;
  graft_data_set* set_ = nullptr;
};

TEST_F(CApiGate, LetsThroughWhatHoldsAndKeepsTheOldFileOtherwise) {
  const std::string path = folder_.file("live.graft");
  std::filesystem::copy_file(folder_.file("old.graft"), path);
  const std::string before = bytes_of(path);
  const graft_gate_result refused = gate("accuracy>=0.99", 0, path);
  EXPECT_EQ(refused.passed, 0);
  EXPECT_NE(std::string(refused.reason).find("accuracy>=0.99"), std::string::npos);
  EXPECT_EQ(refused.now, refused.before);
  EXPECT_EQ(refused.changed_count, 0u);
  EXPECT_EQ(refused.p_value, 1);
  EXPECT_EQ(bytes_of(path), before);
  EXPECT_TRUE(std::filesystem::exists(folder_.file("live.rejected.graft")));
  const graft_gate_result passed = gate("accuracy>=0,loss<=100", 0, path);
  EXPECT_EQ(passed.passed, 1);
  EXPECT_STREQ(passed.reason, "");
  auto options = sized<graft_gate_options>();
  auto result = sized<graft_gate_result>();
  EXPECT_EQ(graft_gate(h_.model, old_, set_, &options, nullptr, &result), GRAFT_INVALID_ARGUMENT);
  options.conditions = "accuracy<=1";
  EXPECT_EQ(graft_gate(h_.model, old_, set_, &options, nullptr, &result), GRAFT_INVALID_ARGUMENT);
}

TEST_F(CApiGate, TrainsTermsByNameAndKeepsAMean) {
  auto options = training_options(GRAFT_LION);
  options.losses = "ce+0.5*focal";
  options.learning_rate = 1e-3;
  options.batch = 4;
  options.ema = 0.5;
  ASSERT_EQ(graft_trainer_create(h_.model, &options, &h_.trainer), GRAFT_OK) << graft_message(h_.context);
  const std::vector<float> image(4 * 28 * 28, 0.25F);
  const std::int32_t labels[4] = {1, 2, 3, 4};
  const void* const inputs[] = {image.data(), labels};  // the first term's targets stand with the inputs
  auto metrics = sized<graft_metrics>();
  for (int step = 0; step < 2; ++step) {
    ASSERT_EQ(graft_train_step(h_.trainer, inputs, 2, labels, 4, &metrics), GRAFT_OK) << graft_message(h_.context);
  }
  EXPECT_TRUE(std::isfinite(metrics.loss));
  ASSERT_EQ(graft_trainer_store_ema(h_.trainer), GRAFT_OK) << graft_message(h_.context);
  options.losses = "ce+speed";
  graft_trainer* other = nullptr;
  EXPECT_EQ(graft_trainer_create(h_.model, &options, &other), GRAFT_INVALID_ARGUMENT);
  EXPECT_NE(std::string(graft_message(h_.context)).find("speed"), std::string::npos);
}

}  // namespace
}  // namespace graft::test::c_api_gate_test
