// ctest: slow (dozens of small trainers; a software driver compiles their kernels)
// Runs of many steps: bit-equal, resumed, without allocations; evaluation, statistics, losses, stopping, errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/core/op_id.gen.h"
#include "runtime/train/run/fit.h"
#include "tests/support/heap_count.h"
#include "tests/support/trainer_fixture.h"

namespace graft::train::trainer_run_test {
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

TEST_F(TrainerTest, RunsAreBitEqualAndGoOnExactlyFromTheirState) {
  const TinyModel model = tiny_cnn(4, 0.5);
  const TinyData data = tiny_data(21, {1, 8, 8}, 4);
  TrainOptions options;
  options.batch = 8;
  options.micro_batch = 3;
  options.seed = 5;
  options.clip_norm = 0.5;
  const data::LoaderOptions order{.batch = 8, .seed = 9};
  const auto run = [&](Trainer& trainer, data::Loader& loader, std::uint64_t until) {
    const auto end = fit(trainer, loader, {.steps = until});
    ASSERT_TRUE(end.ok()) << end.status().message();
  };
  Contents whole, again;
  for (Contents* out : {&whole, &again}) {
    const auto trainer = make(model, data, options);
    const auto source = data.source();
    auto loader = data::Loader::create(*source, order).value();
    run(*trainer, *loader, 7);
    *out = contents_of(*trainer);
  }
  EXPECT_EQ(whole, again);
  EXPECT_NE(whole.at("conv.weight"), model.weights.at("conv.weight"));

  const auto source = data.source();
  auto loader = data::Loader::create(*source, order).value();
  const auto first = make(model, data, options);
  run(*first, *loader, 4);
  const auto saved = contents_of(*first);
  const TrainingState state = first->state();
  EXPECT_EQ(state.step, 4u);

  options.seed = 77;  // the state's seed counts
  const auto second = make(model, data, options);
  for (const auto& [name, values] : saved) {
    ASSERT_TRUE(second->write(name, std::as_bytes(std::span(values))).ok());
  }
  second->state() = state;
  const auto other_source = data.source();
  auto resumed = data::Loader::create(*other_source, order).value();
  ASSERT_TRUE(resumed->restore(state.cursor).ok());
  run(*second, *resumed, 7);
  EXPECT_EQ(contents_of(*second), whole);
}

TEST_F(TrainerTest, AStepAllocatesNothing) {
  const TinyModel model = tiny_mlp(5, 7, 3);
  const TinyData data = tiny_data(8, {5}, 3);
  for (const std::int64_t micro : {0, 3}) {
    TrainOptions options;
    options.batch = 8;
    options.micro_batch = micro;
    options.clip_norm = 1;
    const auto trainer = make(model, data, options);
    const auto source = data.source();
    auto loader = data::Loader::create(*source, {.batch = 8}).value();
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(trainer->train_step(**loader->next()).ok());
    const std::uint64_t heap = test::heap_allocations();
    const std::uint64_t device = shared_device()->memory().allocations;
    bool good = true;
    for (int i = 0; i < 5; ++i) good = good && trainer->train_step(**loader->next()).ok();
    // The driver allocates with malloc and the validation layers with operator new: leave them out of this test
    // (GRAFT_TEST_VALIDATION=0) to see graft alone.
    const std::uint64_t heap_after = test::heap_allocations();
    EXPECT_TRUE(good);
    EXPECT_EQ(shared_device()->memory().allocations, device);
    if (test::test_device_options().instance.validation == nullptr) {
      EXPECT_EQ(heap_after, heap) << "micro " << micro;
    }
  }
}

TEST_F(TrainerTest, BatchNormLearnsStatisticsAndEvaluationUsesThem) {
  const TinyModel model = tiny_cnn(4, 0.5);
  const TinyData data = tiny_data(16, {1, 8, 8}, 4);
  TrainOptions options = sgd(0, 16);
  options.batch_norm_momentum = 1;  // running = last batch
  const auto trainer = make(model, data, options, true);
  ASSERT_TRUE(trainer);
  const auto source = data.source();
  const auto before = trainer->evaluate(*source);
  ASSERT_TRUE(before.ok()) << before.status().message();
  EXPECT_EQ(before->count, 16u);
  steps(*trainer, data, 1, 16);
  const Contents done = contents_of(*trainer);
  EXPECT_NE(done.at("bn.running_mean"), model.weights.at("bn.running_mean"));
  EXPECT_EQ(done.at("conv.weight"), model.weights.at("conv.weight")) << "the learning rate is 0";
  const auto with = trainer->evaluate(*source);
  ASSERT_TRUE(with.ok());
  EXPECT_NE(with->loss(), before->loss());
  // Dropout is off: evaluating twice is the same, in micro-batches too.
  EXPECT_EQ(*trainer->evaluate(*source), *with);

  options.batch_statistics = false;
  const Contents fixed = after(model, data, options);
  EXPECT_EQ(fixed.at("bn.running_mean"), model.weights.at("bn.running_mean"));
}

TEST_F(TrainerTest, DropoutDiffersFromStepToStepAndInMicroBatches) {
  const TinyModel model = tiny_cnn(4, 0.5);
  TinyData data = tiny_data(8, {1, 8, 8}, 4);
  for (std::size_t i = 1; i < 8; ++i) {  // eight times the same sample
    std::copy_n(data.x.begin(), 64, data.x.begin() + static_cast<std::ptrdiff_t>(64 * i));
    data.labels[i] = data.labels[0];
  }
  TrainOptions options = sgd(0, 4);
  options.micro_batch = 2;
  options.batch_statistics = false;
  const auto trainer = make(model, data, options);
  const auto results = steps(*trainer, data, 2, 4);
  ASSERT_EQ(results.size(), 2u);
  EXPECT_NE(results[0].metrics.loss(), results[1].metrics.loss());
}

TEST_F(TrainerTest, LearnsExclusiveOr) {
  TinyModel model = tiny_mlp(2, 8, 2);
  TinyData data = tiny_data(4, {2}, 2);
  data.x = {0, 0, 0, 1, 1, 0, 1, 1};
  data.labels = {0, 1, 1, 0};
  TrainOptions options;
  options.batch = 4;
  options.optimizer.learning_rate = 0.05;
  const auto trainer = make(model, data, options, true);
  ASSERT_TRUE(trainer);
  const auto results = steps(*trainer, data, 150, 4);
  ASSERT_EQ(results.size(), 150u);
  EXPECT_TRUE(results[0].metrics.has_correct);
  EXPECT_FALSE(results[0].metrics.has_top5);
  const auto source = data.source();
  const auto metrics = trainer->evaluate(*source);
  ASSERT_TRUE(metrics.ok());
  EXPECT_EQ(metrics->accuracy(), 1.0);
  EXPECT_LT(metrics->loss(), 0.1);
  EXPECT_GT(results[0].metrics.loss(), 0.4);
}

TEST_F(TrainerTest, OtherLossesAreTheirFormulas) {
  const TinyModel model = tiny_mlp(3, 4, 1);
  TinyData data = tiny_data(6, {3}, 0);
  for (float& t : data.targets) t = std::abs(t);
  // The forward in double, for the loss of the first step.
  std::vector<double> y;
  const auto& w = model.weights;
  for (int s = 0; s < 6; ++s) {
    double out = w.at("fc2.bias")[0];
    for (std::size_t h = 0; h < 4; ++h) {
      double sum = w.at("fc1.bias")[h];
      for (std::size_t i = 0; i < 3; ++i) sum += double{data.x[s * 3 + i]} * w.at("fc1.weight")[i * 4 + h];
      out += std::tanh(sum) * w.at("fc2.weight")[h];
    }
    y.push_back(out);
  }
  for (const Loss loss : {Loss::mse, Loss::l1, Loss::bce}) {
    double want = 0;
    for (std::size_t s = 0; s < 6; ++s) {
      const double t = data.targets[s], p = 1 / (1 + std::exp(-y[s]));
      if (loss == Loss::mse) want += (y[s] - t) * (y[s] - t) / 6;
      if (loss == Loss::l1) want += std::abs(y[s] - t) / 6;
      if (loss == Loss::bce) want -= (t * std::log(p) + (1 - t) * std::log(1 - p)) / 6;
    }
    TrainOptions options = sgd(0.1, 6);
    options.loss.kind = loss;
    const auto trainer = make(model, data, options);
    ASSERT_TRUE(trainer);
    const auto results = steps(*trainer, data, 20, 6);
    EXPECT_NEAR(results.at(0).metrics.loss(), want, 1e-5) << loss_name(loss);
    EXPECT_LT(results.back().metrics.loss(), results.front().metrics.loss()) << loss_name(loss);
  }
}

TEST_F(TrainerTest, EvaluatesAloneInAnyPieces) {
  const TinyModel model = tiny_mlp(5, 7, 8);
  const TinyData data = tiny_data(13, {5}, 8);
  const auto source = data.source();
  Metrics first;
  for (const std::int64_t batch : {13, 5, 1}) {
    TrainOptions options;
    options.batch = batch;
    options.freeze = {"*"};  // nothing could be trained
    TrainerOptions only;
    only.request.training = false;
    auto trainer = Trainer::create(*shared_device(), model.graph, model.weight_of(), options, data.fields, only);
    ASSERT_TRUE(trainer.ok()) << trainer.status().message();
    const auto metrics = (*trainer)->evaluate(*source);
    ASSERT_TRUE(metrics.ok()) << metrics.status().message();
    if (batch == 13) first = *metrics;
    EXPECT_EQ(metrics->count, 13u);
    EXPECT_EQ(metrics->correct, first.correct);
    EXPECT_EQ(metrics->top5, first.top5);
    EXPECT_GE(metrics->top5, metrics->correct);
    EXPECT_NEAR(metrics->loss(), first.loss(), 1e-6);
    auto loader = data::Loader::create(*source, {.batch = 1}).value();
    EXPECT_FALSE((*trainer)->train_step(**loader->next()).ok());
  }
}

TEST_F(TrainerTest, StopsAtAStepWhenAsked) {
  const TinyModel model = tiny_mlp(5, 4, 3);
  const TinyData data = tiny_data(20, {5}, 3);
  const auto trainer = make(model, data, sgd(0.1, 5));
  const auto source = data.source();
  auto loader = data::Loader::create(*source, {.batch = 5, .shuffle = false, .epochs = 2}).value();
  std::atomic<bool> stop = false;
  FitOptions options{.stop = &stop, .on_step = [&](const StepResult&) {
                       stop = trainer->state().step == 3;
                       return Status();
                     }};
  EXPECT_EQ(fit(*trainer, *loader, options).value(), FitEnd::stopped);
  EXPECT_EQ(trainer->device_bytes(), trainer->plan().memory().total()) << "planned is not measured";
  EXPECT_EQ(trainer->state().step, 3u);
  EXPECT_EQ(trainer->state().cursor.position, 15u);
  EXPECT_EQ(trainer->state().epoch_metrics.count, 15u);
  stop = false;
  int epochs = 0;
  options.on_step = nullptr;
  options.on_epoch = [&](const Trainer& t) {
    EXPECT_EQ(t.state().epoch_metrics.count, 20u);
    ++epochs;
    return Status();
  };
  EXPECT_EQ(fit(*trainer, *loader, options).value(), FitEnd::done);
  EXPECT_EQ(trainer->state().step, 8u);
  EXPECT_EQ(epochs, 2);
}

TEST_F(TrainerTest, SaysWhatIsWrong) {
  const TinyModel model = tiny_mlp(5, 4, 3);
  TinyData data = tiny_data(6, {5}, 3);
  const auto create = [&](const TinyData& d, const TrainOptions& o = sgd(0.1, 6)) {
    const auto trainer = Trainer::create(*shared_device(), model.graph, model.weight_of(), o, d.fields);
    EXPECT_FALSE(trainer.ok());
    return trainer.ok() ? "" : trainer.status().message();
  };
  TinyData unlabeled = data;
  unlabeled.fields.pop_back();
  EXPECT_EQ(create(unlabeled), "The data set has no labels, but the loss needs them.");
  EXPECT_EQ(create(tiny_data(6, {4}, 3)),
            "The input \"x\" takes the shape [5] for each sample, but field \"x\" of the data has the shape [4].");
  EXPECT_NE(create(tiny_data(6, {5}, 0)).find("whole numbers of 32 bits, but it is of type f32"), std::string::npos);
  TrainOptions options = sgd(0.1, 6);
  options.loss.output = "z";
  EXPECT_NE(create(data, options).find("z"), std::string::npos);

  const auto trainer = make(model, data, sgd(0.1, 6));
  data.labels[4] = 3;
  const auto source = data.source();
  auto loader = data::Loader::create(*source, {.batch = 6, .shuffle = false}).value();
  EXPECT_EQ(trainer->train_step(**loader->next()).status().message(),
            "Field \"label\" of sample 4 of the data set holds 3, but the model has 3 classes.");
  EXPECT_EQ(trainer->state().step, 0u);
  loader.reset();  // its thread reads ahead
  data.labels[4] = 2;
  data.x[7] = std::nanf("");
  const auto nan_source = data.source();
  auto nan_loader = data::Loader::create(*nan_source, {.batch = 6, .shuffle = false}).value();
  EXPECT_EQ(trainer->train_step(**nan_loader->next()).status().message(),
            "Field \"x\" of sample 1 of the data set holds nan at [2], but numbers must be finite.");
  EXPECT_EQ(trainer->state().step, 0u);
}

TEST_F(TrainerTest, TakesSamplesOfTheInputsShapeAndRefusesOthersOfAsManyElements) {
  const TinyModel model = tiny_cnn(4);  // image [batch, 1, 8, 8]
  const auto refusal = [&](const std::vector<std::int64_t>& sample) {
    const auto trainer =
        Trainer::create(*shared_device(), model.graph, model.weight_of(), sgd(0.1, 2), tiny_data(4, sample, 4).fields);
    return trainer.ok() ? "" : trainer.status().message();
  };
  for (const std::vector<std::int64_t>& same : {std::vector<std::int64_t>{1, 8, 8}, {8, 8}, {8, 8, 1}, {64}, {64, 1}}) {
    EXPECT_EQ(refusal(same), "") << Shape::of(same).text();
  }
  for (const std::vector<std::int64_t>& other : {std::vector<std::int64_t>{4, 16}, {16, 4}, {2, 4, 8}}) {
    EXPECT_EQ(refusal(other), cat("The input \"image\" takes the shape [1, 8, 8] for each sample, but field \"x\" of "
                                  "the data has the shape ",
                                  Shape::of(other).text(), "."));
  }
}

/// x [batch, 5] and state h: [2, batch, 4] as recurrent layers have it, or as each sample gives it, [batch, 8].
TinyModel with_state(bool batch_first) {
  TinyModel model;
  const Dim batch = Dim::symbol("batch");
  const ValueId x = model.input("x", {5});
  const ValueId w = model.weight("w", {5, 3}, 0.5), u = model.weight("u", {8, 3}, 0.5);
  Builder b(model.graph);
  ValueId h = batch_first ? model.input("h", {8})
                          : model.graph.add_value("h", DType::f32, Shape{2, batch, 4}, ValueKind::input).value();
  if (!batch_first) {
    h = b.node(Op::transpose, {h}, {{"perm", Ints{1, 0, 2}}});
    h = b.node(Op::reshape, {h}, {{"shape", Shape{batch, 8}}});
  }
  model.graph.add_output("y", b.add(b.node(Op::matmul, {x, w}), b.node(Op::matmul, {h, u})));
  return model;
}

/// Losses of steps over samples of x, h (not where `zeros`) and labels.
std::vector<double> state_losses(const TinyModel& model, const std::vector<std::int64_t>& h_sample, bool leave_out,
                                 bool zeros) {
  constexpr std::uint64_t kSamples = 12;
  const TinyData data = tiny_data(kSamples, {5}, 3);
  TinyData state = tiny_data(kSamples, {8}, 3, 7);
  if (zeros) std::ranges::fill(state.x, 0.0f);
  std::vector<data::Field> fields = {data.fields[0], {"h", DType::f32, Shape::of(h_sample)}, data.fields[1]};
  std::vector<std::span<const std::byte>> blocks = {std::as_bytes(std::span(data.x)), std::as_bytes(std::span(state.x)),
                                                    std::as_bytes(std::span(data.labels))};
  if (leave_out) {
    fields.erase(fields.begin() + 1);
    blocks.erase(blocks.begin() + 1);
  }
  TrainOptions options = sgd(0.2, 4);
  options.micro_batch = 3;
  auto trainer = Trainer::create(*shared_device(), model.graph, model.weight_of(), options, fields);
  EXPECT_TRUE(trainer.ok()) << trainer.status().message();
  if (!trainer.ok()) return {};
  const auto source = data::from_slices(fields, blocks, kSamples).value();
  auto loader = data::Loader::create(*source, {.batch = 4, .shuffle = false}).value();
  std::vector<double> losses;
  for (int i = 0; i < 3; ++i) {
    const auto result = (*trainer)->train_step(**loader->next());
    EXPECT_TRUE(result.ok()) << result.status().message();
    losses.push_back(result.ok() ? result->metrics.loss() : 0);
  }
  return losses;
}

TEST_F(TrainerTest, StateWhoseBatchIsAnotherAxisGetsItsRowsOrZeros) {
  const auto wanted = state_losses(with_state(true), {8}, false, false);
  EXPECT_EQ(state_losses(with_state(false), {2, 4}, false, false), wanted);
  const auto without = state_losses(with_state(true), {8}, false, true);
  EXPECT_EQ(state_losses(with_state(false), {}, true, false), without);
  EXPECT_NE(without, wanted);
}

TEST_F(TrainerTest, AnInputWithoutABatchIsOneForAllSamples) {
  TinyModel model;
  const ValueId x = model.input("x", {3});
  const ValueId factor = model.graph.add_value("factor", DType::f32, {}, ValueKind::input).value();
  const ValueId w = model.weight("w", {3, 3}, 0.5);
  Builder b(model.graph);
  model.graph.add_output("y", b.mul(b.node(Op::matmul, {x, w}), factor));
  const TinyData data = tiny_data(4, {3}, 3);
  std::vector<float> factors(4, 2);
  const std::vector<data::Field> fields = {data.fields[0], {"factor", DType::f32, {}}, data.fields[1]};
  auto trainer = Trainer::create(*shared_device(), model.graph, model.weight_of(), sgd(0.1, 4), fields).value();
  const std::span<const std::byte> blocks[] = {std::as_bytes(std::span(data.x)), std::as_bytes(std::span(factors)),
                                               std::as_bytes(std::span(data.labels))};
  EXPECT_TRUE(trainer->train_step(data::Batch::view(blocks, 4)).ok());
  factors[2] = 3;
  EXPECT_NE(trainer->train_step(data::Batch::view(blocks, 4))
                .status()
                .message()
                .find("Field \"factor\" of sample 2 of the batch differs from sample 0 of the batch"),
            std::string::npos);
}

/// The trainer's parameters and state, bit for bit.
std::vector<std::byte> all_bits(Trainer& trainer) {
  std::vector<std::byte> bits;
  for (const NamedTensor& tensor : trainer.named_tensors()) {
    std::vector<std::byte> bytes(tensor.bytes);
    EXPECT_TRUE(trainer.read(tensor.name, bytes).ok());
    bits.insert(bits.end(), bytes.begin(), bytes.end());
  }
  return bits;
}

TEST_F(TrainerTest, RefusesABadSampleBeforeItsBatchBegins) {
  const TinyModel model = tiny_mlp(5, 4, 3);
  TinyData data = tiny_data(8, {5}, 3);
  TrainOptions options = sgd(0.1, 8);
  options.micro_batch = 2;
  const auto trainer = make(model, data, options);
  ASSERT_NE(trainer, nullptr);
  steps(*trainer, data, 1, 8);
  const std::vector<std::byte> before = all_bits(*trainer);
  data.x[6 * 5 + 1] = -std::numeric_limits<float>::infinity();  // of the last micro-batch but one
  const auto source = data.source();
  for (const bool shuffle : {false, true}) {
    auto loader = data::Loader::create(*source, {.batch = 8, .shuffle = shuffle, .seed = 5}).value();
    // The sample's number in the data set, wherever the order put it.
    EXPECT_EQ(trainer->train_step(**loader->next()).status().message(),
              "Field \"x\" of sample 6 of the data set holds -inf at [1], but numbers must be finite.");
    EXPECT_EQ(all_bits(*trainer), before);
  }
  const std::span<const std::byte> blocks[] = {std::as_bytes(std::span(data.x)), std::as_bytes(std::span(data.labels))};
  EXPECT_EQ(trainer->train_step(data::Batch::view(blocks, 8)).status().message(),
            "Field \"x\" of sample 6 of the batch holds -inf at [1], but numbers must be finite.");
  EXPECT_EQ(trainer->state().step, 1u);
}

TEST_F(TrainerTest, LargeBatchesAreCheckedAndCopiedInThreads) {
  constexpr std::int64_t kFeatures = 300'000;  // 9.6 MB of eight samples, 1.2 of one, which one thread copies
  const TinyModel model = tiny_mlp(kFeatures, 2, 3);
  TinyData data = tiny_data(8, {kFeatures}, 3);
  TrainOptions options = sgd(1e-9, 8);
  const auto whole = make(model, data, options);
  options.micro_batch = 1;
  const auto parts = make(model, data, options);
  ASSERT_TRUE(whole != nullptr && parts != nullptr);
  const std::span<const std::byte> blocks[] = {std::as_bytes(std::span(data.x)), std::as_bytes(std::span(data.labels))};
  const auto together = whole->train_step(data::Batch::view(blocks, 8));
  const auto one_by_one = parts->train_step(data::Batch::view(blocks, 8));
  ASSERT_TRUE(together.ok() && one_by_one.ok());
  EXPECT_NEAR(together->metrics.loss() / one_by_one->metrics.loss(), 1, 1e-4);  // sums of 300,000 terms in f32
  data.x[5 * kFeatures - 1] = std::nanf("");
  data.x[6 * kFeatures + 7] = std::nanf("");
  EXPECT_EQ(whole->train_step(data::Batch::view(blocks, 8)).status().message(),
            "Field \"x\" of sample 4 of the batch holds nan at [299999], but numbers must be finite.");
}

TEST_F(TrainerTest, RefusesAStepWithoutLabels) {
  const TinyModel model = tiny_mlp(5, 4, 3);
  TinyData data = tiny_data(4, {5}, 3);
  TrainOptions options = sgd(0.1, 4);
  options.loss.ignore_index = 7;
  data.labels.assign(4, 7);
  const auto trainer = make(model, data, options);
  ASSERT_NE(trainer, nullptr);
  const auto source = data.source();
  auto loader = data::Loader::create(*source, {.batch = 4}).value();
  EXPECT_EQ(trainer->train_step(**loader->next()).status().message(),
            "All labels of step 0's batch are 7, which is ignored: there is nothing to learn from.");
  EXPECT_EQ(trainer->state().step, 0u);
}

TEST_F(TrainerTest, StopsWhereTheLossIsNoNumber) {
  const TinyModel model = tiny_mlp(5, 4, 1);
  const TinyData data = tiny_data(4, {5}, 0);
  TrainOptions diverging = sgd(1e30, 4);
  diverging.loss.kind = Loss::mse;
  const auto trainer = make(model, data, diverging);
  ASSERT_NE(trainer, nullptr);
  const auto source = data.source();
  auto loader = data::Loader::create(*source, {.batch = 4}).value();
  Status status;
  for (int i = 0; i < 5 && status.ok(); ++i) status = trainer->train_step(**loader->next()).status();
  EXPECT_NE(status.message().find("The loss of step "), std::string::npos) << status.message();
}

TEST_F(TrainerTest, AStepWithAnInfiniteLossAndFiniteGradientsChangesNothing) {
  const TinyModel model = tiny_mlp(5, 4, 1);
  TinyData data = tiny_data(4, {5}, 0);
  data.targets[3] = 1e25f;  // its square overflows, and twice the difference does not
  for (const std::int64_t micro : {4, 2, 1}) {
    SCOPED_TRACE(micro);
    TrainOptions options = sgd(1e-25, 4);
    options.loss.kind = Loss::mse;
    options.micro_batch = micro;
    const auto trainer = make(model, data, options);
    ASSERT_NE(trainer, nullptr);
    const Contents before = contents_of(*trainer);
    const auto source = data.source();
    auto loader = data::Loader::create(*source, {.batch = 4, .shuffle = false}).value();
    const Status status = trainer->train_step(**loader->next()).status();
    EXPECT_NE(status.message().find("The loss of step 0 is inf"), std::string::npos) << status.message();
    EXPECT_EQ(contents_of(*trainer), before);
  }
}

}  // namespace
}  // namespace graft::train::trainer_run_test
