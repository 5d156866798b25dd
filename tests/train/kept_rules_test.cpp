// ctest: slow
// What a run that is kept in a store does where something fails, is missing, or begins with the weights of another.
#include <algorithm>
#include <cmath>

#include "tests/support/files/fault_files.h"
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
    EXPECT_TRUE(run.checkpointer->wants_whole_state()) << "the next step is to bring what the next attempt needs";
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

  // With each step, if nothing else was asked for, or with each second one: the step's own record() says so.
  for (const std::uint64_t every : {1, 2}) {
    bool failed_within = false;
    for (std::uint64_t k = 1; k < 8 && !failed_within; ++k) {
      CheckpointOptions each = in_folder();
      each.journal.every = every;
      each.folder += cat("each", every, '-', k);
      ASSERT_TRUE(run.open(each, files).ok());
      ASSERT_TRUE(run.run_to(1).ok());
      reports_.clear();
      files.state = {};
      files.state.fail_call = k;
      ASSERT_TRUE(run.run_to(2).ok());
      failed_within = files.state.failed == "sync";
      if (failed_within) {
        EXPECT_TRUE(reported("The last snapshot is as it was.")) << k;
      }
      files.state = {};
      run.checkpointer.reset();
    }
    EXPECT_TRUE(failed_within) << every;
  }

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
    if (failed_sync) {
      EXPECT_TRUE(reported("The last snapshot is as it was.")) << k;
    }
    files.state = {};
    run.checkpointer.reset();
  }
  EXPECT_TRUE(failed_sync);
}

/// A worker continues with the store of another, whose journal lacks a step that this one has taken: one in between, or
/// the last.
TEST_F(KeptRules, AJournalWithAGapIsFollowedByASnapshot) {
  for (const std::uint64_t missing : {0, 2, 3}) {
    CheckpointOptions options = in_folder();
    options.folder += cat(missing);
    KeptRun run;
    ASSERT_TRUE(run.open(options).ok());
    for (std::uint64_t step = 1; step <= 3; ++step) {
      std::optional<train::StepResult> result;
      const data::Batch* const batch = run.loader->next().value();
      while (!result) result = run.trainer->micro_step(*batch).value();
      if (step != missing) {
        ASSERT_TRUE(run.checkpointer->record(*result).ok());
      }
    }
    run.checkpointer.reset();
    auto opened =
        Checkpointer::open(os::system_files(), options, *run.trainer, run.model, configuration_of(*run.trainer));
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    run.checkpointer = std::move(*opened);
    ASSERT_TRUE(run.checkpointer->take_over(run.loader.get()).ok());
    EXPECT_EQ(newest(run), missing != 0 ? 3u : 0u);
  }
}

/// As above, with journalled steps after the worker's step: the records after the gap are of no use either.
TEST_F(KeptRules, WhatComesBehindAGapIsJournalledAgain) {
  {
    KeptRun gone;
    ASSERT_TRUE(gone.open(in_folder()).ok());
    for (std::uint64_t step = 1; step <= 4; ++step) {
      std::optional<train::StepResult> result;
      const data::Batch* const batch = gone.loader->next().value();
      while (!result) result = gone.trainer->micro_step(*batch).value();
      if (step != 2) {
        ASSERT_TRUE(gone.checkpointer->record(*result).ok());
      }
    }
  }
  KeptRun run;
  run.start();
  ASSERT_TRUE(run.run_to(3).ok());
  auto opened =
      Checkpointer::open(os::system_files(), in_folder(), *run.trainer, run.model, configuration_of(*run.trainer));
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  run.checkpointer = std::move(*opened);
  ASSERT_TRUE(run.checkpointer->take_over(run.loader.get()).ok());
  EXPECT_EQ(newest(run), 3u);
  EXPECT_EQ(run.checkpointer->to_replay(), 0u);
  ASSERT_TRUE(run.run_to(4).ok());
  const auto& journal = run.checkpointer->store().journal();
  ASSERT_EQ(journal.size(), 1u);
  EXPECT_EQ(journal[0].step, 4u);
}

/// Of the steps behind a snapshot that a run goes back to, or on from with other options, none is compared.
TEST_F(KeptRules, AJournalIsOnlyFollowedByTheRunThatItIsOf) {
  for (const bool changes : {false, true}) {
    CheckpointOptions options = in_folder(4);
    options.folder += changes ? "1" : "2";
    {
      KeptRun run;
      ASSERT_TRUE(run.open(options).ok());
      ASSERT_TRUE(run.run_to(4).ok());
      ASSERT_TRUE(run.checkpointer->save("fourth").ok());
      ASSERT_TRUE(run.run_to(6).ok());
    }
    KeptRun run;
    if (changes) run.options.optimizer.learning_rate = 0.5;
    options.with_changes = changes;
    if (!changes) options.from = "fourth";
    ASSERT_TRUE(run.open(options).ok());
    EXPECT_EQ(run.trainer->state().step, 4u);
    EXPECT_EQ(run.checkpointer->to_replay(), 0u);
    EXPECT_TRUE(run.run_to(6).ok());
  }
}

/// While steps are run again: a save would lose the journal of those to come, and a tag is not left out in silence.
TEST_F(KeptRules, NoSnapshotIsTakenBeforeTheJournalIsRunAgain) {
  {
    KeptRun run;
    ASSERT_TRUE(run.open(in_folder(4)).ok());
    ASSERT_TRUE(run.run_to(6).ok());
  }
  KeptRun run;
  ASSERT_TRUE(run.open(in_folder(1)).ok());
  ASSERT_TRUE(run.checkpointer->save("fourth").ok()) << "the snapshot that it went on from";
  const auto head = run.checkpointer->store().head();
  EXPECT_EQ(run.checkpointer->store().find_tag("fourth"), head);
  ASSERT_TRUE(run.run_to(5).ok());
  ASSERT_TRUE(run.checkpointer->save().ok());
  EXPECT_EQ(run.checkpointer->store().head(), head);
  EXPECT_EQ(run.checkpointer->store().journal().size(), 2u);
  const Status tagged = run.checkpointer->save("fifth");
  EXPECT_EQ(tagged.code(), Code::invalid_argument);
  EXPECT_TRUE(contains(tagged.message(), "Step 5 is run again")) << tagged.message();
  ASSERT_TRUE(run.run_to(6).ok());
  EXPECT_EQ(newest(run), 6u);
  EXPECT_EQ(run.checkpointer->skipped(), 0u) << "a snapshot of step 5 was never to be";
}

/// Where nothing has happened since, nothing is written; what is written without a step has the loss of the last one.
TEST_F(KeptRules, AResumedRunThatIsSavedHasItsSnapshot) {
  double loss = 0;
  {
    KeptRun run;
    ASSERT_TRUE(run.open(in_folder()).ok());
    ASSERT_TRUE(run.run_to(2).ok());
    ASSERT_TRUE(run.checkpointer->save().ok());
    const auto& store = run.checkpointer->store();
    loss = store.snapshots().at(store.head()).meta.loss;
    EXPECT_GT(loss, 0);
  }
  KeptRun run;
  ASSERT_TRUE(run.open(in_folder()).ok());
  const std::size_t snapshots = run.checkpointer->store().snapshots().size();
  ASSERT_TRUE(run.checkpointer->save().ok());
  EXPECT_EQ(run.checkpointer->store().snapshots().size(), snapshots);
  ASSERT_TRUE(run.checkpointer->save_change().ok());
  const auto& store = run.checkpointer->store();
  EXPECT_EQ(store.snapshots().size(), snapshots + 1);
  EXPECT_EQ(store.snapshots().at(store.head()).meta.loss, loss);
}

/// Snapshots go as new ones come, and only those.
TEST_F(KeptRules, NoMoreSnapshotsStayThanAreToBeKept) {
  CheckpointOptions options = in_folder();
  options.keep = 2;
  KeptRun run;
  ASSERT_TRUE(run.open(options).ok());
  for (std::uint64_t step = 1; step <= 4; ++step) {
    ASSERT_TRUE(run.run_to(step).ok());
    ASSERT_TRUE(run.checkpointer->save(step == 1 ? "first" : "").ok());
  }
  std::vector<std::uint64_t> steps;
  for (const auto& [number, snapshot] : run.checkpointer->store().snapshots()) steps.push_back(snapshot.meta.step);
  EXPECT_EQ(steps, (std::vector<std::uint64_t>{1, 3, 4}));
}

/// What makes other numbers is another configuration, whether the snapshot has it or the run.
TEST_F(KeptRules, AllThatChangesARunIsCompared) {
  using Change = std::pair<const char*, void (*)(train::TrainOptions&)>;
  const Change changes[] = {
      {"statistics", [](train::TrainOptions& o) { o.batch_norm_momentum = 0.3; }},
      {"schedule", [](train::TrainOptions& o) { o.schedule.total_steps = 30; }},
      {"schedule",
       [](train::TrainOptions& o) { o.schedule = {.kind = train::ScheduleKind::one_cycle, .total_steps = 20}; }},
      {"clipping", [](train::TrainOptions& o) { o.clip_norm = 2; }},
      {"seed", [](train::TrainOptions& o) { o.seed = 4; }},
      {"micro_batch", [](train::TrainOptions& o) { o.micro_batch = 3; }},
      {"loss", [](train::TrainOptions& o) { o.loss.label_smoothing = 0.1; }},
      {"loss",
       [](train::TrainOptions& o) {
         o.loss.class_weights = {1, 2, 3};
       }},
      {"freeze", [](train::TrainOptions& o) { o.freeze = {"fc.weight"}; }},
      {"groups", [](train::TrainOptions& o) { o.groups = {{.pattern = "fc.*", .learning_rate_scale = 0.5}}; }}};
  KeptRun usual;
  usual.start();
  const Configuration before = configuration_of(*usual.trainer);
  for (const auto& [name, change] : changes) {
    KeptRun run;
    change(run.options);
    run.start();
    Configuration now = configuration_of(*run.trainer);
    EXPECT_NE(now[name], before.contains(name) ? before.at(name) : "") << name;
    now.erase(name);
    Configuration others = before;
    others.erase(name);
    EXPECT_EQ(now, others) << name;
  }
  // A longer cycle is another one.
  KeptRun cycle, longer;
  for (auto* run : {&cycle, &longer}) {
    run->options.schedule = {.kind = train::ScheduleKind::one_cycle, .total_steps = run == &cycle ? 20u : 30u};
    run->start();
  }
  EXPECT_NE(configuration_of(*cycle.trainer)["schedule"], configuration_of(*longer.trainer)["schedule"]);
  cycle.trainer.reset();
  longer.trainer.reset();
  usual.trainer.reset();

  CheckpointOptions options = in_folder();
  {
    KeptRun run;
    ASSERT_TRUE(run.open(options).ok());
  }
  KeptRun frozen;
  frozen.options.freeze = {"fc.weight"};
  EXPECT_TRUE(contains(frozen.open(options).message(), "another freeze")) << "what only the run has counts, too";
}

/// A snapshot whose parameters are no numbers is only gone on from if that was asked for.
TEST_F(KeptRules, ARunGoesOnFromTheNewestFiniteSnapshot) {
  {
    KeptRun run;
    CheckpointOptions options = in_folder();
    options.allow_non_finite = true;
    ASSERT_TRUE(run.open(options).ok());
    ASSERT_TRUE(run.run_to(1).ok());
    ASSERT_TRUE(run.checkpointer->save().ok());
    std::vector<float> bias(4, std::nanf(""));
    ASSERT_TRUE(run.trainer->write("conv.bias", std::as_bytes(std::span(bias))).ok());
    ASSERT_TRUE(run.checkpointer->save_change().ok());
    ASSERT_TRUE(run.checkpointer->save("bad").ok());
  }
  CheckpointOptions options = in_folder();
  options.from = "bad";
  KeptRun run;
  EXPECT_TRUE(contains(run.open(options).message(), "that is finite is")) << "it was asked for by name";
  options.from.clear();
  reports_.clear();
  ASSERT_TRUE(run.open(options).ok());
  EXPECT_TRUE(reported("the newest that is finite"));
  std::vector<float> bias(4);
  ASSERT_TRUE(run.trainer->read("conv.bias", std::as_writable_bytes(std::span(bias))).ok());
  EXPECT_FALSE(std::isnan(bias[0]));
  bias[0] = std::nanf("");
  ASSERT_TRUE(run.trainer->write("conv.bias", std::as_bytes(std::span(bias))).ok());
  EXPECT_FALSE(run.checkpointer->save_change().ok()) << "none is written either";
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
    run.checkpointer->user_data()[9] = {std::byte{1}};
    return run.checkpointer->take_over(run.loader.get());
  };
  KeptRun behind;
  behind.start();
  ASSERT_TRUE(behind.run_to(2).ok());
  const Status taken = take_over(behind);
  ASSERT_TRUE(taken.ok()) << taken.message();
  EXPECT_EQ(behind.trainer->state().step, 3u) << "the snapshot is newer than what it has";
  EXPECT_EQ(contents_of(*behind.trainer), newest_contents);
  EXPECT_TRUE(behind.checkpointer->user_data().empty()) << "the snapshot has none";
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
  // The rate of a command that says another one holds.
  KeptRun other;
  other.options.optimizer.learning_rate = 0.5;
  CheckpointOptions changed = in_folder();
  changed.with_changes = true;
  run.checkpointer.reset();
  ASSERT_TRUE(other.open(changed).ok());
  EXPECT_EQ(other.trainer->options().optimizer.learning_rate, 0.5);
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
    EXPECT_GT(state.epoch_metrics.weight, 0);
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
