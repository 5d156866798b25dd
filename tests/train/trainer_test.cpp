// ctest: slow (dozens of small trainers; a software driver compiles their kernels)
// The whole step on a device: gradients, accumulation, clipping, freezing, optimizers.
#include "runtime/train/run/trainer.h"
#include "runtime/core/op_id.gen.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/trainer_fixture.h"

namespace graft::train::trainer_test {
namespace {

using test::Contents;
using test::contents_of;
using test::sgd;
using test::shared_device;
using test::tiny_cnn;
using test::tiny_data;
using test::tiny_mlp;
using test::TinyData;
using test::TinyModel;
using test::TrainerTest;

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
  return std::sqrt(sum);
}

/// (before - after) / rate: with plain SGD, the gradient.
std::vector<float> gradient(const std::vector<float>& before, const std::vector<float>& after, double rate = 1) {
  std::vector<float> out(before.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>((double{before[i]} - after[i]) / rate);
  return out;
}

double norm(const std::vector<float>& v) { return distance(v, std::vector<float>(v.size(), 0)); }

TEST_F(TrainerTest, StepsOfATinyRateAddUp) {
  const TinyModel model = tiny_mlp(5, 7, 3);
  const TinyData data = tiny_data(8, {5}, 3);
  for (const std::int64_t micro : {0, 3}) {
    TrainOptions options = sgd(1e-3, 8);
    options.micro_batch = micro;
    const Contents one = after(model, data, options, 1);
    const Contents ten = after(model, data, options, 10);
    for (const auto& [name, start] : model.weights) {
      // Curvature changes the gradient by about rate * steps = 1%; gradients that add up would give 5.5 times as much.
      const double ratio = norm(gradient(start, ten.at(name))) / norm(gradient(start, one.at(name)));
      EXPECT_NEAR(ratio, 10, 0.2) << name << " micro " << micro;
    }
  }
}

TEST_F(TrainerTest, EveryParameterGetsAGradient) {
  const TinyModel model = tiny_cnn(4, 0.25);
  const TinyData data = tiny_data(8, {1, 8, 8}, 4);
  const Contents done = after(model, data, sgd(1, 8));
  int parameters = 0;
  for (const auto& [name, start] : model.weights) {
    if (name.find("running") != std::string::npos) continue;
    ++parameters;
    // A bias before batch norm moves nothing but the mean, which is taken away: its gradient is rounding error.
    if (name == "conv.bias") {
      EXPECT_LT(norm(gradient(start, done.at(name))), 1e-5);
    } else {
      EXPECT_GT(norm(gradient(start, done.at(name))), 1e-3) << name;
    }
  }
  EXPECT_EQ(parameters, 5);
}

TEST_F(TrainerTest, AnyMicroBatchGivesTheGradientOfTheWholeBatch) {
  const TinyModel model = tiny_mlp(5, 7, 3);
  TinyData data = tiny_data(12, {5}, 3);
  data.labels[2] = data.labels[3] = data.labels[11] = -100;  // micro-batches with unequal numbers of rows that count
  for (const Loss loss : {Loss::cross_entropy, Loss::mse}) {
    TinyModel one_output = tiny_mlp(5, 7, 1);
    const TinyData real = tiny_data(12, {5}, 0);
    const TinyModel& net = loss == Loss::mse ? one_output : model;
    const TinyData& set = loss == Loss::mse ? real : data;
    TrainOptions options = sgd(1, 12);
    options.loss.kind = loss;
    options.loss.label_smoothing = loss == Loss::cross_entropy ? 0.1 : 0;
    const Contents whole = after(net, set, options);
    for (const std::int64_t micro : {1, 4, 5, 7, 11}) {
      options.micro_batch = micro;
      const Contents parts = after(net, set, options);
      for (const auto& [name, start] : net.weights) {
        const auto want = gradient(start, whole.at(name));
        // Sums of 12 terms in another order: a few times 2^-24 of the terms' size, which is about 10 times the sum's.
        EXPECT_LT(distance(gradient(start, parts.at(name)), want), 2e-6 * (1 + norm(want))) << name << " " << micro;
        EXPECT_GT(norm(want), 1e-3);
      }
    }
  }
}

/// Rows [7, 5] by a matrix: as samples of a batch, or all of one sample, whose output has no batch axis.
TinyModel rows_by_matrix(bool batched) {
  TinyModel model;
  Builder b(model.graph);
  const ValueId x =
      batched ? model.input("x", {5}) : model.graph.add_value("x", DType::f32, {1, 7, 5}, ValueKind::input).value();
  const ValueId rows = batched ? x : b.reshape(x, {7, 5});
  model.graph.add_output("y", b.node(Op::matmul, {rows, model.weight("w", {5, 3}, 0.5)}));
  EXPECT_TRUE(b.status().ok()) << b.status().message();
  return model;
}

TEST_F(TrainerTest, MeansAreOverAllRowsOfAnOutputWithoutABatchAxis) {
  for (const Loss loss :
       {Loss::mse, Loss::l1, Loss::huber, Loss::smooth_l1, Loss::bce, Loss::kl, Loss::focal, Loss::cross_entropy}) {
    SCOPED_TRACE(loss_name(loss));
    const bool labels = loss == Loss::cross_entropy;
    TinyData samples = tiny_data(7, {5}, labels ? 3 : 0);
    if (!labels) {
      samples.fields[1].shape = {3};
      samples.targets = tiny_data(21, {1}, 0, 5).targets;
      for (float& target : samples.targets) target = 0.5f + 0.4f * target;
    }
    TinyData one = samples;
    one.samples = 1;
    one.fields[0].shape = {7, 5};
    one.fields[1].shape = labels ? Shape{7} : Shape{7, 3};
    TrainOptions options = sgd(1, 7);
    options.loss.kind = loss;
    const auto apart = make(rows_by_matrix(true), samples, options);
    options.batch = 1;
    const auto whole = make(rows_by_matrix(false), one, options);
    ASSERT_TRUE(apart && whole);
    const auto expected = losses_of(*apart, samples, 3, 7), found = losses_of(*whole, one, 3, 1);
    ASSERT_EQ(expected.size(), 3u);
    ASSERT_EQ(found.size(), 3u);
    // Sums of 21 terms in another order, and three steps that follow from them.
    for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(found[i], expected[i], 1e-5 * std::abs(expected[i])) << i;
  }
}

TEST_F(TrainerTest, IgnoredRowsAndShortBatchesAreWeightedRight) {
  const TinyModel model = tiny_mlp(5, 7, 3);
  TinyData padded = tiny_data(12, {5}, 3);
  for (std::size_t i = 7; i < 12; ++i) padded.labels[i] = -100;
  TinyData alone = padded;
  alone.samples = 7;
  alone.x.resize(7 * 5);
  alone.labels.resize(7);
  TrainOptions options = sgd(1, 12);
  const Contents with_ignored = after(model, padded, options);
  for (const std::int64_t micro : {0, 4}) {
    options.micro_batch = micro;
    const Contents short_batch = after(model, alone, options);
    for (const auto& [name, start] : model.weights) {
      EXPECT_LT(distance(short_batch.at(name), with_ignored.at(name)), 2e-6 * (1 + norm(start))) << name;
    }
  }
}

TEST_F(TrainerTest, ClipsByNormAndByValue) {
  const TinyModel model = tiny_mlp(5, 7, 3);
  const TinyData data = tiny_data(8, {5}, 3);
  const auto all = [&](const Contents& done) {
    std::vector<float> joined;
    for (const auto& [name, start] : model.weights) {
      const auto g = gradient(start, done.at(name));
      joined.insert(joined.end(), g.begin(), g.end());
    }
    return joined;
  };
  const auto free = all(after(model, data, sgd(1, 8)));
  for (const std::int64_t micro : {0, 3}) {
    TrainOptions options = sgd(1, 8);
    options.micro_batch = micro;
    options.clip_norm = norm(free) / 2;
    const auto trainer = make(model, data, options);
    const auto results = steps(*trainer, data, 1, 8);
    ASSERT_TRUE(results.at(0).gradient_norm.has_value());
    EXPECT_NEAR(*results[0].gradient_norm, norm(free), 1e-5 * norm(free));
    const auto clipped = all(contents_of(*trainer));
    auto half = free;
    for (float& g : half) g /= 2;
    EXPECT_LT(distance(clipped, half), 1e-5 * norm(free));

    options.clip_norm = 100 * norm(free);
    EXPECT_LT(distance(all(after(model, data, options)), free), 1e-5 * norm(free)) << "no clipping was due";

    options.clip_norm = 0;
    options.clip_value = 0.05;
    const auto limited = all(after(model, data, options));
    int at_limit = 0;
    for (std::size_t i = 0; i < free.size(); ++i) {
      const float want = std::clamp(free[i], -0.05f, 0.05f);
      EXPECT_NEAR(limited[i], want, 1e-6);
      at_limit += std::abs(want) == 0.05f;
    }
    EXPECT_GT(at_limit, 0);
  }
}

TEST_F(TrainerTest, FrozenParametersStayAndGroupsScale) {
  const TinyModel model = tiny_mlp(5, 7, 3);
  const TinyData data = tiny_data(8, {5}, 3);
  const Contents plain = after(model, data, sgd(0.5, 8));
  TrainOptions options = sgd(0.5, 8);
  options.freeze = {"fc1.*"};
  options.groups = {{"*.bias", 0.25, std::nullopt}};
  const Contents done = after(model, data, options);
  EXPECT_EQ(done.at("fc1.weight"), model.weights.at("fc1.weight"));
  EXPECT_EQ(done.at("fc1.bias"), model.weights.at("fc1.bias"));
  EXPECT_EQ(done.at("fc2.weight"), plain.at("fc2.weight"));
  const auto full = gradient(model.weights.at("fc2.bias"), plain.at("fc2.bias"));
  const auto quarter = gradient(model.weights.at("fc2.bias"), done.at("fc2.bias"));
  for (std::size_t i = 0; i < full.size(); ++i) EXPECT_NEAR(quarter[i], full[i] / 4, 1e-6);
  options.freeze = {"*"};
  const auto nothing = Trainer::create(*shared_device(), model.graph, model.weight_of(), options, data.fields);
  ASSERT_FALSE(nothing.ok());
  EXPECT_NE(nothing.status().message().find("nothing to train"), std::string::npos);
}

/// y = w x with one sample a step, against the same in double.
struct Scalar {
  double w = 0.75, velocity = 0, m = 0, v = 0;
  void step(const TrainOptions& o, std::uint64_t s, double x, double target) {
    const OptimizerOptions& p = o.optimizer;
    const double rate = p.learning_rate * learning_rate_factor(o.schedule, s);
    double g = 2 * (w * x - target) * x + p.proximal * (w - 0.75);
    if (p.kind == OptimizerKind::adamw) w -= rate * p.weight_decay * w;
    if (p.kind != OptimizerKind::adamw) g += p.weight_decay * w;
    if (p.kind == OptimizerKind::sgd) {
      velocity = s == 0 ? g : p.momentum * velocity + (1 - p.dampening) * g;
      w -= rate * (p.momentum == 0 ? g : p.nesterov ? g + p.momentum * velocity : velocity);
      return;
    }
    m = p.beta1 * m + (1 - p.beta1) * g;
    v = p.beta2 * v + (1 - p.beta2) * g * g;
    const double t = static_cast<double>(s + 1);
    w -= rate * (m / (1 - std::pow(p.beta1, t))) / (std::sqrt(v / (1 - std::pow(p.beta2, t))) + p.epsilon);
  }
};

TEST_F(TrainerTest, OptimizersFollowTheirFormulas) {
  TinyModel model;
  const ValueId x = model.input("x", {1});
  const ValueId w = model.filled("w", {1, 1}, 0.75f);
  Builder b(model.graph);
  model.graph.add_output("y", b.node(Op::matmul, {x, w}));
  const TinyData data = tiny_data(12, {1}, 0);
  std::vector<TrainOptions> runs;
  const auto add = [&](OptimizerKind kind, double rate, double decay, double momentum = 0, double dampening = 0,
                       bool nesterov = false) {
    TrainOptions o;
    o.loss.kind = Loss::mse;
    o.batch = 1;
    o.optimizer = {.kind = kind,
                   .learning_rate = rate,
                   .weight_decay = decay,
                   .momentum = momentum,
                   .dampening = dampening,
                   .nesterov = nesterov};
    o.schedule = {.kind = ScheduleKind::cosine, .warmup_steps = 3, .total_steps = 12, .final_factor = 0.1};
    runs.push_back(o);
  };
  add(OptimizerKind::sgd, 0.1, 0.01);
  add(OptimizerKind::sgd, 0.1, 0.01, 0.9, 0.3);
  add(OptimizerKind::sgd, 0.1, 0, 0.9, 0, true);
  add(OptimizerKind::adam, 0.05, 0.1);
  add(OptimizerKind::adamw, 0.05, 0.1);
  for (const std::size_t i : {1, 4}) {
    runs.push_back(runs[i]);
    runs.back().optimizer.proximal = 3;
  }
  for (const TrainOptions& options : runs) {
    const auto trainer = make(model, data, options);
    ASSERT_TRUE(trainer);
    const auto source = data.source();
    auto loader = data::Loader::create(*source, {.batch = 1, .shuffle = false}).value();
    Scalar expected;
    for (std::uint64_t s = 0; s < 12; ++s) {
      const double at = expected.w;
      const auto result = trainer->train_step(**loader->next());
      ASSERT_TRUE(result.ok()) << result.status().message();
      const double error = at * data.x[s] - data.targets[s];
      EXPECT_NEAR(result->metrics.loss(), error * error, 1e-5);
      expected.step(options, s, data.x[s], data.targets[s]);
      // 12 steps in f32; Adam divides numbers that carry rounding errors of 2^-24 each.
      EXPECT_NEAR(contents_of(*trainer).at("w")[0], expected.w, 3e-6)
          << optimizer_name(options.optimizer.kind) << " step " << s;
    }
  }
}
}  // namespace
}  // namespace graft::train::trainer_test
