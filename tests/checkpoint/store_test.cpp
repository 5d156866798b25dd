// The checkpoint store on a real file system: round trips, sharing, branches, retention, locks.
#include "runtime/checkpoint/store.h"

#include <gtest/gtest.h>

#include "tests/support/store_script.h"
#include "tests/support/temporary_folder.h"

namespace graft::test {
namespace {

using namespace checkpoint;

constexpr StoreOptions kCreate{StoreMode::create, 1024, 4};

Store open_store(const TemporaryFolder& folder, StoreOptions options = kCreate) {
  auto store = Store::open(os::system_files(), folder.file("store"), options);
  GRAFT_CHECK(store.ok());
  return std::move(store).value();
}

TEST(CheckpointStore, EverySnapshotComesBackAfterReopening) {
  TemporaryFolder folder;
  std::map<std::uint64_t, std::map<std::string, std::vector<std::byte>>> expected;
  {
    Store store = open_store(folder);
    for (std::uint64_t step = 1; step <= 10; ++step) {
      const auto report = put(store, step, training_state(step));
      ASSERT_TRUE(report.ok()) << report.status().message();
      expected[report->number] = training_state(step);
    }
    ASSERT_TRUE(store.append(step_record(11)).ok());
    ASSERT_TRUE(store.append(step_record(12), false).ok());
    ASSERT_TRUE(store.sync_journal().ok());
  }
  const Store store = open_store(folder, {StoreMode::read_only});
  EXPECT_TRUE(store.notes().empty());
  EXPECT_EQ(store.head(), 10u);
  ASSERT_EQ(store.journal().size(), 2u);
  EXPECT_EQ(store.journal()[1], step_record(12));
  ASSERT_EQ(store.snapshots().size(), 10u);
  for (const auto& [number, streams] : expected) {
    const Manifest& manifest = store.snapshots().at(number);
    EXPECT_EQ(manifest.meta.step, number);
    EXPECT_EQ(manifest.meta.metadata.at("model"), "script");
    for (const std::uint32_t length : chain_lengths(manifest.chunks)) EXPECT_LE(length, 4u);
    for (const auto& [name, bytes] : streams) {
      const auto got = store.restore(number, name, std::uint64_t{1} << 20);
      ASSERT_TRUE(got.ok()) << got.status().message();
      EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), got->bytes().begin(), got->bytes().end()));
    }
  }
  const auto report = store.verify();
  ASSERT_TRUE(report.ok());
  EXPECT_TRUE(report->problems.empty());
}

TEST(CheckpointStore, UnchangedChunksAreReferredTo) {
  TemporaryFolder folder;
  Store store = open_store(folder);
  const auto state = training_state(1, 64);
  const auto first = put(store, 1, state);
  const auto second = put(store, 2, state);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_GT(first->new_chunks, 0u);
  EXPECT_EQ(second->new_chunks, 0u);
  EXPECT_FALSE(os::exists(os::system_files(), folder.file("store/" + file_name(FileKind::segment, second->number))));
  const auto third = put(store, 3, training_state(3, 64));  // half of the weights moved
  ASSERT_TRUE(third.ok());
  EXPECT_GT(third->reused_chunks, third->new_chunks / 2);
  EXPECT_LT(third->stored_bytes, first->stored_bytes);
}

TEST(CheckpointStore, EmptyAndOddStreamsRoundTrip) {
  TemporaryFolder folder;
  Store store = open_store(folder);
  std::vector<std::byte> odd(1024 * 2 + 3);
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < odd.size(); ++i)
      odd[i] = static_cast<std::byte>(i * i + i / 7 + static_cast<std::size_t>(round));
    for (const Element element : {Element::bytes, Element::f32, Element::bf16, Element::i32}) {
      const std::vector<StreamInput> streams = {{"none", StreamKind::other, element, {}},
                                                {"odd", StreamKind::other, element, odd}};
      const auto report = store.put_snapshot(streams, {});
      ASSERT_TRUE(report.ok()) << report.status().message();
      std::vector<std::byte> got(odd.size());
      ASSERT_TRUE(store.restore(report->number, "odd", got).ok());
      EXPECT_EQ(got, odd);
      EXPECT_TRUE(store.restore(report->number, "none", std::span<std::byte>()).ok());
    }
  }
}

TEST(CheckpointStore, BranchesFromAKeptSnapshot) {
  TemporaryFolder folder;
  Store store = open_store(folder);
  for (std::uint64_t step = 1; step <= 3; ++step) ASSERT_TRUE(put(store, step, training_state(step)).ok());
  ASSERT_TRUE(store.append(step_record(4)).ok());
  ASSERT_TRUE(store.set_head(1).ok());
  EXPECT_TRUE(store.journal().empty());
  ASSERT_TRUE(store.append(step_record(2)).ok());
  const auto report = put(store, 9, training_state(9));
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(store.snapshots().at(report->number).parent, 1u);
  EXPECT_EQ(store.snapshots().size(), 4u);
  EXPECT_EQ(store.set_head(77).code(), Code::not_found);
}

TEST(CheckpointStore, PruningKeepsWhatIsNeeded) {
  TemporaryFolder folder;
  Store store = open_store(folder);
  for (std::uint64_t step = 1; step <= 9; ++step) ASSERT_TRUE(put(store, step, training_state(step)).ok());
  const auto report = store.prune({2, {"even"}, false});
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->removed, (std::vector<std::uint64_t>{1, 3, 5, 7}));
  const auto verified = store.verify();
  ASSERT_TRUE(verified.ok());
  EXPECT_EQ(verified->snapshots, 5u);
  EXPECT_TRUE(verified->problems.empty());
  for (const std::uint64_t number : {2u, 4u, 6u, 8u, 9u}) {
    std::vector<std::byte> got(2000);
    ASSERT_TRUE(store.restore(number, "weight", got).ok());
    EXPECT_EQ(got, training_state(number)["weight"]);
  }
  ASSERT_TRUE(store.prune({1, {}, false}).ok());
  ASSERT_TRUE(put(store, 10, {{"rng", std::vector<std::byte>(8)}}).ok());
  ASSERT_TRUE(store.prune({1, {}, false}).ok());
  std::size_t segments = 0;
  for (const auto& entry : os::system_files().list(folder.file("store")).value()) {
    segments += file_number(FileKind::segment, entry.name).has_value() ? 1 : 0;
  }
  EXPECT_EQ(segments, 1u);
}

TEST(CheckpointStore, OneWriterAnyNumberOfReaders) {
  TemporaryFolder folder;
  Store writer = open_store(folder);
  ASSERT_TRUE(put(writer, 1, training_state(1)).ok());
  const auto second = Store::open(os::system_files(), folder.file("store"), kCreate);
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.status().message().find("one writer"), std::string::npos) << second.status().message();
  Store reader = open_store(folder, {StoreMode::read_only});
  EXPECT_TRUE(reader.verify(1).ok());
  EXPECT_EQ(put(reader, 2, training_state(2)).status().code(), Code::invalid_argument);
  EXPECT_EQ(reader.append(step_record(1)).code(), Code::invalid_argument);
  EXPECT_FALSE(Store::open(os::system_files(), folder.file("elsewhere"), {StoreMode::read_only}).ok());
}

TEST(CheckpointStore, StepsBackOverADamagedSnapshotWithItsJournal) {
  TemporaryFolder folder;
  {
    Store store = open_store(folder);
    ASSERT_TRUE(put(store, 1, training_state(1)).ok());
    ASSERT_TRUE(store.append(step_record(2)).ok());
    ASSERT_TRUE(put(store, 2, training_state(2)).ok());
    ASSERT_TRUE(store.append(step_record(3)).ok());
  }
  folder.write("store/" + file_name(FileKind::snapshot, 2), "damaged");
  for (int round = 0; round < 2; ++round) {  // the second time, after a write on the recovered state
    Store store = open_store(folder);
    EXPECT_EQ(store.head(), 1u);
    ASSERT_EQ(store.journal().size(), 2u + static_cast<std::size_t>(round));
    EXPECT_EQ(store.journal()[0], step_record(2));
    EXPECT_EQ(store.journal()[1], step_record(3));
    EXPECT_FALSE(store.notes().empty());
    ASSERT_TRUE(round == 1 || store.append(step_record(4)).ok());
  }
}

TEST(CheckpointStore, DamagedChunksAreFoundAndSteppedBackFrom) {
  TemporaryFolder folder;
  {
    Store store = open_store(folder);
    ASSERT_TRUE(put(store, 1, training_state(1)).ok());
    ASSERT_TRUE(put(store, 2, training_state(2)).ok());
  }
  const std::string name = "store/" + file_name(FileKind::segment, 2);
  std::string bytes = os::read_text_file(os::system_files(), folder.file(name), 1 << 20).value();
  bytes[100] = static_cast<char>(bytes[100] ^ 4);
  folder.write(name, bytes);
  const Store quick = open_store(folder, {StoreMode::read_only});
  EXPECT_EQ(quick.head(), 2u);
  EXPECT_EQ(quick.verify(2).code(), Code::corrupt);
  EXPECT_EQ(quick.verify().value().problems.size(), 1u);
  StoreOptions deep{StoreMode::read_only};
  deep.deep = true;
  const Store careful = open_store(folder, deep);
  EXPECT_EQ(careful.head(), 1u);
  EXPECT_EQ(read_state(careful).value().streams, training_state(1));
}

}  // namespace
}  // namespace graft::test
