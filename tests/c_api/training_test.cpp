// The C ABI: training, asked of graft.h.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>

#include "runtime/c_api/c_handles.h"
#include "tests/support/c_api.h"
#include "tests/support/state_hash.h"

namespace graft::test::c_api_training_test {
namespace {

TEST_F(CApi, TrainersRefuseWhatDoesNotFit) {
  auto options = trainer_options();
  options.loss = static_cast<graft_loss>(99);
  EXPECT_EQ(open_trainer(options), GRAFT_INVALID_ARGUMENT);
  options = trainer_options();
  options.optimizer = static_cast<graft_optimizer>(99);
  EXPECT_EQ(open_trainer(options), GRAFT_INVALID_ARGUMENT);
  options = trainer_options();
  options.schedule = static_cast<graft_schedule>(99);
  EXPECT_EQ(open_trainer(options), GRAFT_INVALID_ARGUMENT);
  for (const double rate : {-1.0, std::nan(""), HUGE_VAL}) {
    options = trainer_options();
    options.learning_rate = rate;
    EXPECT_EQ(open_trainer(options), GRAFT_INVALID_ARGUMENT) << rate;
  }
  EXPECT_EQ(h_.trainer, nullptr);

  ASSERT_EQ(open_trainer(trainer_options()), GRAFT_OK) << h_.message();
  const void* labels = batch_.labels.data();
  EXPECT_EQ(graft_train_step(h_.trainer, batch_.inputs, 0, labels, kSamples, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_train_step(h_.trainer, batch_.inputs, 2, labels, kSamples, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_train_step(h_.trainer, batch_.inputs, 1, labels, 0, nullptr), GRAFT_INVALID_ARGUMENT);
  const CBatch large(kSamples + 1, kInputs, kClasses);
  EXPECT_EQ(large.step(h_.trainer), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "5 samples")) << h_.message();
  CBatch wrong(kSamples, kInputs, kClasses);
  wrong.labels[2] = kClasses;
  auto metrics = sized<graft_metrics>();
  metrics.step = 77;
  EXPECT_EQ(wrong.step(h_.trainer, &metrics), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(metrics.step, 77u) << "nothing is written on failure";
  EXPECT_EQ(batch_.step(h_.trainer, &metrics), GRAFT_OK) << h_.message();
  EXPECT_EQ(metrics.step, 1u) << "refused steps do not count";
}

TEST_F(CApi, TrainingLowersTheLoss) {
  for (const graft_optimizer optimizer : {GRAFT_SGD, GRAFT_ADAMW}) {
    auto options = trainer_options();
    options.optimizer = optimizer;
    options.learning_rate = optimizer == GRAFT_SGD ? 0.5 : 0.05;
    ASSERT_EQ(open_trainer(options), GRAFT_OK) << h_.message();
    auto metrics = sized<graft_metrics>();
    ASSERT_EQ(batch_.step(h_.trainer, &metrics), GRAFT_OK) << h_.message();
    const double first = metrics.loss;
    for (int i = 0; i < 40; ++i) ASSERT_EQ(batch_.step(h_.trainer, &metrics), GRAFT_OK) << h_.message();
    EXPECT_EQ(metrics.step, 41u);
    EXPECT_DOUBLE_EQ(metrics.learning_rate, options.learning_rate);
    EXPECT_LT(metrics.loss, 0.5 * first);
    ASSERT_EQ(graft_evaluate(h_.trainer, batch_.inputs, 1, batch_.labels.data(), kSamples, &metrics), GRAFT_OK);
    EXPECT_EQ(metrics.accuracy, 1.0) << "four samples can be learnt by heart";
  }
}

TEST_F(CApi, AShortBatchWeighsItsSamplesRight) {
  // A short batch of a large trainer takes the step that a trainer of that size takes.
  const CBatch two(2, kInputs, kClasses);
  std::map<std::uint32_t, std::vector<float>> after;
  for (const std::uint32_t batch : {2u, kSamples}) {
    for (const std::uint32_t micro : {0u, 1u}) {
      auto options = trainer_options();
      options.batch = batch;
      options.micro_batch = micro;
      ASSERT_EQ(open_trainer(options), GRAFT_OK) << h_.message();
      ASSERT_EQ(two.step(h_.trainer), GRAFT_OK) << h_.message();
      graft_model* copy = nullptr;
      ASSERT_EQ(graft_trainer_store(h_.trainer), GRAFT_OK) << h_.message();
      after[10 * batch + micro] = run_model(h_.model);
      graft_trainer_destroy(h_.trainer);
      h_.trainer = nullptr;
      ASSERT_EQ(graft_model_load(h_.context, path_.c_str(), &copy), GRAFT_OK) << h_.message();
      graft_model_destroy(h_.model);
      h_.model = copy;
    }
  }
  const std::vector<float> untouched = run_model(h_.model);
  for (const auto& [key, y] : after) {
    ASSERT_EQ(y.size(), untouched.size());
    double moved = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      // Sums of two terms, scaled before or after: a few units in the last place of numbers of about 1.
      EXPECT_NEAR(y[i], after[20][i], 2e-6) << key;
      moved = std::max(moved, std::abs(static_cast<double>(y[i]) - untouched[i]));
    }
    EXPECT_GT(moved, 1e-3) << key;
  }
}

TEST_F(CApi, WhatIsStoredAndSavedIsWhatWasTrained) {
  const std::vector<float> before = run_model(h_.model);
  ASSERT_EQ(open_trainer(trainer_options()), GRAFT_OK) << h_.message();
  for (int i = 0; i < 5; ++i) ASSERT_EQ(batch_.step(h_.trainer), GRAFT_OK) << h_.message();
  EXPECT_EQ(run_model(h_.model), before) << "only store changes the model";
  auto metrics = sized<graft_metrics>();
  ASSERT_EQ(graft_evaluate(h_.trainer, batch_.inputs, 1, batch_.labels.data(), kSamples, &metrics), GRAFT_OK);
  ASSERT_EQ(graft_trainer_store(h_.trainer), GRAFT_OK) << h_.message();
  const std::vector<float> trained = run_model(h_.model);
  EXPECT_NE(trained, before);
  // Over the file that the model was loaded from, which is mapped.
  ASSERT_EQ(graft_model_save(h_.model, path_.c_str()), GRAFT_OK) << h_.message();
  graft_model* again = nullptr;
  ASSERT_EQ(graft_model_load(h_.context, path_.c_str(), &again), GRAFT_OK) << h_.message();
  const std::vector<float> reloaded = run_model(again);
  graft_model_destroy(again);
  EXPECT_EQ(reloaded, trained) << "bit for bit";
  double loss = 0;
  for (std::uint32_t i = 0; i < kSamples; ++i) {
    double sum = 0;
    for (std::int32_t c = 0; c < kClasses; ++c) sum += std::exp(static_cast<double>(reloaded[i * kClasses + c]));
    loss += std::log(sum) - reloaded[i * kClasses + batch_.labels[i]];
  }
  EXPECT_NEAR(loss / kSamples, metrics.loss, 1e-5) << "f32 sums of four terms of about 1";
}

TEST_F(CApi, BatchStatisticsAreStoredToo) {
  const std::string path = folder_.file("cnn.graft");
  write_model(tiny_cnn(kClasses), path);
  CHandles h;
  const auto options = context_options(device_);
  ASSERT_EQ(graft_context_create(&options, &h.context), GRAFT_OK);
  ASSERT_EQ(graft_model_load(h.context, path.c_str(), &h.model), GRAFT_OK) << h.message();
  const auto train = trainer_options();
  ASSERT_EQ(graft_trainer_create(h.model, &train, &h.trainer), GRAFT_OK) << h.message();
  const CBatch images(kSamples, 64, kClasses);
  auto metrics = sized<graft_metrics>();
  for (int i = 0; i < 3; ++i) ASSERT_EQ(images.step(h.trainer, &metrics), GRAFT_OK) << h.message();
  const auto evaluate = [&](graft_trainer* trainer) {
    EXPECT_EQ(graft_evaluate(trainer, images.inputs, 1, images.labels.data(), kSamples, &metrics), GRAFT_OK);
    return metrics.loss;
  };
  const double trained = evaluate(h.trainer);
  ASSERT_EQ(graft_trainer_store(h.trainer), GRAFT_OK) << h.message();
  graft_trainer* other = nullptr;
  ASSERT_EQ(graft_trainer_create(h.model, &train, &other), GRAFT_OK) << h.message();
  EXPECT_EQ(evaluate(other), trained) << "parameters and running statistics, bit for bit";
  graft_trainer_destroy(other);
}

TEST_F(CApi, EveryOptionOfAStepChangesIt) {
  const auto after = [&](const std::function<void(graft_trainer_options&)>& set) {
    auto options = trainer_options();
    options.optimizer = GRAFT_ADAMW;
    set(options);
    EXPECT_EQ(open_trainer(options), GRAFT_OK) << h_.message();
    for (int i = 0; i < 3; ++i) EXPECT_EQ(batch_.step(h_.trainer), GRAFT_OK) << h_.message();
    return state_text(*h_.trainer->trainer);
  };
  const std::string usual = after([](auto&) {});
  // What a zero stands for.
  EXPECT_EQ(usual, after([](auto& o) {
              o.beta1 = 0.9;
              o.beta2 = 0.999;
              o.epsilon = 1e-8;
              o.ignore_index = -100;
            }));
  EXPECT_NE(usual, after([](auto& o) { o.beta1 = 0.5; }));
  EXPECT_NE(usual, after([](auto& o) { o.beta2 = 0.5; }));
  EXPECT_NE(usual, after([](auto& o) { o.epsilon = 0.1; }));
  EXPECT_NE(usual, after([](auto& o) { o.clip_value = 1e-4; }));
  const std::int32_t label = batch_.labels[0];
  EXPECT_NE(usual, after([&](auto& o) {
              o.ignore_index = label;
            }));
  const auto linear = [](auto& o) {
    o.schedule = GRAFT_LINEAR;
    o.total_steps = 3;
  };
  const std::string to_zero = after(linear);
  EXPECT_NE(usual, to_zero);
  EXPECT_NE(to_zero, after([&](auto& o) {
              linear(o);
              o.final_lr_factor = 0.5;
            }));
  const auto steps = [](auto& o) {
    o.schedule = GRAFT_STEP;
    o.step_size = 1;
  };
  const std::string tenths = after(steps);
  EXPECT_NE(usual, tenths);
  EXPECT_EQ(usual, after([](auto& o) { o.schedule = GRAFT_STEP; })) << "the first drop is after 1,000 steps";
  EXPECT_NE(tenths, after([&](auto& o) {
              steps(o);
              o.gamma = 0.5;
            }));
}

/// An allocator that counts.
struct Counted {
  std::size_t live = 0;
  std::size_t calls = 0;
  bool fail = false;
  static void* allocate(void* user, std::size_t bytes, std::size_t alignment) {
    auto& self = *static_cast<Counted*>(user);
    ++self.calls;
    if (self.fail) return nullptr;
    self.live += bytes;
    return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  }
  static void deallocate(void* user, void* block, std::size_t bytes, std::size_t) {
    static_cast<Counted*>(user)->live -= bytes;
    std::free(block);
  }
};

TEST_F(CApi, TheCallersAllocatorIsUsed) {
  Counted counted;
  {
    CHandles h;
    auto options = context_options(device_);
    options.allocate = Counted::allocate;
    EXPECT_EQ(graft_context_create(&options, &h.context), GRAFT_INVALID_ARGUMENT) << "both or neither";
    graft_context_destroy(h.context);
    options.deallocate = Counted::deallocate;
    options.allocator_user = &counted;
    ASSERT_EQ(graft_context_create(&options, &h.context), GRAFT_OK) << h.message();
    ASSERT_EQ(graft_model_load(h.context, path_.c_str(), &h.model), GRAFT_OK) << h.message();
    const auto train = trainer_options();
    ASSERT_EQ(graft_trainer_create(h.model, &train, &h.trainer), GRAFT_OK) << h.message();
    ASSERT_EQ(batch_.step(h.trainer), GRAFT_OK) << h.message();
    ASSERT_EQ(graft_trainer_store(h.trainer), GRAFT_OK) << h.message();
    EXPECT_GT(counted.live, 0u) << "the model holds the trained tensors";
    const std::vector<float> stored = run_model(h.model);
    const std::size_t live = counted.live;
    ASSERT_EQ(batch_.step(h.trainer), GRAFT_OK) << h.message();
    counted.fail = true;
    EXPECT_EQ(graft_trainer_store(h.trainer), GRAFT_OUT_OF_MEMORY);
    EXPECT_TRUE(contains(h.message(), "trained tensor")) << h.message();
    EXPECT_EQ(counted.live, live);
    EXPECT_EQ(run_model(h.model), stored) << "on failure the model is as it was";
    counted.fail = false;
    EXPECT_EQ(graft_trainer_store(h.trainer), GRAFT_OK) << h.message();
  }
  EXPECT_GT(counted.calls, 4u);
  EXPECT_EQ(counted.live, 0u);
}

}  // namespace
}  // namespace graft::test::c_api_training_test
