// ctest: slow (several small trainers; a software driver compiles their kernels)
// Steps of many tensors in one dispatch train to the same bits as one dispatch for each tensor.
#include <gtest/gtest.h>

#include <cstring>

#include "runtime/plan/hazards.h"
#include "tests/support/trainer_fixture.h"

namespace graft::train::merge_test {
namespace {

using test::Contents;
using test::TinyData;
using test::TinyModel;

struct Case {
  const char* name;
  void (*set)(TrainOptions&);
};

const Case kCases[] = {
    {"sgd", [](TrainOptions& o) { o.optimizer.kind = OptimizerKind::sgd; }},
    {"momentum",
     [](TrainOptions& o) {
       o.optimizer.kind = OptimizerKind::sgd;
       o.optimizer.momentum = 0.9;
       o.optimizer.nesterov = true;
     }},
    {"adam", [](TrainOptions& o) { o.optimizer.kind = OptimizerKind::adam; }},
    {"adamw_groups",
     [](TrainOptions& o) {
       o.optimizer.kind = OptimizerKind::adamw;
       o.optimizer.weight_decay = 0.1;
       o.groups.push_back({"*.bias", 0.5, 0.0});
     }},
    {"clipped_and_accumulated",
     [](TrainOptions& o) {
       o.clip_norm = 0.1;
       o.micro_batch = 3;
     }},
};

std::size_t dispatches_of(const Plan& plan, std::string_view op) {
  std::size_t count = 0;
  for (const PlanNode& node : plan.nodes) count += node.op == op ? node.steps : 0;
  return count;
}

class MergeTest : public test::TrainerTest, public testing::WithParamInterface<Case> {
 protected:
  static std::unique_ptr<Trainer> trainer(const TinyModel& model, const TinyData& data, bool merge) {
    TrainOptions options;
    options.batch = 8;
    GetParam().set(options);
    TrainerOptions trainer_options;
    trainer_options.request.samples = data.samples;
    trainer_options.request.checkpoints = true;  // plans the hash, which is merged too
    trainer_options.request.evaluation = false;
    trainer_options.request.plan.merge = merge;
    auto made =
        Trainer::create(*test::shared_device(), model.graph, model.weight_of(), options, data.fields, trainer_options);
    EXPECT_TRUE(made.ok()) << made.status().message();
    return made.ok() ? std::move(made).value() : nullptr;
  }
};

TEST_P(MergeTest, GivesTheSameBits) {
  const TinyModel model = test::tiny_cnn(4, 0.25);
  const TinyData data = test::tiny_data(8, {1, 8, 8}, 4);
  Contents contents[2];
  std::uint64_t hashes[2] = {};
  for (const bool merge : {false, true}) {
    const auto made = trainer(model, data, merge);
    ASSERT_NE(made, nullptr);
    steps(*made, data, 3, 8);
    contents[merge] = test::contents_of(*made);
    const auto hash = made->state_hash();
    ASSERT_TRUE(hash.ok()) << hash.status().message();
    hashes[merge] = *hash;
  }
  ASSERT_FALSE(contents[0].empty());
  for (const auto& [name, apart] : contents[0]) {
    const auto& together = contents[1].at(name);
    ASSERT_EQ(apart.size(), together.size()) << name;
    EXPECT_EQ(std::memcmp(apart.data(), together.data(), 4 * apart.size()), 0) << name;
  }
  EXPECT_EQ(hashes[0], hashes[1]);
}

TEST_P(MergeTest, StepsOfOneKindShareDispatches) {
  const TinyModel model = test::tiny_cnn(4);
  const TinyData data = test::tiny_data(8, {1, 8, 8}, 4);
  const auto apart = trainer(model, data, false);
  const auto together = trainer(model, data, true);
  ASSERT_NE(apart, nullptr);
  ASSERT_NE(together, nullptr);
  const auto& plan = together->plan();
  const Plan& updating = plan.update ? *plan.update : plan.training[0].plan;
  const Plan& updating_apart = apart->plan().update ? *apart->plan().update : apart->plan().training[0].plan;
  const std::size_t parameters = plan.tensors.size();
  for (const std::string_view op : {"sgd_step", "adam_step", "zero_state"}) {
    if (dispatches_of(updating_apart, op) == 0) continue;
    EXPECT_EQ(dispatches_of(updating_apart, op), parameters) << op;
    if (plan.update) {
      EXPECT_EQ(dispatches_of(updating, op), 1u) << op;
    } else {
      // Beside the backward pass, updates wait for each other only while that costs no memory.
      EXPECT_LE(dispatches_of(updating, op), parameters / 2) << op;
    }
  }
  if (plan.update) {
    EXPECT_LE(dispatches_of(plan.training[0].plan, "accumulate"), parameters / 2) << "beside the backward pass, too";
    EXPECT_EQ(dispatches_of(updating, "squared_norm"), 2u) << "all partial sums, and their total";
  }
  // Tables come with the step state: where nothing else is uploaded, that is one barrier more.
  EXPECT_LE(updating.barriers, updating_apart.barriers + 1);
  for (const Plan* each : plan.plans()) {
    EXPECT_TRUE(check_hazards(*each).ok()) << check_hazards(*each).message();
    EXPECT_TRUE(check_memory(*each).ok()) << check_memory(*each).message();
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, MergeTest, testing::ValuesIn(kCases),
                         [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace graft::train::merge_test
