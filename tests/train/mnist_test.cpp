// ctest: long (one epoch of MNIST on a software driver)
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "runtime/data/spec.h"
#include "runtime/train/run/fit.h"
#include "tests/support/gpu_device.h"
#include "tests/support/paths.h"
#include "tests/support/tiny_training.h"

namespace graft::train::mnist_test {
namespace {

TEST(Mnist, OneEpochIsEnough) {
  const std::string folder = test::test_data("img-mnist-idx/");
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "MNIST is not in " << folder;
  GRAFT_TEST_GPU(device);
  const auto open = [&](const std::string& part) {
    return data::open_spec("idx:" + folder + part + "-images-idx3-ubyte.gz," + folder + part + "-labels-idx1-ubyte.gz");
  };
  auto training = open("train"), held_out = open("t10k");
  ASSERT_TRUE(training.ok() && held_out.ok());
  const test::TinyModel model = test::lenet();
  TrainOptions options;
  options.batch = 64;
  options.optimizer.learning_rate = 2e-3;
  TrainerOptions trainer_options;
  trainer_options.request.samples = (*training)->size();
  trainer_options.request.evaluation_samples = (*held_out)->size();
  const auto start = std::chrono::steady_clock::now();
  auto made = Trainer::create(*device, model.graph, model.weight_of(), options, (*training)->fields(), trainer_options);
  ASSERT_TRUE(made.ok()) << made.status().message();
  auto loader = data::Loader::create(**training, {.batch = 64, .seed = 1, .epochs = 1}).value();
  const auto end = fit(**made, *loader, {});
  ASSERT_TRUE(end.ok()) << end.status().message();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const Metrics after = (*made)->evaluate(**held_out).value();
  std::cout << "accuracy " << after.accuracy() << " after " << (*made)->state().step << " steps in " << seconds.count()
            << " s\n";
  EXPECT_EQ(after.count, 10000u);
  EXPECT_GE(after.accuracy(), 0.975);
}

}  // namespace
}  // namespace graft::train::mnist_test
