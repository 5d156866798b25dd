// Compaction: what is needed no more is given back, chains become short, nothing that is kept changes.
#include <algorithm>

#include "runtime/checkpoint/compactor.h"

#include <gtest/gtest.h>

#include "runtime/checkpoint/snapshot_writer.h"
#include "runtime/checkpoint/store.h"
#include "tests/support/files/fault_files.h"
#include "tests/support/files/power_files.h"
#include "tests/support/files/store_script.h"

namespace graft::test::compaction_test {
namespace {

using namespace checkpoint;

StoreOptions options_with(CompactionPolicy policy, std::uint32_t max_chain = 8) {
  return {.mode = StoreMode::create, .chunk_bytes = 1024, .max_chain = max_chain, .compaction = policy};
}

constexpr CompactionPolicy kByHand{.automatic = false};
constexpr CompactionPolicy kAlways{.min_gain = 0, .min_gain_bytes = 0};

std::uint64_t segment_bytes(PowerFiles& files) {
  std::uint64_t bytes = 0;
  for (const auto& [path, contents] : files.contents()) {
    if (path.find("segment-") != std::string::npos) bytes += contents.size();
  }
  return bytes;
}

void expect_all_right(const Store& store, std::size_t scale) {
  const auto verified = store.verify();
  ASSERT_TRUE(verified.ok() && verified->problems.empty()) << verified->problems[0];
  for (const auto& [number, manifest] : store.snapshots()) {
    for (const auto& [name, bytes] : training_state(manifest.meta.step, scale)) {
      const auto got = store.restore(number, name, 1 << 24);
      ASSERT_TRUE(got.ok()) << got.status().message();
      EXPECT_TRUE(std::ranges::equal(got->bytes(), bytes)) << number << ", " << name;
    }
  }
}

TEST(CheckpointCompaction, GivesBackWhatChainsOfPrunedSnapshotsHold) {
  PowerFiles files;
  {
    auto store = Store::open(files, "s", options_with(kByHand));
    ASSERT_TRUE(store.ok());
    for (std::uint64_t step = 1; step <= 8; ++step) {
      ASSERT_TRUE(put(*store, step, training_state(step, 8)).ok());
    }
    ASSERT_TRUE(store->prune({}).ok());  // one is left, but its chains need all segments
    const std::uint64_t before = segment_bytes(files);
    const auto report = store->compact();
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_GT(report->rebased_chunks, 0u);
    EXPECT_GT(report->freed_bytes, report->written_bytes);
    EXPECT_EQ(segment_bytes(files), before - report->freed_bytes + report->written_bytes);
    EXPECT_LT(segment_bytes(files), before * 2 / 3);
    for (const ChainCost& chain : chain_costs(store->snapshots().at(8).chunks)) EXPECT_EQ(chain.length, 1u);
    expect_all_right(*store, 8);
    EXPECT_EQ(store->compact().value().written_bytes, 0u);  // nothing is left to do
    ASSERT_TRUE(put(*store, 9, training_state(9, 8)).ok());
  }
  const auto store = Store::open(files, "s", {});
  ASSERT_TRUE(store.ok());
  EXPECT_TRUE(store->notes().empty());
  EXPECT_EQ(store->head(), 10u);  // the compaction's segment took a number
  expect_all_right(*store, 8);
}

// What another process deleted is found in the middle of the work: the rest is done all the same.
TEST(CheckpointCompaction, GoesOnWhereASegmentIsGone) {
  PowerFiles files;
  auto store = Store::open(files, "s", options_with(kByHand));
  ASSERT_TRUE(store.ok());
  for (std::uint64_t step = 1; step <= 8; ++step) ASSERT_TRUE(put(*store, step, training_state(step, 8)).ok());
  ASSERT_TRUE(store->prune({}).ok());
  auto compactor = store->begin_compaction();
  ASSERT_TRUE(compactor.ok() && *compactor != nullptr);
  const std::uint64_t lost = store->snapshots().at(8).chunks.front().segment;
  for (const auto& [path, contents] : files.contents()) {
    if (path.ends_with(cat("segment-000000000000000", lost))) {
      ASSERT_TRUE(files.remove(path).ok());
    }
  }
  const Status done = (*compactor)->run();
  EXPECT_TRUE(done.ok()) << done.message();
}

TEST(CheckpointCompaction, MovesTheLittleThatIsLeftOfASegmentAsItIsStored) {
  PowerFiles files;
  auto store = Store::open(files, "s", options_with(kByHand));
  ASSERT_TRUE(store.ok());
  // "moment" changes wholly, half of "weight" never: the first segment is soon mostly waste.
  auto state = training_state(1, 8);
  ASSERT_TRUE(put(*store, 1, state).ok());
  for (std::byte& byte : state["moment"]) byte = static_cast<std::byte>(&byte - state["moment"].data());
  state["weight"] = training_state(2, 8)["weight"];
  for (std::size_t i = 0; i < 8000; ++i) state["weight"][i] ^= static_cast<std::byte>(i * 37);
  ASSERT_TRUE(put(*store, 2, state).ok());
  ASSERT_TRUE(store->prune({}).ok());
  const auto report = store->compact();
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_GT(report->moved_chunks, 0u);
  EXPECT_EQ(read_state(*store).value().streams, state);
  EXPECT_TRUE(store->verify().value().problems.empty());
}

TEST(CheckpointCompaction, RebasesChainsThatAreLongerThanTheOptionsAllow) {
  PowerFiles files;
  {
    auto store = Store::open(files, "s", options_with(kByHand));
    ASSERT_TRUE(store.ok());
    for (std::uint64_t step = 1; step <= 8; ++step) ASSERT_TRUE(put(*store, step, training_state(step, 8)).ok());
  }
  auto store = Store::open(files, "s", options_with({.automatic = false, .min_live = 1.1}, 2));
  ASSERT_TRUE(store.ok());
  ASSERT_TRUE(store->prune({.keep_last = 2}).ok());
  ASSERT_TRUE(store->compact().ok());
  for (const auto& [number, manifest] : store->snapshots()) {
    for (const ChainCost& chain : chain_costs(manifest.chunks)) EXPECT_LE(chain.length, 2u);
  }
  expect_all_right(*store, 8);
}

TEST(CheckpointCompaction, RunsByItselfAndKeepsALongRunSmall) {
  for (const bool automatic : {false, true}) {
    PowerFiles files;
    auto store = Store::open(files, "s", options_with({.automatic = automatic, .min_gain_bytes = 0}));
    ASSERT_TRUE(store.ok());
    std::uint64_t compactions = 0, largest = 0, whole = 0;
    for (std::uint64_t step = 1; step <= 60; ++step) {
      const auto report = put(*store, step, training_state(step, 8));
      ASSERT_TRUE(report.ok());
      if (step == 1) whole = report->stored_bytes;
      const auto pruned = store->prune({.keep_last = 2});
      ASSERT_TRUE(pruned.ok() && pruned->compaction.ok());
      compactions += pruned->compacted.written_bytes != 0 ? 1 : 0;
      if (step > 20) largest = std::max(largest, segment_bytes(files));
    }
    EXPECT_EQ(compactions != 0, automatic);
    if (automatic) {
      EXPECT_LT(largest, 3 * whole);
    } else {
      EXPECT_GT(largest, 3 * whole);
    }
    expect_all_right(*store, 8);
  }
}

TEST(CheckpointCompaction, GoesOnBesideStepsSnapshotsAndReaders) {
  PowerFiles files;
  auto store = Store::open(files, "s", options_with(kByHand));
  ASSERT_TRUE(store.ok());
  for (std::uint64_t step = 1; step <= 8; ++step) ASSERT_TRUE(put(*store, step, training_state(step, 8)).ok());
  ASSERT_TRUE(store->prune({.keep_last = 2}).ok());
  auto compactor = store->begin_compaction();
  ASSERT_TRUE(compactor.ok() && *compactor != nullptr);
  auto writer = store->begin_snapshot({.step = 9});
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*compactor)->run().ok());
  ASSERT_TRUE(store->append(step_record(10)).ok());
  const auto reader = Store::open(files, "s", {});
  ASSERT_TRUE(reader.ok());
  expect_all_right(*reader, 8);
  ASSERT_TRUE(store->prune({}).ok());  // takes neither the new segment nor what the snapshot may refer to
  ASSERT_TRUE(store->commit_compaction(std::move(*compactor)).ok());
  for (const auto& [number, manifest] :
       reader->snapshots()) {  // what was moved is gone for it: it opens the store again
    const Status status = reader->verify(number);
    EXPECT_TRUE(status.ok() || status.code() == Code::not_found) << status.message();
  }
  const auto state = training_state(9, 8);
  for (const auto& [name, bytes] : state) {
    const Element element = name == "rng" ? Element::bytes : Element::f32;
    ASSERT_TRUE((*writer)->add({.name = name, .element = element, .bytes = bytes}).ok());
  }
  ASSERT_TRUE((*writer)->finish().ok());
  ASSERT_TRUE(store->commit_snapshot(std::move(*writer)).ok());
  expect_all_right(*store, 8);
  const auto again = Store::open(files, "s", {});
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(again->notes().empty());
  EXPECT_EQ(again->journal().size(), 1u);
  expect_all_right(*again, 8);
}

TEST(CheckpointCompaction, LeavesDamagedChunksWhereTheyAre) {
  PowerFiles files;
  auto store = Store::open(files, "s", options_with(kByHand));
  ASSERT_TRUE(store.ok());
  for (std::uint64_t step = 1; step <= 4; ++step) ASSERT_TRUE(put(*store, step, training_state(step, 8)).ok());
  ASSERT_TRUE(store->prune({}).ok());
  auto image = files.contents();
  image.at("s/" + file_name(FileKind::segment, 1))[200] ^= std::byte{1};
  PowerFiles damaged(image);
  auto opened = Store::open(damaged, "s", options_with(kByHand));
  ASSERT_TRUE(opened.ok());
  ASSERT_TRUE(opened->compact().ok());
  const auto report = opened->verify();
  ASSERT_TRUE(report.ok());
  EXPECT_FALSE(report->problems.empty());  // it is still there to be found
  EXPECT_TRUE(os::exists(damaged, "s/" + file_name(FileKind::segment, 1)));
}

TEST(CheckpointCompaction, GoesOnWithoutASegmentThatIsGone) {
  PowerFiles files;
  auto store = Store::open(files, "s", options_with(kAlways));
  ASSERT_TRUE(store.ok());
  for (std::uint64_t step = 1; step <= 4; ++step) ASSERT_TRUE(put(*store, step, training_state(step, 8)).ok());
  ASSERT_TRUE(store->prune({}).ok());
  for (const auto& [path, contents] : files.contents()) {
    if (path.find("segment-") == std::string::npos) continue;
    ASSERT_TRUE(files.remove(path).ok());
    break;
  }
  const auto compacted = store->compact();
  EXPECT_TRUE(compacted.ok()) << compacted.status().message();
  const auto report = store->verify();
  ASSERT_TRUE(report.ok());
  EXPECT_FALSE(report->problems.empty());
}

TEST(CheckpointCompaction, AFullDiskIsNoReasonToFailAPruning) {
  PowerFiles prepared;
  {
    auto store = Store::open(prepared, "s", options_with(kByHand));
    ASSERT_TRUE(store.ok());
    EXPECT_EQ(store->begin_compaction().value(), nullptr);  // an empty store has nothing to compact
    for (std::uint64_t step = 1; step <= 4; ++step) ASSERT_TRUE(put(*store, step, training_state(step, 8)).ok());
  }
  std::size_t pruned_only = 0;
  for (std::uint64_t call = 1;; ++call) {
    PowerFiles disk(prepared.contents());
    FaultFiles files(disk);
    auto store = Store::open(files, "s", options_with(kAlways));
    ASSERT_TRUE(store.ok());
    files.state = {0, call, true, true, {}};
    const auto report = store->prune({});
    pruned_only += report.ok() && !report->compaction.ok() ? 1 : 0;
    files.state.fail_call = 0;
    expect_all_right(*store, 8);
    ASSERT_TRUE(store->prune({}).ok());
    ASSERT_TRUE(put(*store, 5, training_state(5, 8)).ok());
    const auto again = Store::open(disk, "s", {});
    ASSERT_TRUE(again.ok());
    EXPECT_TRUE(again->notes().empty()) << again->notes()[0];
    expect_all_right(*again, 8);
    if (files.state.failed.empty()) break;
  }
  EXPECT_GT(pruned_only, 10u);
}

}  // namespace
}  // namespace graft::test::compaction_test
