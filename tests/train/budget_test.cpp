// ctest: slow (a dozen small trainers)
// A budget becomes a plan: what was chosen is said, fits to the byte, and trains to the same bits.
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/core/op_id.gen.h"
#include "runtime/plan/hazards.h"
#include "tests/support/edited_device.h"
#include "tests/support/heap_count.h"
#include "tests/support/trainer_fixture.h"

namespace graft::train::budget_test {
namespace {

using test::Contents;
using test::contents_of;
using test::EditedDevice;
using test::shared_device;
using test::tiny_data;
using test::TinyData;
using test::TinyModel;
using test::TrainerTest;

/// image [batch, 8, 8, 4] -> blocks of convolution, batch norm, tanh and dropout, with a skip -> [batch, classes].
TinyModel deep_cnn(std::int64_t classes, int blocks) {
  TinyModel model;
  Builder b(model.graph);
  ValueId h = model.input("image", {8, 8, 4});
  for (int i = 0; i < blocks; ++i) {
    const std::string name = "block" + std::to_string(i);
    const ValueId weight = model.weight(name + ".weight", {4, 3, 3, 4}, 0.3);
    const ValueId scale = model.filled(name + ".scale", {4}, 1);
    const ValueId shift = model.weight(name + ".shift", {4}, 0.1);
    const ValueId mean = model.filled(name + ".mean", {4}, 0, ValueKind::state);
    const ValueId var = model.filled(name + ".var", {4}, 1, ValueKind::state);
    ValueId y = b.node(Op::conv, {h, weight}, {{"strides", Ints{1, 1}}, {"pads", Ints{1, 1, 1, 1}}});
    y = b.node(Op::batch_norm, {y, scale, shift, mean, var}, {{"epsilon", 1e-5}});
    y = b.node(Op::dropout, {b.node(Op::tanh, {y})},
               {{"p", 0.2}, {"training", std::int64_t{0}}, {"stream", std::int64_t{0}}});
    h = i % 2 == 1 ? b.add(h, y) : y;
  }
  const ValueId fc = model.weight("fc.weight", {256, classes}, 0.1);
  model.graph.add_output("y", b.node(Op::matmul, {b.reshape(h, Shape{Dim::symbol("batch"), 256}), fc}));
  EXPECT_TRUE(b.status().ok()) << b.status().message();
  return model;
}

/// x [batch, 4096] -> [batch, 512] by a frozen weight -> [batch, 3]: long sums for few numbers.
TinyModel long_sums() {
  TinyModel model;
  Builder b(model.graph);
  const ValueId wide = model.weight("wide.weight", {4096, 512}, 0.02);
  const ValueId x = model.input("x", {4096});
  const ValueId h = b.node(Op::tanh, {b.node(Op::matmul, {x, wide}, {}, "wide")});
  model.graph.add_output("y", b.node(Op::matmul, {h, model.weight("fc.weight", {512, 3}, 0.1)}));
  EXPECT_TRUE(b.status().ok()) << b.status().message();
  return model;
}

struct Trained {
  Contents contents;
  std::int64_t micro_batch = 0;
  std::size_t recomputed = 0;
};

class Budget : public TrainerTest {
 protected:
  Budget() { options_.batch = 8; }

  gpu::Device& device() const { return device_ != nullptr ? *device_ : *shared_device(); }

  Result<TrainingPlan> plan(std::uint64_t budget, bool shrink = true, bool tile = true) const {
    PlanRequest request;
    request.plan.tile_workspace = tile;
    request.samples = data_.samples;
    request.evaluation = false;
    request.plan.budget = budget;
    request.shrink_micro_batch = shrink;
    return plan_training(model_.graph, options_, request, device().target());
  }

  /// The smallest budget that the error for a hopeless one names.
  std::uint64_t smallest(bool tile = true) const {
    const auto none = plan(1, true, tile);
    EXPECT_FALSE(none.ok());
    const std::string& message = none.status().message();
    const std::size_t at = message.find("works is ");
    EXPECT_NE(at, std::string::npos) << message;
    return at == std::string::npos ? 0 : std::stoull(message.substr(at + 9));
  }

  Trained train(std::uint64_t budget, std::int64_t micro_batch = 0) {
    TrainOptions options = options_;
    options.micro_batch = micro_batch;
    TrainerOptions trainer_options;
    trainer_options.request.samples = data_.samples;
    trainer_options.request.evaluation = false;
    trainer_options.request.plan.budget = budget;
    trainer_options.request.shrink_micro_batch = micro_batch == 0;
    auto made = Trainer::create(device(), model_.graph, model_.weight_of(), options, data_.fields, trainer_options);
    EXPECT_TRUE(made.ok()) << made.status().message();
    if (!made.ok()) return {};
    Trainer& trainer = **made;
    EXPECT_EQ(trainer.device_bytes(), trainer.plan().memory().total()) << "planned equals measured";
    EXPECT_LE(trainer.device_bytes(), budget != 0 ? budget : UINT64_MAX);
    for (const Plan* p : trainer.plan().plans()) {
      EXPECT_TRUE(check_hazards(*p).ok()) << check_hazards(*p).message();
      EXPECT_TRUE(check_memory(*p).ok()) << check_memory(*p).message();
    }
    run_steps(trainer);
    return {contents_of(trainer), trainer.plan().micro_batch, trainer.plan().training.front().plan.recomputed.size()};
  }

  void run_steps(Trainer& trainer) {
    constexpr int kSteps = 20;
    const auto source = data_.source();
    auto loader = data::Loader::create(*source, {.batch = 8, .shuffle = false}).value();
    std::uint64_t heap = 0;
    std::uint64_t device = 0;
    bool good = true;
    for (int i = 0; i < kSteps; ++i) {
      if (i == 3) {
        heap = test::heap_allocations();
        device = shared_device()->memory().allocations;
      }
      good = good && trainer.train_step(**loader->next()).ok();
    }
    const std::uint64_t heap_after = test::heap_allocations();
    EXPECT_TRUE(good);
    EXPECT_EQ(shared_device()->memory().allocations, device);
    // Validation layers allocate with operator new.
    if (test::test_device_options().instance.validation == nullptr) {
      EXPECT_EQ(heap_after, heap);
    }
  }

  void every_tenth(std::size_t least_recomputing, std::size_t least_sizes);

  gpu::Device* device_ = nullptr;  ///< null: the shared one
  TinyModel model_ = deep_cnn(3, 6);
  TinyData data_ = tiny_data(24, {8, 8, 4}, 3);
  TrainOptions options_;
};

void Budget::every_tenth(std::size_t least_recomputing, std::size_t least_sizes) {
  const std::uint64_t whole = plan(0)->memory().total();
  const std::uint64_t least = smallest();
  ASSERT_LT(least, whole);
  const Trained free = train(0);
  EXPECT_EQ(free.recomputed, 0u);
  std::map<std::int64_t, Trained> by_micro_batch = {{8, free}};
  std::size_t recomputing = 0;
  for (std::uint64_t tenth = 0; tenth < 10; ++tenth) {
    const std::uint64_t budget = least + (whole - least) * tenth / 10;
    const Trained tight = train(budget);
    recomputing += tight.recomputed != 0;
    // Another micro-batch adds up in another order, normalizes other batches and draws other masks: it is compared with
    // the same one without a budget.
    auto [at, fresh] = by_micro_batch.try_emplace(tight.micro_batch);
    if (fresh) at->second = train(0, tight.micro_batch);
    EXPECT_EQ(tight.contents, at->second.contents) << "tenth " << tenth << ", micro-batch " << tight.micro_batch;
  }
  EXPECT_GE(recomputing, least_recomputing);
  EXPECT_GE(by_micro_batch.size(), least_sizes) << "micro-batches that the range is to have";
}

TEST_F(Budget, SaysWhatMicroBatchesChange) {
  options_.micro_batch = 2;
  EXPECT_EQ(
      plan(0)->choice.reasons.back(),
      "Batch norm takes its statistics, and dropout and noise are drawn, for each micro-batch of 2 samples: the step "
      "is not that of one batch of 8.");
  options_.batch_statistics = false;
  EXPECT_EQ(plan(0)->choice.reasons.back(),
            "Dropout and noise are drawn for each micro-batch of 2 samples: the step is not that of one batch of 8.");
  options_.micro_batch = 0;
  EXPECT_TRUE(plan(0)->choice.reasons.empty());
  model_ = long_sums();
  data_ = tiny_data(24, {4096}, 3);
  options_.micro_batch = 2;
  EXPECT_TRUE(plan(0)->choice.reasons.empty()) << "nothing in it depends on the micro-batch";
}

TEST_F(Budget, EveryTenthOfItsRangeTrainsToTheSameBits) { every_tenth(4, 2); }

TEST_F(Budget, EveryTenthOfALeNetWithDropoutTrainsToTheSameBits) {
  model_ = test::lenet(0.3);
  data_ = tiny_data(24, {1, 28, 28}, 10);
  every_tenth(1, 1);
}

TEST_F(Budget, PartialSumsTakeTurnsBeforeAllElseAndToTheSameBits) {
  EditedDevice gpu(*shared_device());
  gpu.edit().caps.type = gpu::DeviceType::discrete;  // cuts long sums into many parts
  device_ = &gpu;
  model_ = long_sums();
  data_ = tiny_data(24, {4096}, 3);
  options_.freeze = {"wide.*"};
  const auto whole = plan(0);
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  const auto wide = [](const TrainingPlan& p) {
    const auto& nodes = p.training.front().plan.nodes;
    return *std::find_if(nodes.begin(), nodes.end(),
                         [](const PlanNode& node) { return node.name.starts_with("wide"); });
  };
  const std::uint64_t total = whole->memory().total();
  const std::uint64_t workspace = wide(*whole).scratch_bytes;
  EXPECT_GT(2 * workspace, whole->arena_bytes()) << "it is most of the arena";

  const auto tight = plan(total - workspace / 2);
  ASSERT_TRUE(tight.ok()) << tight.status().message();
  EXPECT_EQ(tight->micro_batch, 8);
  EXPECT_EQ(tight->training.front().plan.recomputed_flops, 0u);
  EXPECT_LE(wide(*tight).scratch_bytes, workspace / 2);
  EXPECT_EQ(wide(*tight).whole_scratch_bytes, workspace);
  ASSERT_EQ(tight->choice.reasons.size(), 2u);
  EXPECT_NE(tight->choice.reasons[1].find("Partial sums of 1 node take turns"), std::string::npos)
      << tight->choice.reasons[1];
  EXPECT_LT(smallest(), smallest(false));
  EXPECT_EQ(train(total - workspace / 2).contents, train(0).contents);
  const Trained least = train(smallest());
  EXPECT_EQ(least.contents, train(0, least.micro_batch).contents);
}

TEST_F(Budget, OneByteBelowTheSmallestIsAnErrorThatNamesIt) {
  const std::uint64_t least = smallest();
  const auto enough = plan(least);
  ASSERT_TRUE(enough.ok()) << enough.status().message();
  EXPECT_LE(enough->memory().total(), least);
  const auto less = plan(least - 1);
  ASSERT_FALSE(less.ok());
  EXPECT_EQ(less.status().code(), Code::out_of_memory);
  EXPECT_NE(less.status().message().find(std::to_string(least)), std::string::npos) << less.status().message();
  EXPECT_NE(less.status().message().find("Most of it"), std::string::npos) << less.status().message();
}

TEST_F(Budget, SaysWhatItChoseInItsOrderOfPreference) {
  const std::uint64_t whole = plan(0)->memory().total();
  EXPECT_TRUE(plan(0)->choice.reasons.empty());

  const auto fits = plan(whole);
  ASSERT_TRUE(fits.ok());
  EXPECT_EQ(fits->training.front().plan.recomputed_flops, 0u);
  ASSERT_EQ(fits->choice.reasons.size(), 1u);
  EXPECT_NE(fits->choice.reasons[0].find("within the budget"), std::string::npos) << fits->choice.reasons[0];

  const auto recomputed = plan(whole - 1);
  ASSERT_TRUE(recomputed.ok());
  EXPECT_EQ(recomputed->micro_batch, 8) << "results computed again come before smaller micro-batches";
  EXPECT_FALSE(recomputed->training.front().plan.recomputed.empty());
  ASSERT_EQ(recomputed->choice.reasons.size(), 2u);
  EXPECT_EQ(recomputed->choice.unconstrained, whole);
  EXPECT_NE(recomputed->choice.reasons[1].find("more FLOPs"), std::string::npos) << recomputed->choice.reasons[1];

  const auto micro = plan(smallest());
  ASSERT_TRUE(micro.ok());
  EXPECT_LT(micro->micro_batch, 8);
  bool said = false;
  for (const std::string& reason : micro->choice.reasons)
    said = said || reason.find("micro-batches") != std::string::npos;
  EXPECT_TRUE(said);
  EXPECT_FALSE(plan(smallest(), false).ok()) << "micro-batches stay as they are where that is not asked for";
}

/// x [batch, 64] -> [batch, 2048] -> [batch, 64] by frozen weights, batch norm, -> [batch, 3].
TinyModel frozen_and_normalized(bool normalized) {
  TinyModel model;
  Builder b(model.graph);
  ValueId h = model.input("x", {64});
  h = b.node(Op::tanh, {b.node(Op::matmul, {h, model.weight("wide.up", {64, 2048}, 0.1)})});
  h = b.node(Op::matmul, {h, model.weight("wide.down", {2048, 64}, 0.1)});
  if (normalized) {
    h = b.node(Op::batch_norm,
               {h, model.filled("scale", {64}, 1), model.weight("shift", {64}, 0.1),
                model.filled("mean", {64}, 0, ValueKind::state), model.filled("var", {64}, 1, ValueKind::state)},
               {{"epsilon", 1e-5}});
  }
  model.graph.add_output("y", b.node(Op::matmul, {b.node(Op::tanh, {h}), model.weight("fc", {64, 3}, 0.1)}));
  EXPECT_TRUE(b.status().ok()) << b.status().message();
  return model;
}

TEST_F(Budget, BatchNormIsRecomputedAndItsWeightsAreStreamedBeforeABatchIsSplit) {
  // As much as computing results again can save with the whole batch is saved before the batch is split.
  const auto hopeless = plan(1, false);
  ASSERT_FALSE(hopeless.ok());
  const std::string& message = hopeless.status().message();
  const auto whole_batch = plan(std::stoull(message.substr(message.find("works is ") + 9)));
  ASSERT_TRUE(whole_batch.ok()) << whole_batch.status().message();
  EXPECT_EQ(whole_batch->micro_batch, 8);
  EXPECT_FALSE(whole_batch->training.front().plan.recomputed.empty());

  options_.batch = 64;
  options_.freeze = {"wide.*"};
  data_ = tiny_data(128, {64}, 3);
  std::map<bool, std::uint64_t> split;  // budgets that need more than computing again
  for (const bool normalized : {false, true}) {
    model_ = frozen_and_normalized(normalized);
    PlanRequest request;
    request.samples = data_.samples;
    request.evaluation = request.shrink_micro_batch = request.plan.stream = false;
    request.plan.budget = 1;
    const auto none = plan_training(model_.graph, options_, request, device().target());
    ASSERT_FALSE(none.ok());
    split[normalized] = std::stoull(none.status().message().substr(none.status().message().find("works is ") + 9)) - 1;
    const auto chosen = plan(split[normalized]);
    ASSERT_TRUE(chosen.ok()) << chosen.status().message();
    EXPECT_LE(chosen->memory().total(), split[normalized]);
    const bool streams = !chosen->residents.streaming().names.empty();
    EXPECT_EQ(streams, normalized);
    EXPECT_EQ(chosen->micro_batch == 64, normalized) << chosen->micro_batch;
    if (!normalized) continue;
    ASSERT_GE(chosen->choice.reasons.size(), 3u);
    EXPECT_NE(chosen->choice.reasons[1].find("smaller ones would change batch norm's statistics."), std::string::npos)
        << chosen->choice.reasons[1];
    request.shrink_micro_batch = true;
    request.plan.budget = split[normalized];
    const auto smaller = plan_training(model_.graph, options_, request, device().target());
    ASSERT_TRUE(smaller.ok()) << smaller.status().message();
    EXPECT_LT(smaller->micro_batch, 64) << "where nothing may be streamed";
  }
}

}  // namespace
}  // namespace graft::train::budget_test
