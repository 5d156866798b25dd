// ctest: slow
// What a run that is kept in a store does where something fails, is missing, or begins with the weights of another.
#include <algorithm>

#include "tests/support/fault_files.h"
#include "tests/support/kept_run.h"

namespace graft::test::kept_rules_test {
namespace {

class KeptRules : public TrainerTest {
 protected:
  CheckpointOptions in_folder(std::uint64_t every = 0) {
    CheckpointOptions options;
    options.folder = folder_.file("store");
    options.every = every;
    options.resume = true;
    options.report = [this](const std::string& text) { reports_.push_back(text); };
    return options;
  }
  bool reported(const char* what) const {
    return std::ranges::any_of(reports_, [&](const std::string& text) { return contains(text, what); });
  }
  static std::uint64_t newest(KeptRun& run) {
    const auto& store = run.checkpointer->store();
    return store.snapshots().at(store.head()).meta.step;
  }

  TemporaryFolder folder_;
  std::vector<std::string> reports_;
};

/// Whichever of its file calls fails: the next attempt follows after a step, though no snapshot is due then.
TEST_F(KeptRules, ASnapshotThatFailedIsTakenAgain) {
  FaultFiles files;
  KeptRun run;
  std::uint64_t k = 1;
  for (;; ++k) {
    CheckpointOptions options = in_folder(4);
    options.folder += cat(k);
    ASSERT_TRUE(run.open(options, files).ok());
    ASSERT_TRUE(run.run_to(3).ok());
    reports_.clear();
    files.state = {};
    files.state.fail_call = k;
    files.state.keep_failing = true;
    EXPECT_TRUE(run.run_to(4).ok()) << "training goes on";
    const bool failed = newest(run) == 0;
    files.state = {};
    if (!failed) break;
    EXPECT_TRUE(reported("The last snapshot is as it was.")) << k;
    EXPECT_FALSE(run.checkpointer->flush().ok()) << "what failed last is not forgotten, call " << k;
    ASSERT_TRUE(run.run_to(5).ok());
    EXPECT_EQ(newest(run), 5u) << "call " << k;
    EXPECT_TRUE(run.checkpointer->flush().ok());
  }
  EXPECT_GT(k, 5u);
  // After the second failure two steps pass.
  CheckpointOptions options = in_folder(4);
  ASSERT_TRUE(run.open(options, files).ok());
  ASSERT_TRUE(run.run_to(3).ok());
  files.state = {};
  files.state.fail_call = 1;
  files.state.keep_failing = true;
  ASSERT_TRUE(run.run_to(5).ok());
  EXPECT_EQ(newest(run), 0u);
  files.state = {};
  ASSERT_TRUE(run.run_to(6).ok());
  EXPECT_EQ(newest(run), 0u);
  ASSERT_TRUE(run.run_to(7).ok());
  EXPECT_EQ(newest(run), 7u);
}

TEST_F(KeptRules, WhatIsNotSyncedIsSaid) {
  FaultFiles files;
  KeptRun run;
  CheckpointOptions options = in_folder();
  options.journal.every = 100;
  ASSERT_TRUE(run.open(options, files).ok());
  ASSERT_TRUE(run.run_to(2).ok());
  files.state.keep_failing = true;
  files.state.fail_call = files.state.calls + 1;
  EXPECT_FALSE(run.checkpointer->flush().ok()) << "two records are not on storage";
  files.state = {};

  // The thread's, after the step.
  bool failed_sync = false;
  for (std::uint64_t k = 1; k < 8 && !failed_sync; ++k) {
    CheckpointOptions late = in_folder();
    late.folder += cat(k);
    late.late_sync = true;
    ASSERT_TRUE(run.open(late, files).ok());
    ASSERT_TRUE(run.run_to(1).ok());
    run.checkpointer->acknowledge();
    reports_.clear();
    files.state = {};
    files.state.fail_call = k;
    ASSERT_TRUE(run.run_to(2).ok());
    run.checkpointer->acknowledge();
    failed_sync = files.state.failed == "sync";
    if (failed_sync) EXPECT_TRUE(reported("The last snapshot is as it was.")) << k;
    files.state = {};
    run.checkpointer.reset();
  }
  EXPECT_TRUE(failed_sync);
}

/// A worker goes on with the store of another, whose journal lacks a step that this one has taken.
TEST_F(KeptRules, AJournalWithAGapIsFollowedByASnapshot) {
  for (const bool gap : {false, true}) {
    CheckpointOptions options = in_folder();
    options.folder += gap ? "1" : "2";
    KeptRun run;
    ASSERT_TRUE(run.open(options).ok());
    for (std::uint64_t step = 1; step <= 3; ++step) {
      std::optional<train::StepResult> result;
      const data::Batch* const batch = run.loader->next().value();
      while (!result) result = run.trainer->micro_step(*batch).value();
      if (!gap || step != 2) ASSERT_TRUE(run.checkpointer->record(*result).ok());
    }
    run.checkpointer.reset();
    auto opened =
        Checkpointer::open(os::system_files(), options, *run.trainer, run.model, configuration_of(*run.trainer));
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    run.checkpointer = std::move(*opened);
    ASSERT_TRUE(run.checkpointer->take_over(run.loader.get()).ok());
    EXPECT_EQ(newest(run), gap ? 3u : 0u);
  }
}

/// The store of a worker that is gone: another goes on with it.
TEST_F(KeptRules, WhoTakesAStoreOverHasItsState) {
  Contents newest_contents;
  {
    KeptRun gone;
    ASSERT_TRUE(gone.open(in_folder()).ok());
    ASSERT_TRUE(gone.run_to(3).ok());
    ASSERT_TRUE(gone.checkpointer->save().ok());
    newest_contents = contents_of(*gone.trainer);
    ASSERT_TRUE(gone.run_to(4).ok());
  }
  const auto take_over = [&](KeptRun& run) -> Status {
    run.checkpointer.reset();
    GRAFT_TRY_ASSIGN(run.checkpointer, Checkpointer::open(os::system_files(), in_folder(), *run.trainer, run.model,
                                                          configuration_of(*run.trainer)));
    return run.checkpointer->take_over(run.loader.get());
  };
  KeptRun behind;
  behind.start();
  ASSERT_TRUE(behind.run_to(2).ok());
  const Status taken = take_over(behind);
  ASSERT_TRUE(taken.ok()) << taken.message();
  EXPECT_EQ(behind.trainer->state().step, 3u) << "the snapshot is newer than what it has";
  EXPECT_EQ(contents_of(*behind.trainer), newest_contents);
  behind.checkpointer.reset();

  KeptRun other;
  other.start();
  ASSERT_TRUE(other.run_to(4).ok());
  std::vector<float> bias(4);
  const auto bytes = std::as_writable_bytes(std::span(bias));
  ASSERT_TRUE(other.trainer->read("conv.bias", bytes).ok());
  bias[0] += 1;
  ASSERT_TRUE(other.trainer->write("conv.bias", bytes).ok());
  EXPECT_TRUE(contains(take_over(other).message(), "it is another run's")) << "the journal has step 4 of another run";
}

/// What an evaluation has changed is part of the run's state.
TEST_F(KeptRules, TheRateAndTheMonitorsComeBack) {
  train::TrainingState state;
  {
    KeptRun run;
    ASSERT_TRUE(run.open(in_folder()).ok());
    ASSERT_TRUE(run.run_to(2).ok());
    run.trainer->state().monitors[1] = {.best = 0.5, .best_step = 2, .waited = 1, .seen = 3};
    run.trainer->state().evaluated_at = 2;
    ASSERT_TRUE(run.trainer->set_learning_rate(0.00125).ok());
    ASSERT_TRUE(run.checkpointer->save().ok());
    state = run.trainer->state();
  }
  KeptRun run;
  ASSERT_TRUE(run.open(in_folder()).ok());
  EXPECT_EQ(run.trainer->state(), state);
  EXPECT_EQ(run.trainer->options().optimizer.learning_rate, 0.00125);
}

/// Means over weighted rows go on with their weights, of the epoch and of a step that is half done.
TEST_F(KeptRules, AnEpochsMetricsKeepTheirWeights) {
  train::TrainingState state;
  const auto weighted = [](KeptRun& run) { run.options.loss.class_weights = {1, 5, 0.25}; };
  {
    KeptRun run;
    weighted(run);
    ASSERT_TRUE(run.open(in_folder()).ok());
    ASSERT_TRUE(run.run_to(2, 1).ok());
    ASSERT_TRUE(run.checkpointer->save().ok());
    state = run.trainer->state();
    EXPECT_NE(state.epoch_metrics.weight, static_cast<double>(state.epoch_metrics.count));
  }
  KeptRun run;
  weighted(run);
  ASSERT_TRUE(run.open(in_folder()).ok());
  EXPECT_EQ(run.trainer->state().epoch_metrics, state.epoch_metrics);
  EXPECT_EQ(run.trainer->state().step_metrics, state.step_metrics);
}

/// Running means and what a proximal term pulls to begin at the weights that were taken, as in a run that began there.
TEST_F(KeptRules, AWarmStartBeginsMeansAndAnchorAnew) {
  TinyModel trained = tiny_cnn(3, 0.4);
  KeptRun first;
  ASSERT_TRUE(first.open(in_folder()).ok());
  ASSERT_TRUE(first.run_to(5).ok());
  ASSERT_TRUE(first.checkpointer->save().ok());
  const Contents contents = contents_of(*first.trainer);
  for (auto& [name, values] : trained.weights) values = contents.at(name);
  const std::uint64_t number = first.checkpointer->store().head();
  first.checkpointer.reset();
  const auto store = checkpoint::Store::open(os::system_files(), folder_.file("store"), {});
  ASSERT_TRUE(store.ok());
  for (const auto& [ema, proximal] : {std::pair(0.5, 0.0), std::pair(0.0, 0.3)}) {
    const auto ready = [&](KeptRun& run) {
      run.options.optimizer.ema = ema;
      run.options.optimizer.proximal = proximal;
      run.start();
    };
    KeptRun warm, there(trained);
    ready(warm);
    ready(there);
    ASSERT_TRUE(warm_start(*store, number, *warm.trainer).ok());
    ASSERT_TRUE(warm.run_to(3).ok());
    ASSERT_TRUE(there.run_to(3).ok());
    EXPECT_EQ(contents_of(*warm.trainer), contents_of(*there.trainer)) << ema << ' ' << proximal;
  }
}

}  // namespace
}  // namespace graft::test::kept_rules_test
