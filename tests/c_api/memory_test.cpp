// graft/memory.h: budgets of running trainers, fetched values, gradients in pieces.
#include <cmath>

#include "runtime/c_api/c_handles.h"
#include "tests/support/c_api.h"
#include "tests/support/state_hash.h"

namespace graft::test::c_api_memory_test {
namespace {

TEST_F(CApi, ARunningTrainerGivesMemoryBackAndGoesOn) {
  auto options = trainer_options();
  options.batch = 16 * kSamples;  // so that smaller micro-batches take less than all gradients do
  ASSERT_EQ(open_trainer(options), GRAFT_OK) << h_.message();
  auto metrics = sized<graft_metrics>();
  double last = 0;
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(batch_.step(h_.trainer, &metrics), GRAFT_OK) << h_.message();
    last = metrics.loss;
  }
  auto memory = sized<graft_memory>();
  ASSERT_EQ(graft_trainer_memory(h_.trainer, &memory), GRAFT_OK);
  const std::uint64_t before = memory.total;
  EXPECT_EQ(graft_trainer_trim(h_.trainer, before), GRAFT_OUT_OF_MEMORY);
  EXPECT_TRUE(contains(h_.message(), "cannot give back")) << h_.message();
  EXPECT_EQ(graft_trainer_set_budget(h_.trainer, 1), GRAFT_OUT_OF_MEMORY);
  EXPECT_TRUE(contains(h_.message(), "smallest budget that works")) << h_.message();
  ASSERT_EQ(graft_trainer_trim(h_.trainer, 1), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_trainer_memory(h_.trainer, &memory), GRAFT_OK);
  EXPECT_LT(memory.total, before);
  ASSERT_EQ(batch_.step(h_.trainer, &metrics), GRAFT_OK) << h_.message();
  EXPECT_EQ(metrics.step, 4u);
  EXPECT_LT(metrics.loss, last) << "it goes on where it was";
  EXPECT_EQ(graft_trainer_trim(nullptr, 1), GRAFT_INVALID_ARGUMENT);
  std::uint64_t shortages = 7;
  ASSERT_EQ(graft_trainer_shortages(h_.trainer, &shortages), GRAFT_OK) << h_.message();
  EXPECT_EQ(shortages, 0u) << "the device had enough; what it had not is in c_api_faults";
  EXPECT_EQ(graft_trainer_shortages(h_.trainer, nullptr), GRAFT_INVALID_ARGUMENT);
}

TEST_F(CApi, APausedSessionHoldsNothingAndKeepsItsInputs) {
  ASSERT_EQ(open_session(), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_session_pause(h_.session), GRAFT_OK) << "before anything was given";
  ASSERT_EQ(graft_session_set_input(h_.session, "x", batch_.x.data(), batch_.bytes()), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_session_run(h_.session), GRAFT_OK) << h_.message();
  const std::vector<float> expected = output(h_.session);
  EXPECT_GT(h_.context->device->memory().reserved_bytes, 0u);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(graft_session_pause(h_.session), GRAFT_OK) << h_.message();
    ASSERT_EQ(graft_session_pause(h_.session), GRAFT_OK) << h_.message();
    EXPECT_EQ(h_.context->device->memory().reserved_bytes, 0u);
    auto memory = sized<graft_memory>();
    EXPECT_EQ(graft_session_memory(h_.session, &memory), GRAFT_OK) << "as planned";
    EXPECT_GT(memory.total, 0u);
    if (i == 0) {
      ASSERT_EQ(graft_session_resume(h_.session), GRAFT_OK) << h_.message();
    }
    ASSERT_EQ(graft_session_run(h_.session), GRAFT_OK) << h_.message();
    EXPECT_EQ(output(h_.session), expected);
  }
  EXPECT_EQ(graft_session_pause(nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_session_resume(nullptr), GRAFT_INVALID_ARGUMENT);
}

TEST_F(CApi, ATrainerOutlivesAPauseAndItsDevice) {
  auto options = trainer_options();
  const auto train = [&](auto between) {
    EXPECT_EQ(open_trainer(options), GRAFT_OK) << h_.message();
    for (int i = 0; i < 4; ++i) {
      between(i);
      EXPECT_EQ(batch_.step(h_.trainer), GRAFT_OK) << h_.message();
    }
    return state_text(*h_.trainer->trainer);
  };
  const std::string expected = train([](int) {});
  EXPECT_EQ(train([&](int) {
              EXPECT_EQ(graft_trainer_pause(h_.trainer), GRAFT_OK) << h_.message();
              EXPECT_TRUE(h_.trainer->trainer->is_paused());
            }),
            expected);
  EXPECT_EQ(graft_trainer_pause(h_.trainer), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_trainer_resume(h_.trainer), GRAFT_OK) << h_.message();
  EXPECT_FALSE(h_.trainer->trainer->is_paused());
  EXPECT_EQ(graft_trainer_pause(nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_trainer_resume(nullptr), GRAFT_INVALID_ARGUMENT);

  vulkan::CallFaults faults;
  faults.result = -4;  // VK_ERROR_DEVICE_LOST
  h_.context->device_options.instance.faults = &faults;
  ASSERT_TRUE(c_api::reopen_device(*h_.context).ok());
  options.recover_device = 1;
  EXPECT_EQ(train([&](int i) { faults.fail_call = i == 2 ? faults.calls + 2 : 0; }), expected);
  EXPECT_EQ(h_.trainer->trainer->losses(), 1u);
  options.recover_device = 0;
  ASSERT_EQ(open_trainer(options), GRAFT_OK) << h_.message();
  faults.fail_call = faults.calls + 2;
  EXPECT_EQ(batch_.step(h_.trainer), GRAFT_DEVICE_LOST);
  h_.context->device_options.instance.faults = nullptr;
}

TEST_F(CApi, ValuesOfTheForwardPassAreFetchedByName) {
  auto options = trainer_options();
  options.fetch = "y";
  ASSERT_EQ(open_trainer(options), GRAFT_OK) << h_.message();
  const void* data = nullptr;
  std::size_t bytes = 0;
  auto info = graft_tensor_info{};
  EXPECT_EQ(graft_trainer_fetch(h_.trainer, "y", &data, &bytes, &info), GRAFT_INVALID_ARGUMENT) << "no step yet";
  const std::vector<float> expected = run_model(h_.model);
  ASSERT_EQ(batch_.step(h_.trainer), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_trainer_fetch(h_.trainer, "y", &data, &bytes, &info), GRAFT_OK) << h_.message();
  EXPECT_STREQ(info.name, "y");
  EXPECT_EQ(info.rank, 2u);
  EXPECT_EQ(info.dims[0], kSamples);
  ASSERT_EQ(bytes, expected.size() * sizeof(float));
  EXPECT_EQ(std::memcmp(data, expected.data(), bytes), 0);
  EXPECT_EQ(graft_trainer_fetch(h_.trainer, "x", &data, &bytes, &info), GRAFT_NOT_FOUND);
  options.fetch = "nothing";
  EXPECT_NE(open_trainer(options), GRAFT_OK);
  h_.trainer = nullptr;
}

TEST_F(CApi, GradientsOfManySamplesComeInPieces) {
  const graft_binding batch = {"batch", kSamples};
  const char* const wrt[] = {"x", "fc1.weight"};
  auto options = sized<graft_gradient_options>();
  options.of = "y";
  options.wrt = wrt;
  options.wrt_count = 2;
  options.bindings = &batch;
  options.binding_count = 1;
  const std::vector<float> cotangent(kSamples * kClasses, 1.0f);
  const graft_data inputs[] = {{"x", batch_.x.data(), batch_.bytes()},
                               {"cotangent", cotangent.data(), cotangent.size() * sizeof(float)}};
  const auto gradient = [&](const char* name, std::uint32_t micro_batch, int per_sample = 0) {
    options.micro_batch = micro_batch;
    options.per_sample = per_sample;
    graft_gradients* made = nullptr;
    EXPECT_EQ(graft_gradients_compute(h_.model, &options, inputs, 2, &made), GRAFT_OK) << h_.message();
    const void* data = nullptr;
    std::size_t bytes = 0;
    auto info = graft_tensor_info{};
    EXPECT_EQ(graft_gradients_get(made, name, &data, &bytes, &info), GRAFT_OK) << h_.message();
    EXPECT_STREQ(info.name, name);
    EXPECT_EQ(graft_gradients_get(made, "fc2.weight", &data, &bytes, nullptr), GRAFT_NOT_FOUND);
    std::vector<float> values(bytes / sizeof(float));
    if (!values.empty()) std::memcpy(values.data(), data, bytes);
    graft_gradients_destroy(made);
    return values;
  };
  EXPECT_EQ(gradient("x", 1), gradient("x", 0)) << "each sample's own";
  const auto whole = gradient("fc1.weight", 0);
  const auto pieces = gradient("fc1.weight", 1);
  ASSERT_EQ(pieces.size(), whole.size());
  // Sums of four numbers below 1 in another order: a few roundings of 6e-8.
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(pieces[i], whole[i], 1e-6);
  const auto each = gradient("fc1.weight", 0, 1);
  ASSERT_EQ(each.size(), kSamples * whole.size());

  graft_gradients* made = nullptr;
  options.budget = 1;
  EXPECT_EQ(graft_gradients_compute(h_.model, &options, inputs, 2, &made), GRAFT_OUT_OF_MEMORY);
  options.budget = 0;
  EXPECT_EQ(graft_gradients_compute(h_.model, &options, inputs, 1, &made), GRAFT_INVALID_ARGUMENT);
  const graft_data wrong[] = {{"x", batch_.x.data(), 3}, inputs[1]};
  EXPECT_EQ(graft_gradients_compute(h_.model, &options, wrong, 2, &made), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "takes")) << h_.message();
  EXPECT_EQ(made, nullptr);
  graft_gradients_destroy(nullptr);
}

}  // namespace
}  // namespace graft::test::c_api_memory_test
