// Schedules against closed forms, patterns, sizes of micro-batches, options out of range.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <span>
#include <vector>

#include "runtime/train/plan/training_plan.h"
#include "runtime/train/run/evaluated.h"
#include "runtime/train/step/layer_rates.h"
#include "runtime/train/step/optimizer.h"
#include "tests/support/tiny_training.h"

namespace graft::train::options_test {
namespace {

TEST(Schedule, Constant) {
  for (const std::uint64_t step : {0u, 1u, 1000000u}) EXPECT_EQ(learning_rate_factor({}, step), 1);
}

TEST(Schedule, WarmUpRisesEvenlyAndEndsAtTheFullRate) {
  const Schedule s{.warmup_steps = 4};
  for (std::uint64_t step = 0; step < 4; ++step) {
    EXPECT_DOUBLE_EQ(learning_rate_factor(s, step), static_cast<double>(step + 1) / 5);
  }
  EXPECT_EQ(learning_rate_factor(s, 4), 1);
}

TEST(Schedule, LinearAfterWarmUp) {
  const Schedule s{.kind = ScheduleKind::linear, .warmup_steps = 10, .total_steps = 110, .final_factor = 0.1};
  EXPECT_EQ(learning_rate_factor(s, 10), 1);
  EXPECT_DOUBLE_EQ(learning_rate_factor(s, 60), 0.55);
  EXPECT_DOUBLE_EQ(learning_rate_factor(s, 110), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate_factor(s, 5000), 0.1);
}

TEST(Schedule, Cosine) {
  const Schedule s{.kind = ScheduleKind::cosine, .total_steps = 100, .final_factor = 0.2};
  for (std::uint64_t step = 0; step <= 100; step += 5) {
    // The half-angle form, which the implementation does not use.
    const double half = std::cos(std::numbers::pi * static_cast<double>(step) / 200);
    EXPECT_NEAR(learning_rate_factor(s, step), 0.2 + 0.8 * half * half, 1e-14) << step;
  }
  EXPECT_DOUBLE_EQ(learning_rate_factor(s, 101), 0.2);
}

TEST(Schedule, Steps) {
  const Schedule s{.kind = ScheduleKind::step, .warmup_steps = 3, .step_size = 10, .gamma = 0.5};
  EXPECT_EQ(learning_rate_factor(s, 12), 1);
  EXPECT_EQ(learning_rate_factor(s, 13), 0.5);
  EXPECT_EQ(learning_rate_factor(s, 33), 0.125);
}

TEST(Schedule, OfOneStepAndOfAllWarmUp) {
  for (const auto kind : {ScheduleKind::constant, ScheduleKind::linear, ScheduleKind::cosine, ScheduleKind::step,
                          ScheduleKind::polynomial, ScheduleKind::plateau}) {
    Schedule s{.kind = kind, .total_steps = 1};
    ASSERT_TRUE(check(s).ok());
    EXPECT_EQ(learning_rate_factor(s, 0), 1);
    s.warmup_steps = s.total_steps = 3;
    ASSERT_TRUE(check(s).ok());
    for (std::uint64_t step = 0; step < 3; ++step) {
      EXPECT_DOUBLE_EQ(learning_rate_factor(s, step), static_cast<double>(step + 1) / 4);
    }
    if (has_end(kind)) {
      EXPECT_EQ(learning_rate_factor(s, 3), 0);
    }
  }
}

TEST(Schedule, OneCycleOfFewSteps) {
  // torch.optim.lr_scheduler.OneCycleLR(max_lr=1, total_steps=n, pct_start=0.3), step by step.
  const std::vector<std::vector<double>> expected = {
      {4e-06},
      {0.811745653949763, 4e-06},
      {0.994415435450912, 0.462637102666975, 4e-06},
      {0.04, 0.811745653949763, 0.283060998208699, 4e-06},
      {0.04, 0.950484632013474, 0.611262021936289, 0.188258346050237, 4e-06}};
  for (std::size_t n = 0; n < expected.size(); ++n) {
    const Schedule s{.kind = ScheduleKind::one_cycle, .total_steps = n + 1};
    ASSERT_TRUE(check(s).ok());
    for (std::size_t step = 0; step <= n; ++step) {
      EXPECT_NEAR(learning_rate_factor(s, step), expected[n][step], 1e-12) << n << " " << step;
    }
  }
  EXPECT_EQ(learning_rate_factor({.kind = ScheduleKind::one_cycle, .total_steps = 2, .rise = 0.5}, 0), 1);
}

TEST(Schedule, RefusesWhatCanNotBe) {
  EXPECT_FALSE(check(Schedule{.kind = ScheduleKind::linear, .warmup_steps = 6, .total_steps = 5}).ok());
  EXPECT_FALSE(check(Schedule{.kind = ScheduleKind::cosine}).ok());
  EXPECT_FALSE(parse_schedule("circle").ok());
  EXPECT_EQ(parse_schedule("cosine").value(), ScheduleKind::cosine);
}

TEST(Patterns, StarsAndQuestionMarks) {
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("*.bias", "conv1.bias"));
  EXPECT_FALSE(matches("*.bias", "conv1.bias2"));
  EXPECT_TRUE(matches("layer?.*.weight", "layer1.conv.0.weight"));
  EXPECT_FALSE(matches("layer?.*", "layer10.conv"));
  EXPECT_TRUE(matches("*a*b*c", "xxaxbxbxc"));
  EXPECT_FALSE(matches("*a*b*c", "xxaxbxbx"));
  EXPECT_TRUE(matches("fc", "fc"));
  EXPECT_FALSE(matches("", "fc"));
  // Linear in practice: a backtracking matcher would need 2^40 tries.
  EXPECT_FALSE(matches("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", std::string(60, 'a')));
}

TEST(MicroSizes, CoverEveryBatchThatCanCome) {
  using Sizes = std::vector<std::int64_t>;
  EXPECT_EQ(micro_sizes(32, 32, std::nullopt, false), (Sizes{32}));
  EXPECT_EQ(micro_sizes(32, 32, 100, false), (Sizes{32, 4}));
  EXPECT_EQ(micro_sizes(32, 32, 100, true), (Sizes{32}));
  EXPECT_EQ(micro_sizes(32, 32, 20, false), (Sizes{20}));
  EXPECT_EQ(micro_sizes(32, 32, 20, true), Sizes{});
  EXPECT_EQ(micro_sizes(12, 5, std::nullopt, false), (Sizes{5, 2}));
  EXPECT_EQ(micro_sizes(12, 5, 12 + 9, false), (Sizes{5, 4, 2}));
  EXPECT_EQ(micro_sizes(12, 4, 120, false), (Sizes{4}));
  EXPECT_EQ(micro_sizes(12, 5, 3, false), (Sizes{3}));
}

TEST(Groups, TheFirstPatternDecides) {
  TrainOptions o;
  o.optimizer.kind = OptimizerKind::adam;
  o.optimizer.learning_rate = 0.5;
  o.groups = {{"*.bias", 2.0, 0.0}, {"fc*", 0.25, std::nullopt}};
  EXPECT_EQ(group_of(o, "conv.weight"), 0u);
  EXPECT_EQ(group_of(o, "fc.bias"), 1u);
  EXPECT_EQ(group_of(o, "fc.weight"), 2u);
  StepState state;
  set_step(o, 2, state);
  EXPECT_EQ(state.step, 2u);
  EXPECT_FLOAT_EQ(state.learning_rate[0], 0.5f);
  EXPECT_FLOAT_EQ(state.learning_rate[1], 1.0f);
  EXPECT_FLOAT_EQ(state.learning_rate[2], 0.125f);
  for (int group = 0; group < 3; ++group) {
    EXPECT_FLOAT_EQ(state.bias_correction1[group], 1 - 0.9f * 0.9f * 0.9f);
    EXPECT_FLOAT_EQ(state.bias_correction2[group], static_cast<float>(1 - 0.999 * 0.999 * 0.999));
  }
}

TEST(LayerRates, FallFromTheLastLayerToTheFirst) {
  EXPECT_EQ(layer_of("encoder.layers.3.fc.weight"), "encoder.layers.3");
  EXPECT_EQ(layer_of("head.weight"), "head");
  EXPECT_EQ(layer_of("scale"), "scale");
  const auto rates = layer_rates(test::tiny_mlp(5, 4, 3).graph, 0.5);
  EXPECT_EQ(rates, (std::map<std::string, double, std::less<>>{
                       {"fc1.weight", 0.5}, {"fc1.bias", 0.5}, {"fc2.weight", 1.0}, {"fc2.bias", 1.0}}));
}

TEST(Options, RefusesWhatCanNotBe) {
  const auto bad = [](auto change) {
    TrainOptions o;
    change(o);
    const Status status = check(o);
    EXPECT_FALSE(status.ok());
    return status.message();
  };
  EXPECT_TRUE(check(TrainOptions{}).ok());
  bad([](TrainOptions& o) { o.batch = 0; });
  bad([](TrainOptions& o) { o.micro_batch = 33; });
  bad([](TrainOptions& o) { o.micro_batch = -1; });
  bad([](TrainOptions& o) { o.groups.resize(16); });
  bad([](TrainOptions& o) { o.optimizer.nesterov = true; });
  TrainOptions uniform;
  uniform.loss.label_smoothing = 1;
  EXPECT_TRUE(check(uniform).ok()) << "as PyTorch";
  EXPECT_EQ(bad([](TrainOptions& o) {
              o.loss.kind = Loss::dpo;
              o.loss.label_smoothing = 0.75;
            }),
            "The label smoothing of dpo is 0.75; it must be at most 0.5.");
}

// sklearn.metrics.top_k_accuracy_score sorts stably from the least, and takes from the end.
TEST(Metrics, OfEqualScoresTheHigherClassGoesFirst) {
  const float scores[] = {1, 3, 3, 0, 3};
  const std::int32_t labels[] = {2};
  EvaluatedRows rows{.task = Task::classes, .samples = 1, .rows = 1, .classes = 5};
  rows.predictions = scores;
  rows.targets = std::as_bytes(std::span(labels));
  EXPECT_EQ(rows.rank_of_label(0), 1u);
  EXPECT_EQ(rows.predicted(0), 1u) << "argmax takes the first";
}

TEST(Options, ATemperatureOfItsOwnOrItsKinds) {
  EXPECT_EQ(temperature_of({.kind = Loss::info_nce}), 0.07);
  EXPECT_EQ(temperature_of({.kind = Loss::distill}), 2);
  EXPECT_EQ(temperature_of({.kind = Loss::distill, .temperature = 0.5}), 0.5);
}

TEST(Options, Names) {
  for (const Loss loss : {Loss::cross_entropy, Loss::mse, Loss::l1, Loss::bce}) {
    EXPECT_EQ(parse_loss(loss_name(loss)).value(), loss);
  }
  for (const OptimizerKind kind : {OptimizerKind::sgd, OptimizerKind::adam, OptimizerKind::adamw}) {
    EXPECT_EQ(parse_optimizer(optimizer_name(kind)).value(), kind);
  }
  EXPECT_FALSE(parse_loss("hinge").ok());
  EXPECT_FALSE(parse_optimizer("sgdm").ok());
}

}  // namespace
}  // namespace graft::train::options_test
