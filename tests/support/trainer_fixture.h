// What tests of trainers share: a device, and runs of a few steps.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "runtime/train/run/trainer.h"
#include "tests/support/gpu_device.h"
#include "tests/support/tiny_training.h"

namespace graft::test {

/// One device for all tests of a program; null where there is none.
inline Result<std::unique_ptr<gpu::Device>>& shared_device_result() {
  static auto device = test_device();
  return device;
}
inline gpu::Device* shared_device() {
  const auto& device = shared_device_result();
  return device.ok() ? device->get() : nullptr;
}

class TrainerTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto& device = shared_device_result();
    if (device.ok()) return;
    if (device.status().code() == Code::not_found) GTEST_SKIP() << device.status().message();
    FAIL() << device.status().message();
  }
  void TearDown() override { expect_no_validation_messages(); }

  static std::unique_ptr<train::Trainer> make(const TinyModel& model, const TinyData& data,
                                              const train::TrainOptions& options, bool evaluation = false) {
    train::TrainerOptions trainer_options;
    trainer_options.request.evaluation = evaluation;
    trainer_options.request.samples = data.samples;
    auto trainer =
        train::Trainer::create(*shared_device(), model.graph, model.weight_of(), options, data.fields, trainer_options);
    EXPECT_TRUE(trainer.ok()) << trainer.status().message();
    return trainer.ok() ? std::move(trainer).value() : nullptr;
  }

  /// Steps in data order; returns the results.
  template <class Data>
  static std::vector<train::StepResult> steps(train::Trainer& trainer, const Data& data, std::uint64_t count,
                                              std::uint64_t batch) {
    const auto source = data.source();
    auto loader = data::Loader::create(*source, {.batch = batch, .shuffle = false}).value();
    std::vector<train::StepResult> results;
    for (std::uint64_t i = 0; i < count; ++i) {
      auto result = trainer.train_step(**loader->next());
      EXPECT_TRUE(result.ok()) << result.status().message();
      if (result.ok()) results.push_back(*result);
    }
    return results;
  }

  /// The losses of steps().
  template <class Data>
  static std::vector<double> losses_of(train::Trainer& trainer, const Data& data, std::uint64_t count,
                                       std::uint64_t batch) {
    std::vector<double> losses;
    for (const train::StepResult& result : steps(trainer, data, count, batch)) losses.push_back(result.metrics.loss());
    return losses;
  }

  static Contents after(const TinyModel& model, const TinyData& data, const train::TrainOptions& options,
                        std::uint64_t count = 1) {
    const auto trainer = make(model, data, options);
    if (!trainer) return {};
    steps(*trainer, data, count, static_cast<std::uint64_t>(options.batch));
    return contents_of(*trainer);
  }
};

/// Plain SGD.
inline train::TrainOptions sgd(double rate, std::int64_t batch) {
  train::TrainOptions options;
  options.optimizer.kind = train::OptimizerKind::sgd;
  options.optimizer.learning_rate = rate;
  options.batch = batch;
  return options;
}

}  // namespace graft::test
