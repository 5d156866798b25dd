// The C ABI's forecast: what a trainer takes is known without making it, and without a device.
#include <atomic>
#include <chrono>
#include <thread>

#include "runtime/core/op_id.gen.h"
#include "tests/support/c_api.h"

namespace graft::test::c_api_forecast_test {
namespace {

TEST_F(CApi, AForecastIsWhatTheTrainerTakes) {
  auto forecast = sized<graft_forecast>();
  auto memory = sized<graft_memory>();
  const auto options = trainer_options();
  ASSERT_EQ(graft_forecast_training(h_.model, &options, &forecast), GRAFT_OK) << h_.message();
  ASSERT_EQ(open_trainer(options), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_trainer_memory(h_.trainer, &memory), GRAFT_OK);
  EXPECT_EQ(forecast.total, memory.total);
  EXPECT_EQ(forecast.activations, memory.activations);
  EXPECT_EQ(forecast.micro_batch, kSamples);
  EXPECT_GT(forecast.flops, 0u);
  EXPECT_EQ(forecast.extra_flops, 0u);
  EXPECT_STREQ(forecast.explanation, "");
}

TEST(CApiForecast, NeedsNoDevice) {
  TemporaryFolder folder;
  const std::string path = folder.path() + "/deep.graft";
  TinyModel deep;
  Builder b(deep.graph);
  ValueId h = deep.input("x", {32});
  for (int i = 0; i < 12; ++i) {
    h = b.node(Op::tanh, {b.node(Op::matmul, {h, deep.weight("w" + std::to_string(i), {32, 32}, 0.2)})});
  }
  deep.graph.add_output("y", h);
  write_model(deep, path);

  CHandles h_;
  auto context = sized<graft_context_options>();
  context.device = "none";
  ASSERT_EQ(graft_context_create(&context, &h_.context), GRAFT_OK) << h_.message();
  EXPECT_STREQ(graft_device_name(h_.context), "");
  ASSERT_EQ(graft_model_load(h_.context, path.c_str(), &h_.model), GRAFT_OK) << h_.message();
  auto options = training_options();
  options.batch = 512;
  auto free = sized<graft_forecast>();
  ASSERT_EQ(graft_forecast_training(h_.model, &options, &free), GRAFT_OK) << h_.message();

  options.budget = free.total - 1;
  auto tight = sized<graft_forecast>();
  ASSERT_EQ(graft_forecast_training(h_.model, &options, &tight), GRAFT_OK) << h_.message();
  EXPECT_LE(tight.total, options.budget);
  EXPECT_EQ(tight.micro_batch, 512u);
  EXPECT_GT(tight.recomputed, 0u);
  EXPECT_EQ(tight.flops, free.flops + tight.extra_flops);
  EXPECT_TRUE(contains(tight.explanation, "again in the backward pass")) << tight.explanation;

  options.budget = 1;
  EXPECT_EQ(graft_forecast_training(h_.model, &options, &tight), GRAFT_OUT_OF_MEMORY);
  EXPECT_TRUE(contains(h_.message(), "smallest budget that works")) << h_.message();

  EXPECT_EQ(graft_trainer_create(h_.model, &options, &h_.trainer), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "no device")) << h_.message();
  const graft_binding batch = {"batch", 2};
  auto session = sized<graft_session_options>();
  session.bindings = &batch;
  session.binding_count = 1;
  EXPECT_EQ(graft_session_create(h_.model, &session, &h_.session), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "no device")) << h_.message();
}

TEST(CApiForecast, CancellingEndsIt) {
  const TemporaryFolder folder;
  write_model(lenet(), folder.file("m.graft"));
  CHandles h_;
  auto context = sized<graft_context_options>();
  context.device = "none";
  ASSERT_EQ(graft_context_create(&context, &h_.context), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_model_load(h_.context, folder.file("m.graft").c_str(), &h_.model), GRAFT_OK) << h_.message();
  auto options = training_options();
  options.batch = 64;
  options.budget = 1;  // a search that tries everything
  auto forecast = sized<graft_forecast>();
  const auto plan = [&] { return graft_forecast_training(h_.model, &options, &forecast); };
  ASSERT_EQ(plan(), GRAFT_OUT_OF_MEMORY) << h_.message();
  std::atomic<bool> over = false;
  std::thread other([&] {
    while (!over) {
      graft_cancel(h_.context);
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  });
  EXPECT_EQ(plan(), GRAFT_CANCELLED) << h_.message();
  over = true;
  other.join();
  (void)graft_uncancel(h_.context);
  EXPECT_EQ(plan(), GRAFT_OUT_OF_MEMORY) << "the next call is not cancelled";
}

}  // namespace
}  // namespace graft::test::c_api_forecast_test
