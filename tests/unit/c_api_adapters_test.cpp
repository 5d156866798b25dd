// The C ABI: low-rank adapters, put on, trained, saved, swapped and taken off.
#include "tests/support/c_api.h"

namespace graft::test {
namespace {

TEST_F(CApi, AdaptersAreTrainedSavedSwappedAndTakenOff) {
  const std::vector<float> plain = run_model(h_.model);
  EXPECT_EQ(graft_model_add_adapters(h_.model, "r=0", 1), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_model_add_adapters(h_.model, "targets=nothing", 1), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "\"nothing\" matches no weight")) << h_.message();
  EXPECT_EQ(graft_model_save_adapters(h_.model, path_.c_str()), GRAFT_INVALID_ARGUMENT) << "there are none";
  EXPECT_EQ(run_model(h_.model), plain) << "failures change nothing";

  ASSERT_EQ(graft_model_add_adapters(h_.model, "r=2,targets=fc1|fc2", 1), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_model_count(h_.model, GRAFT_PARAMETERS), 4u) << "two matrices for each of two layers";
  EXPECT_EQ(run_model(h_.model), plain) << "B starts as zeros";
  ASSERT_EQ(open_trainer(trainer_options()), GRAFT_OK) << h_.message();
  auto metrics = sized<graft_metrics>();
  ASSERT_EQ(batch_.step(h_.trainer, &metrics), GRAFT_OK) << h_.message();
  const double first = metrics.loss;
  for (int i = 0; i < 30; ++i) ASSERT_EQ(batch_.step(h_.trainer, &metrics), GRAFT_OK) << h_.message();
  EXPECT_LT(metrics.loss, first);
  ASSERT_EQ(graft_trainer_store(h_.trainer), GRAFT_OK) << h_.message();
  const std::vector<float> trained = run_model(h_.model);
  EXPECT_NE(trained, plain);

  const std::string adapters = folder_.file("adapters.graft");
  ASSERT_EQ(graft_model_save_adapters(h_.model, adapters.c_str()), GRAFT_OK) << h_.message();
  graft_trainer_destroy(h_.trainer);
  h_.trainer = nullptr;
  ASSERT_EQ(graft_model_load_adapters(h_.model, nullptr), GRAFT_OK) << h_.message();
  EXPECT_EQ(run_model(h_.model), plain);
  EXPECT_EQ(graft_model_count(h_.model, GRAFT_PARAMETERS), 4u) << "two weights and two biases";
  ASSERT_EQ(graft_model_load_adapters(h_.model, adapters.c_str()), GRAFT_OK) << h_.message();
  EXPECT_EQ(run_model(h_.model), trained) << "bit for bit";
  // Another set instead, and back.
  ASSERT_EQ(graft_model_add_adapters(h_.model, "r=3", 2), GRAFT_OK) << h_.message();
  EXPECT_EQ(run_model(h_.model), plain);
  ASSERT_EQ(graft_model_load_adapters(h_.model, adapters.c_str()), GRAFT_OK) << h_.message();
  EXPECT_EQ(run_model(h_.model), trained);
  EXPECT_EQ(graft_model_load_adapters(h_.model, path_.c_str()), GRAFT_INVALID_ARGUMENT) << "a model is no adapter";
  EXPECT_EQ(run_model(h_.model), trained) << "failures change nothing";
}

}  // namespace
}  // namespace graft::test
