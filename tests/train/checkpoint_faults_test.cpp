// ctest: slow
// Every file call of a training run that is kept in a store is made to fail: training goes on, says so, and what is on
// storage resumes to the same bits. The snapshots are written beside training: also for ThreadSanitizer.
#include <cstdio>

#include "tests/support/files/fault_files.h"
#include "tests/support/kept_run.h"

namespace graft::test::checkpoint_faults_test {
namespace {

constexpr std::uint64_t kSteps = 6;

class CheckpointFaults : public TrainerTest {};

Contents resumed(KeptRun& run, const CheckpointOptions& options) {
  const Status opened = run.open(options);
  EXPECT_TRUE(opened.ok()) << opened.message();
  if (!opened.ok()) return {};
  const auto report = run.checkpointer->store().verify();
  EXPECT_TRUE(report.ok() && report->problems.empty());
  const Status ran = run.run_to(kSteps);
  EXPECT_TRUE(ran.ok()) << ran.message();
  return contents_of(*run.trainer);
}

TEST_F(CheckpointFaults, TrainingGoesOnAndTheOldStateStays) {
  KeptRun run(tiny_mlp(64, 5, 3));
  run.start();
  ASSERT_TRUE(run.run_to(kSteps).ok());
  const Contents expected = contents_of(*run.trainer);
  struct Tally {
    int tried = 0, failed_saves = 0, reported = 0, unopened = 0;
  } tally;
  for (const bool stays_full : {false, true}) {
    for (std::uint64_t k = 1;; ++k) {
      TemporaryFolder folder;
      FaultFiles files;
      files.state.fail_call = k;
      files.state.keep_failing = stays_full;
      files.state.short_write = true;
      CheckpointOptions options;
      options.folder = folder.file("store");
      options.every = 2;
      options.journal.every = 2;
      options.resume = true;
      std::vector<std::string> reports;
      options.report = [&](const std::string& text) { reports.push_back(text); };
      bool fired = false;
      {
        const Status opened = run.open(options, files);
        if (opened.ok()) {
          const Status ran = run.run_to(kSteps);
          EXPECT_TRUE(ran.ok()) << "call " << k << ": " << ran.message();
          EXPECT_EQ(contents_of(*run.trainer), expected);
          const Status saved = run.checkpointer->save();
          if (!saved.ok()) {
            ++tally.failed_saves;
            EXPECT_TRUE(contains(saved.message(), folder.path())) << saved.message();
          }
        } else {
          ++tally.unopened;
          EXPECT_TRUE(contains(opened.message(), folder.path())) << opened.message();
        }
        run.checkpointer.reset();
        fired = !files.state.failed.empty();
      }
      if (!fired) break;
      ++tally.tried;
      tally.reported += reports.empty() ? 0 : 1;
      options.report = nullptr;
      EXPECT_EQ(resumed(run, options), expected) << "call " << k << " " << files.state.failed;
    }
  }
  std::printf("%d file calls were made to fail: %d before training began, %d told while it went on, %d at its end\n",
              tally.tried, tally.unopened, tally.reported, tally.failed_saves);
  EXPECT_GT(tally.tried, 100);
  EXPECT_GT(tally.reported, 20);
  EXPECT_GT(tally.failed_saves, 20);
}

TEST_F(CheckpointFaults, TwoProcessesCannotWriteOneStore) {
  TemporaryFolder folder;
  CheckpointOptions options;
  options.folder = folder.file("store");
  options.resume = true;
  KeptRun first(tiny_mlp(64, 5, 3)), second(tiny_mlp(64, 5, 3));
  ASSERT_TRUE(first.open(options).ok());
  const Status refused = second.open(options);
  EXPECT_EQ(refused.code(), Code::io_error);
  EXPECT_TRUE(contains(refused.message(), "lock")) << refused.message();
  const auto reader = checkpoint::Store::open(os::system_files(), options.folder, {});
  ASSERT_TRUE(reader.ok()) << "readers are always welcome";
  EXPECT_TRUE(reader->verify().ok());
}

}  // namespace
}  // namespace graft::test::checkpoint_faults_test
