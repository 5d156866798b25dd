// The rules of tables and journals where they begin to hold: the largest that is allowed, and one more.
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <thread>

#include "runtime/checkpoint/format.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/snapshot_writer.h"
#include "tests/support/files/fault_files.h"
#include "tests/support/files/power_files.h"
#include "tests/support/files/store_script.h"
#include "tests/support/files/temporary_folder.h"

namespace graft::test::rules_test {
namespace {

using namespace checkpoint;

Manifest with_metadata(std::map<std::string, std::string, std::less<>> metadata) {
  Manifest manifest;
  manifest.number = 1;
  manifest.chunk_bytes = 1024;
  manifest.meta.metadata.edit() = std::move(metadata);
  return manifest;
}

TEST(CheckpointRules, MetadataIsSmallAndHasNames) {
  const std::string half(kMaxTextBytes / 2, 'x');
  EXPECT_TRUE(check(with_metadata({{"a", half}, {"b", half}})).ok()) << "the largest there may be";
  EXPECT_EQ(check(with_metadata({{"a", half}, {"b", half + "x"}})).code(), Code::invalid_argument);
  EXPECT_TRUE(check(with_metadata({{std::string(kMaxNameBytes, 'k'), ""}})).ok());
  for (const std::string& key : {std::string(kMaxNameBytes + 1, 'k'), std::string(), std::string("a\nb")}) {
    const Status status = check(with_metadata({{key, "value"}}));
    ASSERT_FALSE(status.ok()) << key.size();
    EXPECT_NE(status.message().find("A metadata key"), std::string::npos) << status.message();
  }
}

TEST(CheckpointRules, ListsHaveAMost) {
  for (const std::uint64_t more : {0u, 1u}) {
    Manifest tags = with_metadata({}), entries = tags;
    for (std::uint64_t i = 0; i < kMaxListed + more; ++i) {
      tags.meta.tags.push_back(std::to_string(i));
      entries.meta.metadata.edit()[std::to_string(i)];
    }
    EXPECT_EQ(check(tags).ok(), more == 0);
    EXPECT_EQ(check(entries).ok(), more == 0);
  }
}

TEST(CheckpointRules, ARootNamesNothingOfTheFuture) {
  // Each number alone is as large as the next free one, and the journal has to stand in for the root.
  for (const int wrong : {0, 1, 2, 3}) {
    PowerFiles files;
    std::uint64_t next = 0;
    {
      auto store = Store::open(files, "s", {StoreMode::create});
      ASSERT_TRUE(store.ok() && put(*store, 1, training_state(1)).ok());
    }
    PowerFiles::Image image = files.contents();
    auto& bytes = image.at("s/" + file_name(FileKind::root, 0));
    auto root = read_header(FileKind::root, bytes);
    ASSERT_TRUE(root.ok()) << root.status().message();
    next = root->number;
    if (wrong != 0) (wrong == 1 ? root->a : wrong == 2 ? root->b : root->c) = next;
    const auto header = write_header(*root);
    bytes.assign(header.begin(), header.end());
    PowerFiles changed(image);
    const auto store = Store::open(changed, "s", {StoreMode::read_only});
    ASSERT_TRUE(store.ok()) << store.status().message();
    EXPECT_EQ(store->head(), 1u);
    EXPECT_EQ(store->notes().empty(), wrong == 0) << wrong;
  }
}

TEST(CheckpointRules, ARecordOfNothingIsARecord) {
  PowerFiles files;
  {
    auto store = Store::open(files, "s", {StoreMode::create});
    ASSERT_TRUE(store.ok() && store->append(JournalRecord{.step = 7}).ok());
  }
  const auto store = Store::open(files, "s", {StoreMode::read_only});
  ASSERT_TRUE(store.ok()) << store.status().message();
  ASSERT_EQ(store->journal().size(), 1u) << "the last frame is its header alone";
  EXPECT_EQ(store->journal()[0].step, 7u);
}

TEST(CheckpointRules, AStoreThatIsClosedHasSyncedItsJournal) {
  PowerFiles files;
  {
    auto store = Store::open(files, "s", {.mode = StoreMode::create, .journal = {.every = 0}});
    ASSERT_TRUE(store.ok() && store->append(step_record(1), false).ok());
    EXPECT_EQ(store->unsynced_records(), 1u);
  }
  std::mt19937 random(1);
  PowerFiles after(files.after_cut(files.operations(), PowerFiles::Fate::none, random));
  const auto store = Store::open(after, "s", {StoreMode::read_only});
  ASSERT_TRUE(store.ok()) << store.status().message();
  EXPECT_EQ(store->journal().size(), 1u);
}

TEST(CheckpointRules, TheDelayCountsFromTheOldestUnsyncedRecord) {
  PowerFiles files, others;  // they outlive the stores in them
  auto store = Store::open(files, "s", {.mode = StoreMode::create, .journal = {.every = 0, .max_delay_ms = 10'000}});
  ASSERT_TRUE(store.ok() && store->append(step_record(1)).ok());
  ASSERT_TRUE(store->flush_due().ok());
  EXPECT_EQ(store->unsynced_records(), 1u) << "10 s have not passed";
  // With a short delay: the second record begins no new one.
  store = Store::open(others, "s", {.mode = StoreMode::create, .journal = {.every = 0, .max_delay_ms = 200}});
  ASSERT_TRUE(store.ok() && store->append(step_record(1)).ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(201));
  ASSERT_TRUE(store->append(step_record(2), false).ok());
  ASSERT_TRUE(store->flush_due().ok());
  EXPECT_EQ(store->unsynced_records(), 0u);
}

TEST(CheckpointRules, NotesNameWhatTrainingGoesOnFrom) {
  const auto note_without = [](std::initializer_list<std::uint64_t> damaged) {
    TemporaryFolder folder;
    {
      auto store = Store::open(os::system_files(), folder.file("store"), {StoreMode::create});
      GRAFT_CHECK(store.ok() && put(*store, 1, training_state(1)).ok() && put(*store, 2, training_state(2)).ok());
    }
    for (const std::uint64_t number : damaged) {
      folder.write("store/" + file_name(FileKind::snapshot, number), "damaged");
    }
    const auto store = Store::open(os::system_files(), folder.file("store"), {StoreMode::read_only});
    GRAFT_CHECK(store.ok());
    std::string all;
    for (const std::string& note : store->notes()) all += note + "\n";
    return all;
  };
  EXPECT_NE(note_without({2}).find("training goes on from snapshot 1"), std::string::npos) << note_without({2});
  EXPECT_NE(note_without({1, 2}).find("training goes on from the start"), std::string::npos) << note_without({1, 2});
}

TEST(CheckpointRules, OptionsHaveALeastAndAMost) {
  const auto opens = [](auto change) {
    PowerFiles files;
    StoreOptions options{.mode = StoreMode::create};
    change(options);
    const auto store = Store::open(files, "s", options);
    EXPECT_TRUE(store.ok() || store.status().code() == Code::invalid_argument) << store.status().message();
    return store.ok();
  };
  const auto chunk = [&](std::uint32_t bytes) { return opens([&](StoreOptions& o) { o.chunk_bytes = bytes; }); };
  EXPECT_TRUE(chunk(kMinChunkBytes) && chunk(kMaxChunkBytes));
  EXPECT_FALSE(chunk(kMinChunkBytes - 8) || chunk(kMaxChunkBytes + 8) || chunk(kMinChunkBytes + 4));
  const auto chain = [&](std::uint32_t length) { return opens([&](StoreOptions& o) { o.max_chain = length; }); };
  EXPECT_TRUE(chain(1) && chain(kMaxChain));
  EXPECT_FALSE(chain(0) || chain(kMaxChain + 1));
  const auto level = [&](int zstd) { return opens([&](StoreOptions& o) { o.zstd_level = zstd; }); };
  EXPECT_TRUE(level(1) && level(kMaxZstdLevel));
  EXPECT_FALSE(level(0) || level(kMaxZstdLevel + 1));
  const auto cost = [&](double most) { return opens([&](StoreOptions& o) { o.max_restore_cost = most; }); };
  EXPECT_TRUE(cost(1));
  EXPECT_FALSE(cost(0.99) || cost(std::numeric_limits<double>::quiet_NaN()));
}

TEST(CheckpointRules, AJournalThatCannotBeSyncedSaysSo) {
  PowerFiles base;
  FaultFiles files(base);
  auto store = Store::open(files, "s", {.mode = StoreMode::create, .journal = {.every = 0}});
  ASSERT_TRUE(store.ok() && store->append(step_record(1), false).ok());
  files.state.fail_call = files.state.calls + 1;
  EXPECT_EQ(store->sync_journal().code(), Code::io_error) << files.state.failed;
  EXPECT_EQ(files.state.failed, "sync");
  EXPECT_EQ(store->unsynced_records(), 1u) << "it is not there";
  files.state.fail_call = 0;
  EXPECT_TRUE(store->sync_journal().ok()) << "a new file holds it";
  EXPECT_EQ(store->unsynced_records(), 0u);
}

/// Should the snapshot be damaged later, the journal leads on from the one before it.
TEST(CheckpointRules, ASnapshotSyncsTheJournalFirst) {
  PowerFiles base;
  FaultFiles files(base);
  auto store = Store::open(files, "s", {.mode = StoreMode::create, .journal = {.every = 0}});
  ASSERT_TRUE(store.ok() && store->append(step_record(1), false).ok());
  auto writer = store->begin_snapshot({.step = 1});
  ASSERT_TRUE(writer.ok() && (*writer)->finish().ok());
  files.state.fail_call = files.state.calls + 1;
  EXPECT_FALSE(store->commit_snapshot(std::move(*writer)).ok());
  EXPECT_EQ(files.state.failed, "sync");
}

TEST(CheckpointRules, DamagedSnapshotsAreDroppedWhereTheirFilesCanBe) {
  PowerFiles plain;
  {
    auto store = Store::open(plain, "s", {StoreMode::create});
    ASSERT_TRUE(store.ok() && put(*store, 1, training_state(1)).ok() && put(*store, 2, training_state(2)).ok());
  }
  auto image = plain.contents();
  const std::string path = "s/" + file_name(FileKind::snapshot, 1);
  image.at(path).resize(7);
  for (const bool gone : {false, true}) {
    PowerFiles base(image);
    FaultFiles files(base);
    auto store = Store::open(files, "s", {StoreMode::create});
    ASSERT_TRUE(store.ok()) << store.status().message();
    files.state.fail_call = gone ? 0 : files.state.calls + 2;  // its size is asked for first
    if (gone) {
      ASSERT_TRUE(base.remove(path).ok());
    }
    const auto report = store->prune({4, {}, true});
    EXPECT_EQ(report.ok(), gone) << files.state.failed;
    files.state.fail_call = 0;
    ASSERT_TRUE(store->prune({4, {}, true}).ok());
    EXPECT_FALSE(os::exists(base, path));
    EXPECT_EQ(store->snapshots().size(), 1u);
  }
}

}  // namespace
}  // namespace graft::test::rules_test
