// The C ABI's shapes: names of dimensions, and what a trainer's samples consist of.
#include "tests/support/c_api.h"

namespace graft::test::c_api_shapes_test {
namespace {

TEST_F(CApi, DimensionsThatAreNotBoundHaveNames) {
  const char* name = nullptr;
  ASSERT_EQ(graft_model_dimension(h_.model, GRAFT_INPUTS, 0, 0, &name), GRAFT_OK) << h_.message();
  EXPECT_STREQ(name, "batch");
  ASSERT_EQ(graft_model_dimension(h_.model, GRAFT_INPUTS, 0, 1, &name), GRAFT_OK) << h_.message();
  EXPECT_STREQ(name, "") << "it is a number";
  ASSERT_EQ(graft_model_dimension(h_.model, GRAFT_OUTPUTS, 0, 0, &name), GRAFT_OK) << h_.message();
  EXPECT_STREQ(name, "batch");
  EXPECT_EQ(graft_model_dimension(h_.model, GRAFT_INPUTS, 0, 2, &name), GRAFT_NOT_FOUND);
  EXPECT_TRUE(contains(h_.message(), "2 axes")) << h_.message();
  EXPECT_EQ(graft_model_dimension(h_.model, GRAFT_INPUTS, 1, 0, &name), GRAFT_NOT_FOUND);
  EXPECT_EQ(graft_model_dimension(h_.model, static_cast<graft_tensor_kind>(9), 0, 0, &name), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_model_dimension(h_.model, GRAFT_INPUTS, 0, 0, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_model_dimension(nullptr, GRAFT_INPUTS, 0, 0, &name), GRAFT_INVALID_ARGUMENT);
}

TEST_F(CApi, RunningStatisticsAreBuffers) {
  write_model(tiny_cnn(kClasses), path_);
  graft_model* model = nullptr;
  ASSERT_EQ(graft_model_load(h_.context, path_.c_str(), &model), GRAFT_OK) << h_.message();
  std::vector<std::string> names;
  for (std::size_t i = 0; i < graft_model_count(model, GRAFT_BUFFERS); ++i) {
    graft_tensor_info info{};
    EXPECT_EQ(graft_model_tensor(model, GRAFT_BUFFERS, i, &info), GRAFT_OK) << h_.message();
    names.emplace_back(info.name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"bn.running_mean", "bn.running_var"}));
  EXPECT_EQ(graft_model_count(model, GRAFT_CONSTANTS), 0u);
  graft_model_destroy(model);
}

TEST_F(CApi, ASampleIsTheInputsAndTheTarget) {
  for (const graft_loss loss : {GRAFT_LOSS_CROSS_ENTROPY, GRAFT_LOSS_MSE}) {
    auto options = trainer_options();
    options.loss = loss;
    ASSERT_EQ(open_trainer(options), GRAFT_OK) << h_.message();
    graft_tensor_info info{};
    ASSERT_EQ(graft_trainer_sample(h_.trainer, 0, &info), GRAFT_OK) << h_.message();
    EXPECT_STREQ(info.name, "x");
    EXPECT_EQ(info.dtype, GRAFT_F32);
    ASSERT_EQ(info.rank, 1u);
    EXPECT_EQ(info.dims[0], kInputs);
    ASSERT_EQ(graft_trainer_sample(h_.trainer, 1, &info), GRAFT_OK) << h_.message();
    if (loss == GRAFT_LOSS_CROSS_ENTROPY) {
      EXPECT_EQ(info.dtype, GRAFT_I32) << "a label for each sample";
      EXPECT_EQ(info.rank, 0u);
    } else {
      EXPECT_EQ(info.dtype, GRAFT_F32);
      ASSERT_EQ(info.rank, 1u);
      EXPECT_EQ(info.dims[0], kClasses);
    }
    EXPECT_EQ(graft_trainer_sample(h_.trainer, 2, &info), GRAFT_NOT_FOUND);
    EXPECT_EQ(graft_trainer_sample(h_.trainer, 0, nullptr), GRAFT_INVALID_ARGUMENT);
  }
  graft_tensor_info info{};
  EXPECT_EQ(graft_trainer_sample(nullptr, 0, &info), GRAFT_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace graft::test::c_api_shapes_test
