// ctest: slow (a small convolutional network learns from 3,000 drawn digits)
#include <gtest/gtest.h>

#include <chrono>
#include <iostream>

#include "runtime/data/digits.h"
#include "runtime/train/run/fit.h"
#include "tests/support/gpu_device.h"
#include "tests/support/tiny_training.h"

namespace graft::train::digits_test {
namespace {

TEST(Digits, AConvolutionalNetworkLearnsThem) {
  GRAFT_TEST_GPU(device);
  const test::TinyModel model = test::lenet();
  const auto training = data::open_digits({.count = 3000}).value();
  const auto held_out = data::open_digits({.count = 500, .test = true}).value();
  TrainOptions options;
  options.batch = 50;
  options.optimizer.learning_rate = 2e-3;
  TrainerOptions trainer_options;
  trainer_options.request.samples = training->size();
  trainer_options.request.evaluation_samples = held_out->size();
  auto made = Trainer::create(*device, model.graph, model.weight_of(), options, training->fields(), trainer_options);
  ASSERT_TRUE(made.ok()) << made.status().message();
  Trainer& trainer = **made;
  const Metrics before = trainer.evaluate(*held_out).value();
  EXPECT_LT(before.accuracy(), 0.3);
  auto loader = data::Loader::create(*training, {.batch = 50, .seed = 1, .epochs = 3}).value();
  const auto start = std::chrono::steady_clock::now();
  const auto end = fit(trainer, *loader, {});
  ASSERT_TRUE(end.ok()) << end.status().message();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const Metrics after = trainer.evaluate(*held_out).value();
  std::cout << "accuracy " << before.accuracy() << " -> " << after.accuracy() << ", " << trainer.state().step
            << " steps in " << seconds.count() << " s\n";
  // PyTorch with the same network, rate and data reaches 0.984 to 0.992, depending on its seed.
  EXPECT_GT(after.accuracy(), 0.96);
  EXPECT_GE(after.top5_accuracy(), after.accuracy());
  made->reset();
  device.reset();
  test::expect_no_validation_messages();
}

}  // namespace
}  // namespace graft::train::digits_test
