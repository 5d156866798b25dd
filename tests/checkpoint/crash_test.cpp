// ctest: middle
// Power cuts at every operation, failures of every file call, flips of every bit of a small store.
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/support/files/store_faults.h"

namespace graft::test::crash_test {
namespace {

using namespace checkpoint;

/// Small chunks and a compaction with every pruning, so that a short run does all that a long one does.
const StoreOptions kOptions{.mode = StoreMode::create,
                            .chunk_bytes = 512,
                            .max_chain = 3,
                            .identity = 1234,
                            .compaction = {.min_gain = 0, .min_gain_bytes = 0}};

TEST(CheckpointCrash, EveryLegalImageAfterAPowerCutHoldsTheLastAcknowledgedState) {
  const std::size_t images = try_power_cuts(kOptions, 1, 40);
  std::printf("%zu images after a power cut\n", images);
  EXPECT_GT(images, 7000u);
}

TEST(CheckpointCrash, TheSimulatorNoticesMissingSyncs) {
  EXPECT_EQ(count_wrong_images(kOptions, false, false), 0u);
  EXPECT_GT(count_wrong_images(kOptions, true, false), 0u);
  EXPECT_GT(count_wrong_images(kOptions, false, true), 0u);
}

TEST(CheckpointCrash, ASecondPowerCutDuringRecoveryIsSurvivedToo) {
  const std::size_t images = try_second_power_cuts(kOptions, 2, 4);
  std::printf("%zu images after a second power cut\n", images);
  EXPECT_GT(images, 1000u);
}

TEST(CheckpointCrash, GroupCommitsLoseNoMoreThanTheyMay) {
  const std::size_t images = try_power_cuts_of_group_commits(kOptions, 3, 20);
  std::printf("%zu images after a power cut between group commits\n", images);
  EXPECT_GT(images, 500u);
}

TEST(CheckpointCrash, EveryFailingFileCallLeavesTheStateBeforeOrAfter) {
  const std::size_t faults = try_failing_calls(kOptions);
  std::printf("%zu failing file calls\n", faults);
  EXPECT_GT(faults, 1000u);
}

TEST(CheckpointCrash, EveryFlippedBitIsDetectedOrHarmless) {
  const std::size_t flips = try_flipped_bits(kOptions);
  std::printf("%zu flipped bits\n", flips);
  EXPECT_GT(flips, 10000u);
}

}  // namespace
}  // namespace graft::test::crash_test
