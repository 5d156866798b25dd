// graft/steps.h: what a run tells of itself, models of its weights beside it; what options begin as.
#include "graft/steps.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tests/support/c_api.h"

namespace graft::test::c_api_steps_test {
namespace {

class CSteps : public CApi {
 protected:
  void TearDown() override {
    graft_trainer_destroy(std::exchange(h_.trainer, nullptr));
    graft_loader_destroy(loader_);
    graft_data_destroy(set_);
    graft_profile_destroy(profile_);
  }
  /// A loader of 6 samples in batches of 4, and a trainer for it with micro-batches of 2.
  void open_on_data(graft_trainer_options options) {
    graft_field fields[2] = {};
    fields[0] = {"x", GRAFT_F32, 1, {kInputs}, 0};
    fields[1] = {"label", GRAFT_I32, 0, {}, 1};
    x_.assign(6 * kInputs, 0.25F);
    for (std::size_t i = 0; i < x_.size(); ++i) x_[i] = std::sin(static_cast<float>(i));
    labels_ = {0, 1, 0, 1, 1, 0};
    const void* const blocks[] = {x_.data(), labels_.data()};
    ASSERT_EQ(graft_data_from_memory(h_.context, fields, 2, blocks, 6, &set_), GRAFT_OK) << h_.message();
    auto batches = sized<graft_loader_options>();
    batches.batch = 4;
    batches.epochs = 1;
    batches.in_order = 1;
    ASSERT_EQ(graft_loader_create(set_, &batches, &loader_), GRAFT_OK) << h_.message();
    options.batch = 4;
    options.micro_batch = 2;
    options.data = set_;
    ASSERT_EQ(open_trainer(options), GRAFT_OK) << h_.message();
  }

  std::vector<float> x_;
  std::vector<std::int32_t> labels_;
  graft_data_set* set_ = nullptr;
  graft_loader* loader_ = nullptr;
  graft_profile* profile_ = nullptr;
};

TEST_F(CSteps, AStepIsTakenInPartsAndToldOf) {
  auto options = trainer_options();
  options.clip_norm = 1000;
  open_on_data(options);
  auto step = sized<graft_step_info>();
  auto totals = sized<graft_totals>();
  EXPECT_EQ(graft_trainer_last_step(h_.trainer, &step, &totals), GRAFT_NOT_FOUND);
  auto place = sized<graft_run_place>();
  int more = 0, done = 1;
  ASSERT_EQ(graft_train_next_part(h_.trainer, loader_, &more, &done), GRAFT_OK) << h_.message();
  EXPECT_EQ(more, 1);
  EXPECT_EQ(done, 0) << "half of the batch";
  ASSERT_EQ(graft_trainer_place(h_.trainer, &place), GRAFT_OK);
  EXPECT_EQ(place.samples_done, 2u);
  ASSERT_EQ(graft_train_next_part(h_.trainer, loader_, &more, &done), GRAFT_OK) << h_.message();
  EXPECT_EQ(done, 1);
  ASSERT_EQ(graft_trainer_last_step(h_.trainer, &step, &totals), GRAFT_OK) << h_.message();
  EXPECT_EQ(step.step, 1u);
  EXPECT_EQ(step.ends_epoch, 0);
  EXPECT_EQ(totals.samples, 4u);
  EXPECT_GT(step.gradient_norm, 0);
  EXPECT_TRUE(std::isnan(step.loss_scale));
  EXPECT_TRUE(std::isnan(totals.reward_margin));
  ASSERT_EQ(graft_train_next(h_.trainer, loader_, &more, nullptr), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_trainer_last_step(h_.trainer, &step, nullptr), GRAFT_OK);
  EXPECT_EQ(step.ends_epoch, 1);
  ASSERT_EQ(graft_trainer_place(h_.trainer, &place), GRAFT_OK);
  EXPECT_EQ(place.between_epochs, 1);
  ASSERT_EQ(graft_trainer_epoch(h_.trainer, &totals), GRAFT_OK);
  EXPECT_EQ(totals.samples, 6u);
  auto worker = sized<graft_worker_report>();
  EXPECT_EQ(graft_trainer_worker(h_.trainer, 0, &worker), GRAFT_NOT_FOUND) << "it is alone";
  ASSERT_EQ(graft_train_next_part(h_.trainer, loader_, &more, &done), GRAFT_OK);
  EXPECT_EQ(more, 0);
}

TEST_F(CSteps, ARunTellsHowItIsPlanned) {
  open_on_data(trainer_options());
  auto info = sized<graft_run_info>();
  ASSERT_EQ(graft_trainer_describe(h_.trainer, &info), GRAFT_OK) << h_.message();
  EXPECT_EQ(info.batch, 4u);
  EXPECT_EQ(info.micro_batch, 2u);
  EXPECT_GT(info.device_bytes, 0u);
  EXPECT_STREQ(info.explanation, "") << "nobody gave a budget";
  graft_tensor_info parameter{};
  std::size_t count = 0;
  while (graft_trainer_parameter(h_.trainer, count, &parameter) == GRAFT_OK) ++count;
  EXPECT_EQ(count, info.tensors);
}

TEST_F(CSteps, AModelOfTheWeightsStandsBesideTheRun) {
  open_on_data(trainer_options());
  graft_tensor_info parameter{};
  ASSERT_EQ(graft_trainer_parameter(h_.trainer, 0, &parameter), GRAFT_OK);
  const std::string name = parameter.name;
  std::size_t count = 1;
  for (std::uint32_t i = 0; i < parameter.rank; ++i) count *= static_cast<std::size_t>(parameter.dims[i]);
  const auto read = [&](const graft_model* model) {
    std::vector<float> values(count);
    EXPECT_EQ(graft_model_read(model, name.c_str(), values.data(), 4 * count, nullptr), GRAFT_OK) << h_.message();
    return values;
  };
  const std::vector<float> before = read(h_.model);
  int more = 0;
  ASSERT_EQ(graft_train_next(h_.trainer, loader_, &more, nullptr), GRAFT_OK) << h_.message();
  graft_model* copy = nullptr;
  ASSERT_EQ(graft_trainer_copy(h_.trainer, 0, &copy), GRAFT_OK) << h_.message();
  std::vector<float> now(count);
  ASSERT_EQ(graft_trainer_read(h_.trainer, name.c_str(), now.data(), 4 * count, nullptr), GRAFT_OK);
  EXPECT_EQ(read(copy), now);
  EXPECT_EQ(read(h_.model), before) << "the run's own model stays";
  EXPECT_NE(now, before);
  graft_model_destroy(copy);
  EXPECT_EQ(graft_trainer_copy(h_.trainer, 1, &copy), GRAFT_INVALID_ARGUMENT) << "it keeps no running means";
  EXPECT_EQ(copy, nullptr);
}

TEST_F(CSteps, DefaultsAreTheOptimizersAndZerosCount) {
  auto options = training_options(GRAFT_MUON);
  EXPECT_EQ(options.momentum, 0.95);
  EXPECT_EQ(options.nesterov, 1);
  EXPECT_EQ(options.weight_decay, 0.1);
  options.growth_interval = 7;
  options.struct_size = offsetof(graft_trainer_options, growth_interval);
  EXPECT_EQ(graft_trainer_options_init(&options, GRAFT_ADAM), GRAFT_OK);
  EXPECT_EQ(options.momentum, 0);
  EXPECT_EQ(options.growth_interval, 7u) << "an older program's struct does not have it";
  options.struct_size = 0;
  EXPECT_EQ(graft_trainer_options_init(&options, GRAFT_SGD), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(options.optimizer, GRAFT_ADAM);
  // The same steps as by zeros; and a rate of zero moves nothing.
  auto given = trainer_options();
  ASSERT_EQ(graft_trainer_options_init(&given, GRAFT_ADAMW), GRAFT_OK);
  given.learning_rate = 0;
  given.weight_decay = 0;
  open_on_data(given);
  int more = 0;
  graft_tensor_info parameter{};
  ASSERT_EQ(graft_trainer_parameter(h_.trainer, 0, &parameter), GRAFT_OK);
  const std::string name = parameter.name;
  const auto first = [&] {
    std::vector<float> all(4096);
    std::size_t count = 1;
    for (std::uint32_t i = 0; i < parameter.rank; ++i) count *= static_cast<std::size_t>(parameter.dims[i]);
    EXPECT_EQ(graft_trainer_read(h_.trainer, name.c_str(), all.data(), 4 * count, nullptr), GRAFT_OK) << h_.message();
    return all;
  };
  const auto before = first();
  ASSERT_EQ(graft_train_next(h_.trainer, loader_, &more, nullptr), GRAFT_OK) << h_.message();
  EXPECT_EQ(first(), before);
}

TEST_F(CSteps, LossesSayWhatTheyAre) {
  graft_loss kinds[3] = {};
  std::size_t count = 0;
  ASSERT_EQ(graft_loss_kinds("dpo", kinds, 3, &count), GRAFT_OK);
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(kinds[0], GRAFT_LOSS_DPO);
  ASSERT_EQ(graft_loss_kinds("ce:a+0.5*mse:b+distill:c", kinds, 3, &count), GRAFT_OK);
  EXPECT_EQ(count, 3u);
  EXPECT_EQ(kinds[0], GRAFT_LOSS_CROSS_ENTROPY);
  EXPECT_EQ(kinds[1], GRAFT_LOSS_MSE);
  EXPECT_EQ(kinds[2], GRAFT_LOSS_DISTILL);
  EXPECT_EQ(graft_loss_kinds("none", kinds, 3, &count), GRAFT_INVALID_ARGUMENT);
  EXPECT_NE(std::string(graft_loss_names()).find("kto"), std::string::npos);
  int predictions = 0;
  ASSERT_EQ(graft_metrics_check(h_.context, "loss,f1", &predictions), GRAFT_OK) << h_.message();
  EXPECT_EQ(predictions, 1);
  EXPECT_EQ(graft_metrics_check(h_.context, "f1,f1", nullptr), GRAFT_INVALID_ARGUMENT);
}

TEST_F(CSteps, StepsAreProfiled) {
  ASSERT_EQ(graft_profile_create(h_.context, 2, &profile_), GRAFT_OK) << h_.message();
  auto options = trainer_options();
  options.profile = profile_;
  open_on_data(options);
  int more = 1;
  while (more != 0) ASSERT_EQ(graft_train_next(h_.trainer, loader_, &more, nullptr), GRAFT_OK) << h_.message();
  auto info = sized<graft_profile_info>();
  ASSERT_EQ(graft_profile_describe(profile_, &info), GRAFT_OK) << h_.message();
  EXPECT_EQ(info.steps, 2u);
  EXPECT_GT(info.dispatches, 0u);
}

TEST_F(CSteps, ALateCheckpointIsAcknowledged) {
  auto options = trainer_options();
  options.checkpoints = 1;
  open_on_data(options);
  auto keep = sized<graft_checkpoint_options>();
  const std::string folder = folder_.file("late");
  keep.folder = folder.c_str();
  keep.late = 1;
  keep.loader = loader_;
  EXPECT_EQ(graft_checkpoint_acknowledge(h_.trainer), GRAFT_INVALID_ARGUMENT) << "none is open";
  ASSERT_EQ(graft_checkpoint_open(h_.trainer, &keep, nullptr), GRAFT_OK) << h_.message();
  int more = 0;
  ASSERT_EQ(graft_train_next(h_.trainer, loader_, &more, nullptr), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_checkpoint_acknowledge(h_.trainer), GRAFT_OK) << h_.message();
  auto state = sized<graft_checkpoint_state>();
  ASSERT_EQ(graft_checkpoint_describe(h_.trainer, &state), GRAFT_OK) << h_.message();
  EXPECT_EQ(state.replayed, 0u);
  EXPECT_GT(state.seconds, 0);
  ASSERT_EQ(graft_checkpoint_close(h_.trainer), GRAFT_OK) << h_.message();
  graft_store* store = nullptr;
  ASSERT_EQ(graft_store_open(h_.context, folder.c_str(), nullptr, &store), GRAFT_OK) << h_.message();
  auto info = sized<graft_store_info>();
  EXPECT_EQ(graft_store_describe(store, &info), GRAFT_OK);
  EXPECT_EQ(info.journalled_steps, 1u);
  graft_store_destroy(store);
}

TEST_F(CSteps, PartsOfASetAreSetsOfTheirOwn) {
  open_on_data(trainer_options());
  const std::uint64_t rows[] = {4, 1, 4};
  graft_data_set* part = nullptr;
  ASSERT_EQ(graft_data_select(set_, rows, 3, &part), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_data_samples(part), 3u);
  auto batches = sized<graft_loader_options>();
  batches.in_order = 1;
  graft_loader* reader = nullptr;
  EXPECT_EQ(graft_loader_create(part, &batches, &reader), GRAFT_INVALID_ARGUMENT) << "the whole has one";
  EXPECT_EQ(graft_evaluate_data(h_.trainer, part, nullptr), GRAFT_INVALID_ARGUMENT) << "the same";
  graft_loader_destroy(std::exchange(loader_, nullptr));
  ASSERT_EQ(graft_loader_create(part, &batches, &reader), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_loader_create(set_, &batches, &loader_), GRAFT_INVALID_ARGUMENT) << "the part has one";
  graft_data_destroy(std::exchange(set_, nullptr));  // the part keeps what it reads
  auto batch = sized<graft_batch>();
  ASSERT_EQ(graft_loader_next(reader, &batch), GRAFT_OK) << h_.message();
  ASSERT_EQ(batch.samples, 3u);
  const auto* const labels = static_cast<const std::int32_t*>(batch.fields[1]);
  EXPECT_EQ(std::vector<std::int32_t>(labels, labels + 3), (std::vector<std::int32_t>{1, 1, 1}));
  graft_loader_destroy(reader);
  ASSERT_EQ(graft_evaluate_data(h_.trainer, part, nullptr), GRAFT_OK) << h_.message();
  graft_data_set* none = part;
  const std::uint64_t beyond[] = {0, 3};
  EXPECT_EQ(graft_data_select(part, beyond, 2, &none), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(none, nullptr);
  EXPECT_NE(h_.message().find("no sample 3"), std::string::npos) << h_.message();
  EXPECT_EQ(graft_data_select(part, beyond, 0, &none), GRAFT_INVALID_ARGUMENT) << "none at all";
  graft_data_destroy(part);
}

TEST_F(CSteps, ASetIsSharedOut) {
  open_on_data(trainer_options());
  std::uint64_t rows[6] = {}, ends[4] = {};
  EXPECT_EQ(graft_data_split(set_, "iid", 4, 7, rows, ends), GRAFT_INVALID_ARGUMENT) << "its loader reads it";
  graft_loader_destroy(std::exchange(loader_, nullptr));
  for (const char* way : {"iid", "dirichlet=0.5", "shards=1"}) {
    ASSERT_EQ(graft_data_split(set_, way, 4, 7, rows, ends), GRAFT_OK) << h_.message();
    EXPECT_TRUE(std::is_sorted(ends, ends + 4)) << way;
    EXPECT_EQ(ends[3], 6u) << way;
    std::vector<std::uint64_t> all(rows, rows + 6), again(6);
    ASSERT_EQ(graft_data_split(set_, way, 4, 7, again.data(), ends), GRAFT_OK);
    EXPECT_EQ(again, all) << "the same seed";
    std::sort(all.begin(), all.end());
    EXPECT_EQ(all, (std::vector<std::uint64_t>{0, 1, 2, 3, 4, 5})) << way;
  }
  EXPECT_EQ(graft_data_split(set_, "fair", 4, 7, rows, ends), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_data_split(set_, "shards=2", 4, 7, rows, ends), GRAFT_INVALID_ARGUMENT) << "8 pieces of 6 samples";
  EXPECT_EQ(graft_data_split(set_, "iid", 0, 7, rows, ends), GRAFT_INVALID_ARGUMENT);
}

TEST_F(CSteps, ARestartedRunIsAFreshOne) {
  auto options = trainer_options();
  options.optimizer = GRAFT_ADAGRAD;  // whose state does not begin at zero
  options.initial_accumulator_value = 0.1;
  options.ema = 0.9;
  options.proximal = 0.1;
  open_on_data(options);
  const auto run = [&] {
    graft_loader_destroy(std::exchange(loader_, nullptr));
    auto batches = sized<graft_loader_options>();
    batches.batch = 4;
    batches.epochs = 2;
    EXPECT_EQ(graft_loader_create(set_, &batches, &loader_), GRAFT_OK) << h_.message();
    int more = 1;
    auto metrics = sized<graft_metrics>();
    std::vector<double> losses;
    while (graft_train_next(h_.trainer, loader_, &more, &metrics) == GRAFT_OK && more != 0) {
      losses.push_back(metrics.loss);
    }
    return losses;
  };
  const std::vector<double> first = run();
  ASSERT_EQ(first.size(), 4u) << h_.message();
  graft_model *trained = nullptr, *means = nullptr;
  ASSERT_EQ(graft_trainer_copy(h_.trainer, 0, &trained), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_trainer_copy(h_.trainer, 1, &means), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_trainer_restart(h_.trainer, nullptr), GRAFT_OK) << h_.message();
  auto step = sized<graft_step_info>();
  EXPECT_EQ(graft_trainer_last_step(h_.trainer, &step, nullptr), GRAFT_NOT_FOUND) << "none was taken yet";
  EXPECT_EQ(run(), first);
  graft_model* again = nullptr;
  ASSERT_EQ(graft_trainer_copy(h_.trainer, 1, &again), GRAFT_OK) << h_.message();
  EXPECT_EQ(run_model(again), run_model(means));
  ASSERT_EQ(graft_trainer_restart(h_.trainer, trained), GRAFT_OK) << h_.message();
  const std::vector<double> second = run();
  EXPECT_NE(second, first);
  EXPECT_LT(second.front(), first.front()) << "it knows already";
  for (graft_model* model : {trained, means, again}) graft_model_destroy(model);
}

TEST_F(CSteps, ARunIsNotRestartedByWhatDoesNotFit) {
  auto options = trainer_options();
  options.checkpoints = 1;
  open_on_data(options);
  graft_model* now = nullptr;
  ASSERT_EQ(graft_trainer_copy(h_.trainer, 0, &now), GRAFT_OK) << h_.message();
  graft_tensor_info parameter{};
  ASSERT_EQ(graft_trainer_parameter(h_.trainer, 0, &parameter), GRAFT_OK);
  const std::string name = parameter.name;
  std::size_t count = 1;
  for (std::uint32_t i = 0; i < parameter.rank; ++i) count *= static_cast<std::size_t>(parameter.dims[i]);
  const auto trained = [&] {
    std::vector<float> all(count);
    EXPECT_EQ(graft_trainer_read(h_.trainer, name.c_str(), all.data(), 4 * count, nullptr), GRAFT_OK) << h_.message();
    return all;
  };
  const std::vector<float> before = trained();
  EXPECT_EQ(graft_trainer_restart(nullptr, now), GRAFT_INVALID_ARGUMENT);
  graft_model* other = nullptr;
  const std::string path = folder_.file("other.graft");
  write_model(tiny_mlp(kInputs, 7, kClasses), path);
  ASSERT_EQ(graft_model_load(h_.context, path.c_str(), &other), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_trainer_restart(h_.trainer, other), GRAFT_INVALID_ARGUMENT);
  EXPECT_NE(h_.message().find(" in the model"), std::string::npos) << h_.message();
  graft_model_destroy(other);
  int more = 0, done = 1;
  ASSERT_EQ(graft_train_next_part(h_.trainer, loader_, &more, &done), GRAFT_OK) << h_.message();
  ASSERT_EQ(done, 0);
  EXPECT_EQ(graft_trainer_restart(h_.trainer, now), GRAFT_INVALID_ARGUMENT) << "a step is half done";
  ASSERT_EQ(graft_train_next_part(h_.trainer, loader_, &more, &done), GRAFT_OK) << h_.message();
  ASSERT_EQ(done, 1) << "and goes on";
  auto keep = sized<graft_checkpoint_options>();
  const std::string folder = folder_.file("kept");
  keep.folder = folder.c_str();
  keep.loader = loader_;
  ASSERT_EQ(graft_checkpoint_open(h_.trainer, &keep, nullptr), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_trainer_restart(h_.trainer, now), GRAFT_INVALID_ARGUMENT);
  EXPECT_NE(h_.message().find("keeps a checkpoint"), std::string::npos) << h_.message();
  ASSERT_EQ(graft_checkpoint_close(h_.trainer), GRAFT_OK) << h_.message();
  EXPECT_NE(trained(), before) << "what was refused changed nothing";
  ASSERT_EQ(graft_trainer_restart(h_.trainer, now), GRAFT_OK) << h_.message();
  EXPECT_EQ(trained(), before);
  graft_model_destroy(now);
}

TEST_F(CSteps, ASetIsNarrowedAndAnAnonymousLoaderIsRefused) {
  auto options = trainer_options();
  options.checkpoints = 1;
  open_on_data(options);
  EXPECT_EQ(graft_data_narrow(set_, 0, 2), GRAFT_INVALID_ARGUMENT) << "its loader reads it";
  graft_loader_destroy(std::exchange(loader_, nullptr));
  EXPECT_EQ(graft_data_narrow(set_, 4, 3), GRAFT_INVALID_ARGUMENT) << "there are 6";
  ASSERT_EQ(graft_data_narrow(set_, 4, 2), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_data_samples(set_), 2u);
  auto batches = sized<graft_loader_options>();
  batches.anonymous = 1;
  batches.in_order = 1;
  ASSERT_EQ(graft_loader_create(set_, &batches, &loader_), GRAFT_OK) << h_.message();
  auto batch = sized<graft_batch>();
  ASSERT_EQ(graft_loader_next(loader_, &batch), GRAFT_OK);
  EXPECT_EQ(batch.samples, 2u);
  EXPECT_EQ(*static_cast<const std::int32_t*>(batch.fields[1]), 1) << "the fifth sample's label";
  auto keep = sized<graft_checkpoint_options>();
  const std::string folder = folder_.file("kept");
  keep.folder = folder.c_str();
  keep.loader = loader_;
  EXPECT_EQ(graft_checkpoint_open(h_.trainer, &keep, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_NE(h_.message().find("anonymous"), std::string::npos) << h_.message();
}

}  // namespace
}  // namespace graft::test::c_api_steps_test
