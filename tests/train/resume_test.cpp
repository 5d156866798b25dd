// ctest: slow
// k steps, a snapshot, a resume and n steps are k + n steps, byte for byte: in the middle of an epoch and of an
// accumulation, with dropout, batch norm, shuffling, a schedule and AdamW.
#include <algorithm>

#include "tests/support/kept_run.h"

namespace graft::test::resume_test {
namespace {

constexpr std::uint64_t kSteps = 11;

class Resume : public TrainerTest {
 protected:
  CheckpointOptions in_folder(std::uint64_t every = 0) {
    CheckpointOptions options;
    options.folder = folder_.file("store");
    options.every = every;
    options.resume = true;
    options.report = [this](const std::string& text) { reports_.push_back(text); };
    return options;
  }
  /// What the run gives that nothing interrupts.
  static Contents whole(std::uint64_t steps = kSteps) {
    KeptRun run;
    run.start();
    EXPECT_TRUE(run.run_to(steps).ok());
    return contents_of(*run.trainer);
  }

  TemporaryFolder folder_;
  std::vector<std::string> reports_;
};

TEST_F(Resume, IsExactAnywhereInAnEpochAndInAnAccumulation) {
  const Contents expected = whole();
  struct Stop {
    std::uint64_t steps;
    int pieces;
  };
  int number = 0;
  for (const Stop stop : {Stop{1, 0}, Stop{4, 0}, Stop{6, 0}, Stop{0, 1}, Stop{5, 1}, Stop{5, 2}, Stop{9, 2}}) {
    SCOPED_TRACE(cat(stop.steps, " steps and ", stop.pieces, " micro-batches"));
    CheckpointOptions options = in_folder();
    options.folder = folder_.file(cat("store", number++));
    Contents accumulators;
    {
      KeptRun run;
      ASSERT_TRUE(run.open(options).ok());
      ASSERT_TRUE(run.run_to(stop.steps, stop.pieces).ok());
      EXPECT_EQ(run.trainer->state().samples_done, 2u * static_cast<unsigned>(stop.pieces));
      ASSERT_TRUE(run.checkpointer->save().ok());
      accumulators = contents_of(*run.trainer);
    }
    KeptRun run;
    const Status opened = run.open(options);
    ASSERT_TRUE(opened.ok()) << opened.message();
    EXPECT_EQ(run.trainer->state().step, stop.steps);
    EXPECT_EQ(run.trainer->state().samples_done, 2u * static_cast<unsigned>(stop.pieces));
    EXPECT_EQ(contents_of(*run.trainer), accumulators);
    const std::vector<float>& sums = accumulators.at("conv.weight/gradient");
    EXPECT_EQ(std::any_of(sums.begin(), sums.end(), [](float x) { return x != 0; }), stop.pieces > 0);
    const Status ran = run.run_to(kSteps);
    ASSERT_TRUE(ran.ok()) << ran.message();
    EXPECT_EQ(contents_of(*run.trainer), expected);
  }
  EXPECT_TRUE(reports_.empty()) << reports_.front();
}

TEST_F(Resume, RunsTheJournalAgainAndComparesIt) {
  const Contents expected = whole();
  {
    KeptRun run;
    ASSERT_TRUE(run.open(in_folder(4)).ok());
    ASSERT_TRUE(run.run_to(6).ok());  // a snapshot of step 4, and a journal of two or more
  }
  KeptRun run;
  ASSERT_TRUE(run.open(in_folder(4)).ok());
  EXPECT_EQ(run.trainer->state().step, 4u);
  EXPECT_EQ(run.checkpointer->to_replay(), 2u);
  ASSERT_TRUE(run.run_to(kSteps).ok());
  EXPECT_EQ(run.checkpointer->replayed(), 2u);
  EXPECT_EQ(contents_of(*run.trainer), expected);
}

// Another driver rounds otherwise: here a running mean is off by eight units in the last place, which no loss shows.
TEST_F(Resume, NoticesWhatNoLossShows) {
  for (const bool stop : {true, false}) {
    CheckpointOptions options = in_folder(4);
    options.folder += stop ? "1" : "2";
    options.stop_on_mismatch = stop;
    {
      KeptRun run;
      ASSERT_TRUE(run.open(options).ok());
      ASSERT_TRUE(run.run_to(6).ok());
    }
    KeptRun run;
    ASSERT_TRUE(run.open(options).ok());
    std::vector<std::uint32_t> weights(4);
    const auto bytes = std::as_writable_bytes(std::span(weights));
    ASSERT_TRUE(run.trainer->read("bn.running_mean", bytes).ok());
    weights[1] ^= 8;
    ASSERT_TRUE(run.trainer->write("bn.running_mean", bytes).ok());
    const Status ran = run.run_to(5);
    EXPECT_EQ(ran.ok(), !stop);
    if (stop) {
      EXPECT_TRUE(contains(ran.message(), "Step 5 gives another result")) << ran.message();
      EXPECT_TRUE(contains(ran.message(), "(the parameters)")) << ran.message();
      run.checkpointer.reset();  // nothing of what the journal held is gone
      KeptRun again;
      ASSERT_TRUE(again.open(options).ok());
      EXPECT_TRUE(again.run_to(kSteps).ok());
      EXPECT_EQ(contents_of(*again.trainer), whole());
    } else {
      ASSERT_EQ(reports_.size(), 1u);
      EXPECT_TRUE(contains(reports_[0], "goes on from the last snapshot")) << reports_[0];
      const auto& store = run.checkpointer->store();
      EXPECT_EQ(store.snapshots().at(store.head()).meta.step, 5u) << "what the journal lacks now is in a snapshot";
      ASSERT_TRUE(run.run_to(7).ok());
      const Contents here = contents_of(*run.trainer);
      ASSERT_TRUE(run.checkpointer->save().ok());
      KeptRun again;
      run.checkpointer.reset();
      ASSERT_TRUE(again.open(options).ok());
      EXPECT_EQ(contents_of(*again.trainer), here);
    }
  }
}

TEST_F(Resume, GoesBackToAKeptSnapshotAndBranches) {
  {
    KeptRun run;
    ASSERT_TRUE(run.open(in_folder()).ok());
    ASSERT_TRUE(run.run_to(3).ok());
    ASSERT_TRUE(run.checkpointer->save("third").ok());
    ASSERT_TRUE(run.run_to(8).ok());
    ASSERT_TRUE(run.checkpointer->save("eighth").ok());
    ASSERT_TRUE(run.checkpointer->save("best").ok()) << "a tag for what is there already";
  }
  CheckpointOptions options = in_folder();
  options.from = "third";
  {
    KeptRun run;
    ASSERT_TRUE(run.open(options).ok());
    EXPECT_EQ(run.trainer->state().step, 3u);
    ASSERT_TRUE(run.run_to(kSteps).ok());
    EXPECT_EQ(contents_of(*run.trainer), whole());
  }
  {
    KeptRun other;
    other.options.optimizer.learning_rate = 0.5;
    const Status refused = other.open(options);
    EXPECT_TRUE(contains(refused.message(), "another optimizer")) << refused.message();
    options.with_changes = true;
    ASSERT_TRUE(other.open(options).ok());
    ASSERT_EQ(reports_.size(), 1u);
    ASSERT_TRUE(other.run_to(kSteps).ok());
    EXPECT_NE(contents_of(*other.trainer), whole());
  }
  options.from = "fourth";
  KeptRun run;
  EXPECT_TRUE(contains(run.open(options).message(), "no snapshot \"fourth\""));
  options.from = "best";
  ASSERT_TRUE(run.open(options).ok());
  EXPECT_EQ(run.trainer->state().step, 8u) << "the old branch is still there";
}

TEST_F(Resume, RefusesAnotherModelAndOtherFrozenWeights) {
  {
    KeptRun run;
    run.options.freeze = {"conv.*"};
    ASSERT_TRUE(run.open(in_folder()).ok());
  }
  CheckpointOptions options = in_folder();
  KeptRun more(tiny_cnn(4, 0.4));
  more.options.freeze = {"conv.*"};
  EXPECT_TRUE(contains(more.open(options).message(), "another model"));
  options.with_changes = true;
  EXPECT_TRUE(contains(more.open(options).message(), "another model")) << "no change makes up for that";
  options.with_changes = false;
  KeptRun thawed;
  EXPECT_TRUE(contains(thawed.open(options).message(), "another freeze")) << "what only the snapshot has counts, too";
  TinyModel tiny = tiny_cnn(3, 0.4);
  tiny.weights.at("conv.weight")[0] += 1;
  KeptRun frozen(tiny);
  frozen.options.freeze = {"conv.*"};
  const Status refused = frozen.open(options);
  EXPECT_TRUE(contains(refused.message(), "another frozen weight \"conv.weight\"")) << refused.message();
  options.resume = false;
  KeptRun run;
  run.options.freeze = {"conv.*"};
  EXPECT_TRUE(contains(run.open(options).message(), "resume it, or take another folder"));
}

TEST_F(Resume, AWarmStartTakesTheWeightsAlone) {
  Contents trained;
  std::uint64_t number = 0;
  {
    KeptRun run;
    ASSERT_TRUE(run.open(in_folder()).ok());
    run.checkpointer->user_data()[2] = std::vector<std::byte>(5, std::byte{7});
    ASSERT_TRUE(run.run_to(5).ok());
    ASSERT_TRUE(run.checkpointer->save().ok());
    trained = contents_of(*run.trainer);
    number = run.checkpointer->store().head();
  }
  {
    const auto store = checkpoint::Store::open(os::system_files(), folder_.file("store"), {});
    ASSERT_TRUE(store.ok());
    KeptRun run;
    run.options.optimizer = {.kind = train::OptimizerKind::sgd, .learning_rate = 0.1};
    run.start();
    const Status warm = warm_start(*store, number, *run.trainer);
    ASSERT_TRUE(warm.ok()) << warm.message();
    EXPECT_EQ(run.trainer->state().step, 0u);
    for (const char* name : {"conv.weight", "fc.weight", "bn.running_mean"}) {
      EXPECT_EQ(contents_of(*run.trainer).at(name), trained.at(name)) << name;
    }
    KeptRun other(tiny_cnn(4));
    other.start();
    EXPECT_TRUE(contains(warm_start(*store, number, *other.trainer).message(), "but the model's has"));
  }
  KeptRun run;
  ASSERT_TRUE(run.open(in_folder()).ok());
  ASSERT_EQ(run.checkpointer->user_data().size(), 1u) << "what a worker said of itself comes back";
  EXPECT_EQ(run.checkpointer->user_data().at(2), std::vector<std::byte>(5, std::byte{7}));
}

}  // namespace
}  // namespace graft::test::resume_test
