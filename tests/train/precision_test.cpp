// ctest: slow (a dozen small trainers; a software driver compiles their kernels)
// Mixed precision, loss scaling and optimizer state in 8 bits, in whole training runs.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/core/build.h"
#include "runtime/data/digits.h"
#include "runtime/passes/precision.h"
#include "runtime/train/step/optimizer.h"
#include "tests/support/kept_run.h"
#include "tests/support/run_graph.h"

namespace graft::train::precision_test {
namespace {

using namespace test;

class Precision : public TrainerTest {
 protected:
  static TrainOptions adamw(std::int64_t batch, DType precision = DType::f32) {
    TrainOptions options;
    options.batch = batch;
    options.optimizer.learning_rate = 4e-3;
    options.precision = precision;
    return options;
  }

  static std::unique_ptr<Trainer> lenet_trainer(data::Source& source, DType precision) {
    const TinyModel* const model = shared_lenet();
    TrainerOptions trainer_options;
    trainer_options.request.evaluation = false;
    auto trainer = Trainer::create(*shared_device(), model->graph, model->weight_of(), adamw(16, precision),
                                   source.fields(), trainer_options);
    EXPECT_TRUE(trainer.ok()) << trainer.status().message();
    return trainer.ok() ? std::move(trainer).value() : nullptr;
  }

  /// Codes are no floats: some are NaN, which equals nothing.
  static bool same_bits(const Contents& a, const Contents& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
      return x.first == y.first && x.second.size() == y.second.size() &&
             std::memcmp(x.second.data(), y.second.data(), 4 * x.second.size()) == 0;
    });
  }

  static const TinyModel* shared_lenet() {
    static const TinyModel model = lenet();
    return &model;
  }
};

TEST_F(Precision, LeNetLearnsAsInF32InHalfTheActivations) {
  constexpr int kSteps = 14;
  const auto source = data::open_digits({.count = 512});
  ASSERT_TRUE(source.ok()) << source.status().message();
  std::vector<double> wide;
  std::uint64_t wide_activations = 0;
  for (const DType precision : {DType::f32, DType::f16, DType::bf16}) {
    SCOPED_TRACE(dtype_name(precision));
    const auto trainer = lenet_trainer(**source, precision);
    ASSERT_TRUE(trainer);
    EXPECT_EQ(trainer->device_bytes(), trainer->plan().memory().total()) << "planned is not measured";
    std::vector<double> curve;
    auto loader = data::Loader::create(**source, {.batch = 16, .seed = 1}).value();
    for (int step = 0; step < kSteps; ++step) {
      const auto result = trainer->train_step(**loader->next());
      ASSERT_TRUE(result.ok()) << result.status().message();
      curve.push_back(result->metrics.loss());
      EXPECT_EQ(result->loss_scale.value_or(0), precision == DType::f16 ? 65536 : 0);
      EXPECT_EQ(result->skipped_steps, 0u);
    }
    const Plan& plan = trainer->plan().training.front().plan;
    std::uint64_t saved = 0;
    for (const SavedValue& value : plan.saved) saved += value.bytes;
    if (precision == DType::f32) {
      wide = curve;
      wide_activations = saved;
      EXPECT_LT(curve.back(), 0.95 * curve.front()) << "it learns";
      continue;
    }
    // Beside the input, what is saved for the backward pass takes half; and 64 elements or less stay as they are.
    EXPECT_LT(saved, wide_activations * 0.6);
    for (int step = 0; step < kSteps; ++step) {
      EXPECT_NEAR(curve[static_cast<std::size_t>(step)], wide[static_cast<std::size_t>(step)],
                  0.03 * wide[static_cast<std::size_t>(step)])
          << "step " << step;
    }
  }
}

/// The optimizer's step alone; nothing of it is kept in 16 bits.
Graph step_graph(const TrainOptions& options) {
  Graph graph;
  const auto value = [&](const char* name, Shape shape, ValueKind kind) {
    return graph.add_value(name, DType::f32, std::move(shape), kind).value();
  };
  const Shape shape = {96, 64};  // enough for states of 8 bits
  const ValueId w = value("w", shape, ValueKind::parameter), g = value("g", shape, ValueKind::input);
  const ValueId loss = value("loss", {}, ValueKind::input);
  Builder b(graph);
  const ValueId gradient = b.neg(g);
  const auto norm = add_updates(graph, {{w, gradient}}, loss, options);
  EXPECT_TRUE(norm.ok()) << norm.status().message();
  EXPECT_TRUE(passes::store_results(graph, options.precision, {}, passes::Parameters::trained).ok());
  for (const Value& made : graph.values()) EXPECT_EQ(made.storage, DType::f32) << made.name;
  return graph;
}

/// What it leaves, by a gradient whose squares underflow f16.
RefTensors stepped(const TrainOptions& options) {
  const Graph graph = step_graph(options);
  const auto scaling = loss_scaling_of(options);
  RefTensors feeds;
  for (const Value& fed : graph.values()) {
    if (fed.kind == ValueKind::temporary) continue;
    RefTensor& tensor = feeds[fed.name] = {fed.shape.values(), std::vector<double>(fed.shape.elements(), 0.0)};
    for (std::size_t i = 0; i < tensor.data.size() && fed.kind != ValueKind::state; ++i) {
      const double x = std::sin(static_cast<double>(i) + (fed.name == "g" ? 0.5 : 0));
      tensor.data[i] = fed.name == "g" ? 1e-5 * x * (scaling ? scaling->initial : 1) : x;
    }
  }
  StepState state;
  set_step(options, 0, state);
  RefStepState step;
  step.learning_rate[0] = state.learning_rate[0];
  step.bias_correction1[0] = state.bias_correction1[0];
  step.bias_correction2[0] = state.bias_correction2[0];
  auto done = run_on_device(graph, feeds, step);
  EXPECT_TRUE(done.ok()) << done.status().message();
  return done.ok() ? *std::move(done) : RefTensors();
}

TEST_F(Precision, OptimizersStepAsInF32) {
  for (const OptimizerKind kind :
       {OptimizerKind::sgd, OptimizerKind::adam, OptimizerKind::adamw, OptimizerKind::adamw8bit, OptimizerKind::lion,
        OptimizerKind::rmsprop, OptimizerKind::adagrad, OptimizerKind::adafactor, OptimizerKind::lamb,
        OptimizerKind::muon}) {
    TrainOptions options;
    options.optimizer = optimizer_defaults(kind);
    SCOPED_TRACE(optimizer_name(kind));
    options.precision = DType::bf16;
    step_graph(options);
    options.loss_scaling = LossScaling{.initial = 1024};
    options.precision = DType::f32;
    const RefTensors wide = stepped(options);
    EXPECT_TRUE(std::ranges::all_of(wide.at("w").data, [](double x) { return std::isfinite(x); }));
    options.precision = DType::f16;
    const RefTensors narrow = stepped(options);
    for (const auto& [name, tensor] : wide) EXPECT_EQ(narrow.at(name).data, tensor.data) << name << ": no bit differs";
  }
}

TEST_F(Precision, ScalesByPowersOfTwoLeaveSgdAsItIs) {
  const TinyModel model = tiny_mlp(8, 16, 4);
  const TinyData data = tiny_data(32, {8}, 4);
  TrainOptions options = sgd(0.1, 8);
  options.optimizer.momentum = 0.9;
  options.clip_norm = 0.05;
  Contents plain = after(model, data, options, 6);
  options.loss_scaling = LossScaling{.initial = 1024, .growth_interval = 2};
  Contents scaled = after(model, data, options, 6);
  EXPECT_EQ(scaled.at(std::string(kLossScaleState)), (std::vector<float>{8192, 0, 6, 0}));
  scaled.erase(std::string(kLossScaleState));
  ASSERT_EQ(plain.size(), scaled.size());
  for (const auto& [name, numbers] : plain) {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      // The norm's last bit alone may differ: its square is of numbers 2^20 times as large.
      ASSERT_NEAR(scaled[name][i], numbers[i], 1e-6 * std::max(1.0f, std::abs(numbers[i]))) << name;
    }
  }
  options.clip_norm = 0;
  scaled = after(model, data, options, 6);
  scaled.erase(std::string(kLossScaleState));
  options.loss_scaling = LossScaling{.initial = 0};
  EXPECT_EQ(scaled, after(model, data, options, 6)) << "without clipping every bit is the same";
}

TEST_F(Precision, StepsThatOverflowChangeNothingButTheScale) {
  const TinyModel model = tiny_mlp(8, 16, 4);
  const TinyData data = tiny_data(8, {8}, 4);  // every step sees the same
  TrainOptions options = adamw(8);
  options.loss_scaling = LossScaling{.initial = 0x1p100, .backoff_factor = 0x1p-20};
  options.precision = DType::f16;
  const auto trainer = make(model, data, options);
  ASSERT_TRUE(trainer);
  const Contents before = contents_of(*trainer);
  auto results = steps(*trainer, data, 3, 8);
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(results.back().skipped_steps, 3u);
  EXPECT_EQ(results.back().loss_scale, 0x1p40);
  Contents now = contents_of(*trainer);
  EXPECT_EQ(now.at(std::string(kLossScaleState)), (std::vector<float>{0x1p40f, -3, 0, 3}));
  for (const auto& [name, numbers] : before) {
    if (name == kLossScaleState) continue;
    EXPECT_EQ(now.at(name), numbers) << name;
  }
  // 2^40 and 2^20 overflow or not; from there on every step is one that a trainer without them takes.
  results = steps(*trainer, data, 6, 8);
  ASSERT_EQ(results.size(), 6u);
  now = contents_of(*trainer);
  const auto taken = static_cast<std::uint64_t>(now.at(std::string(kLossScaleState))[2]);
  EXPECT_GE(taken, 4u);
  EXPECT_EQ(taken + results.back().skipped_steps, 9u);
  options.loss_scaling = LossScaling{.initial = *results.back().loss_scale};
  const Contents expected = after(model, data, options, taken);
  for (const auto& [name, numbers] : expected) {
    if (name == kLossScaleState) continue;
    EXPECT_EQ(now.at(name), numbers) << name << ": bias corrections count the steps that were taken";
  }
}

/// Six batches of 6; sample 8 overflows f16 as soon as anything is computed of it.
TinyData with_a_huge_sample() {
  TinyData data = tiny_data(36, {1, 8, 8}, 3);
  for (std::size_t i = 8 * 64; i < 9 * 64; ++i) data.x[i] *= 1e8f;
  return data;
}

TEST_F(Precision, StepsWhoseForwardPassOverflowsAreLeftOut) {
  const TinyModel model = tiny_cnn(3);
  const TinyData data = with_a_huge_sample();
  TrainOptions options = adamw(6, DType::f16);
  for (const std::int64_t micro : {6, 2}) {
    SCOPED_TRACE(micro);
    options.micro_batch = micro;
    const auto trainer = make(model, data, options);
    ASSERT_TRUE(trainer);
    const auto source = data.source();
    auto loader = data::Loader::create(*source, {.batch = 6, .shuffle = false}).value();
    ASSERT_TRUE(trainer->train_step(**loader->next()).ok());
    const Contents before = contents_of(*trainer);
    const auto skipped = trainer->train_step(**loader->next());
    ASSERT_TRUE(skipped.ok()) << skipped.status().message();
    EXPECT_TRUE(skipped->skipped);
    EXPECT_EQ(skipped->skipped_steps, 1u);
    EXPECT_FALSE(std::isfinite(skipped->metrics.loss()));
    EXPECT_EQ(skipped->loss_scale, 65536) << "a smaller scale would not have helped";
    const Contents now = contents_of(*trainer);
    EXPECT_EQ(now.at(std::string(kLossScaleState)), (std::vector<float>{65536, -1, 1, 1}));
    for (const auto& [name, numbers] : before) {
      // The statistics of the micro-batches without the huge sample count.
      if (name == kLossScaleState || (micro != 6 && name.find("running") != std::string::npos)) continue;
      EXPECT_EQ(now.at(name), numbers) << name;
    }
    for (int step = 0; step < 4; ++step) {
      const auto result = trainer->train_step(**loader->next());
      ASSERT_TRUE(result.ok()) << result.status().message();
      EXPECT_FALSE(result->skipped);
      EXPECT_TRUE(std::isfinite(result->metrics.loss()));
    }
    EXPECT_EQ(trainer->state().step, 6u);
    EXPECT_EQ(trainer->state().epoch_metrics.count, 30u) << "the mean of an epoch is of the other steps";
    EXPECT_TRUE(std::isfinite(trainer->state().epoch_metrics.loss()));
    for (const auto& [name, numbers] : contents_of(*trainer)) {
      for (const float x : numbers) ASSERT_TRUE(std::isfinite(x)) << name;
    }
  }
}

TEST_F(Precision, WithoutLossScalingALossThatIsNotFiniteEndsTheRun) {
  const TinyData data = with_a_huge_sample();
  TrainOptions options = adamw(6, DType::f16);
  options.loss_scaling = LossScaling{.initial = 0};
  for (const std::int64_t micro : {6, 2}) {
    SCOPED_TRACE(micro);
    options.micro_batch = micro;
    const auto trainer = make(tiny_cnn(3), data, options);
    ASSERT_TRUE(trainer);
    const auto source = data.source();
    auto loader = data::Loader::create(*source, {.batch = 6, .shuffle = false}).value();
    ASSERT_TRUE(trainer->train_step(**loader->next()).ok());
    const Contents before = contents_of(*trainer);
    const auto result = trainer->train_step(**loader->next());
    ASSERT_FALSE(result.ok());
    EXPECT_NE(result.status().message().find("The loss of step 1 is"), std::string::npos) << result.status().message();
    EXPECT_EQ(contents_of(*trainer), before) << "running statistics did not move either";
  }
}

TEST_F(Precision, TooManyOverflowsInARowEndTheRun) {
  TinyData data = tiny_data(6, {1, 8, 8}, 3);
  for (float& x : data.x) x *= 1e8f;
  const auto trainer = make(tiny_cnn(3), data, adamw(6, DType::f16));
  ASSERT_TRUE(trainer);
  EXPECT_EQ(steps(*trainer, data, kMostSkipped - 1, 6).size(), kMostSkipped - 1);
  const auto source = data.source();
  auto loader = data::Loader::create(*source, {.batch = 6}).value();
  const auto last = trainer->train_step(**loader->next());
  ASSERT_FALSE(last.ok());
  const std::string& message = last.status().message();
  EXPECT_NE(message.find("50 steps in a row, up to step 49, were left out: the loss is"), std::string::npos) << message;
  EXPECT_NE(message.find("overflows f16"), std::string::npos) << message;
}

TEST_F(Precision, OptimizerStateIn8BitsTrainsAlmostTheSame) {
  const TinyModel model = tiny_mlp(64, 128, 4);
  const TinyData data = tiny_data(32, {64}, 4);
  TrainOptions options = adamw(16);
  const auto wide = make(model, data, options);
  options.optimizer.kind = OptimizerKind::adamw8bit;
  const auto narrow = make(model, data, options);
  ASSERT_TRUE(wide && narrow);
  EXPECT_EQ(narrow->device_bytes(), narrow->plan().memory().total());
  const auto state = [](const Trainer& trainer, std::string_view of) {
    std::uint64_t bytes = 0;
    for (const NamedTensor& tensor : trainer.named_tensors()) {
      if (tensor.name.starts_with(cat(of, '/'))) bytes += tensor.bytes;
    }
    return bytes;
  };
  EXPECT_EQ(state(*wide, "fc1.weight"), 2 * 4 * 64 * 128u);
  EXPECT_EQ(state(*narrow, "fc1.weight"), 2 * (64 * 128 + 4 * 64 * 128 / 256u));
  EXPECT_EQ(state(*narrow, "fc2.weight"), state(*wide, "fc2.weight")) << "a small one";
  const auto expected = losses_of(*wide, data, 20, 16), got = losses_of(*narrow, data, 20, 16);
  EXPECT_LT(expected.back(), 0.9 * expected.front()) << "it learns";
  // The moments are off by a hundredth or so each, in either direction.
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 0.03 * expected[i]) << i;
}

TEST_F(Precision, ResumesToTheBit) {
  const auto configure = [](KeptRun& run, int kind) {
    const bool with_8_bits = kind == 1;
    if (kind == 2) run.data.x[0] = 1e8f;
    run.options.precision = DType::f16;
    run.options.loss_scaling = LossScaling{.initial = 0x1p40, .backoff_factor = 0x1p-8, .growth_interval = 2};
    if (!with_8_bits) return;
    run.options.optimizer.kind = OptimizerKind::adamw8bit;
    run.data = tiny_data(20, {64}, 3);
  };
  // One step of the third run overflows before there is a loss.
  float most_skipped = 0;
  for (const int kind : {0, 1, 2}) {
    SCOPED_TRACE(kind);
    const bool with_8_bits = kind == 1;
    const TinyModel tiny = with_8_bits ? tiny_mlp(64, 128, 3) : tiny_cnn(3, 0.4);
    KeptRun whole(tiny);
    configure(whole, kind);
    whole.start();
    ASSERT_TRUE(whole.run_to(9).ok());
    const Contents expected = contents_of(*whole.trainer);
    const auto& scale = expected.at(std::string(kLossScaleState));
    EXPECT_GE(scale[3], 1) << "some step is skipped";
    EXPECT_GE(scale[2], 4) << "most are not";
    if (kind == 2) {
      EXPECT_GT(scale[3], most_skipped) << "the huge sample too";
    }
    most_skipped = std::max(most_skipped, scale[3]);
    const TemporaryFolder folder;
    CheckpointOptions options;
    options.folder = folder.file("store");
    options.resume = true;
    {
      KeptRun run(tiny);
      configure(run, kind);
      ASSERT_TRUE(run.open(options).ok());
      ASSERT_TRUE(run.run_to(5, 1).ok());
      ASSERT_TRUE(run.checkpointer->save().ok());
    }
    {
      KeptRun run(tiny);
      configure(run, kind);
      const Status opened = run.open(options);
      ASSERT_TRUE(opened.ok()) << opened.message();
      ASSERT_TRUE(run.run_to(9).ok());
      EXPECT_TRUE(same_bits(contents_of(*run.trainer), expected));
    }
    // Another precision is another run.
    KeptRun other(tiny);
    configure(other, kind);
    other.options.precision = DType::bf16;
    const Status refused = other.open(options);
    EXPECT_NE(refused.message().find("precision"), std::string::npos) << refused.message();
  }
}

TEST_F(Precision, SaysWhatItDoesNotKnow) {
  EXPECT_FALSE(passes::parse_precision("f8").ok());
  TrainOptions options;
  options.precision = DType::q8_0;
  EXPECT_NE(check(options).message().find("f32, f16 or bf16"), std::string::npos);
  options.precision = DType::f16;
  options.loss_scaling = LossScaling{.initial = 0x1p-25};
  EXPECT_NE(check(options).message().find("it must be 0 (none) or at least 2^-24"), std::string::npos);
}

}  // namespace
}  // namespace graft::train::precision_test
