// The checkpoint store on a real file system: round trips, sharing, branches, retention, locks.
#include "runtime/checkpoint/store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "platform/os/clock.h"
#include "runtime/checkpoint/snapshot_writer.h"
#include "tests/support/files/store_script.h"
#include "tests/support/files/temporary_folder.h"

namespace graft::test::store_test {
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
    EXPECT_EQ(manifest.meta.metadata->at("model"), "script");
    for (const ChainCost& chain : chain_costs(manifest.chunks)) EXPECT_LE(chain.length, 4u);
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

TEST(CheckpointStore, ChainsEndWhereRestoringWouldCostTooMuch) {
  const auto longest = [](double cost) {
    TemporaryFolder folder;
    StoreOptions options = kCreate;
    options.max_chain = 8;
    options.max_restore_cost = cost;
    Store store = open_store(folder, options);
    ChainCost worst;
    for (std::uint64_t step = 1; step <= 12; ++step) {
      GRAFT_CHECK(put(store, step, training_state(step, 8)).ok());
      const Manifest& manifest = store.snapshots().at(store.head());
      const auto chains = chain_costs(manifest.chunks);
      for (std::size_t i = 0; i < chains.size(); ++i) {
        EXPECT_LE(static_cast<double>(chains[i].bytes), cost * 2 * manifest.chunks[i].decoded_bytes);
        if (chains[i].length > worst.length) worst = chains[i];
      }
    }
    return worst.length;
  };
  EXPECT_EQ(longest(1), 1u);
  EXPECT_GT(longest(3), 1u);
  EXPECT_GT(longest(16), longest(3));
  EXPECT_EQ(longest(16), 8u);
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

// What was not there before has nothing that it could be a change of, however like another chunk it is.
TEST(CheckpointStore, AStreamThatGrowsIsWrittenWholeWhereItIsNew) {
  TemporaryFolder folder;
  Store store = open_store(folder);
  std::vector<std::byte> a = training_state(1, 8).at("weight"), b = a;
  a.resize(1024);
  b.resize(1024);
  ASSERT_TRUE(put(store, 1, {{"a", a}, {"b", b}}).ok());
  std::vector<std::byte> grown = b;
  grown.insert(grown.end(), a.begin(), a.end());
  grown.back() = static_cast<std::byte>(~std::to_integer<unsigned>(grown.back()));
  const auto report = put(store, 2, {{"a", a}, {"b", grown}});
  ASSERT_TRUE(report.ok()) << report.status().message();
  const Manifest& manifest = store.snapshots().at(2);
  const Stream* stream = manifest.find("b");
  ASSERT_TRUE(stream != nullptr && stream->count == 2);
  EXPECT_EQ(manifest.chunks[manifest.chunks_of(*stream)[1]].parent, kNoParent);
  EXPECT_EQ(read_state(store).value().streams.at("b"), grown);
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

TEST(CheckpointStore, TagsComeAndGoAfterTheFact) {
  TemporaryFolder folder;
  {
    Store store = open_store(folder);
    for (std::uint64_t step = 1; step <= 5; ++step) ASSERT_TRUE(put(store, step, training_state(step)).ok());
    EXPECT_EQ(store.find_tag("even"), 4u) << "a new snapshot takes its tag from the one before";
    EXPECT_TRUE(store.snapshots().at(2).meta.tags.empty());
    ASSERT_TRUE(store.tag(5, "best").ok());
    ASSERT_TRUE(store.tag(3, "best").ok());
    ASSERT_TRUE(store.tag(3, "best").ok());
    EXPECT_TRUE(store.snapshots().at(5).meta.tags.empty()) << "the tag has moved";
    ASSERT_TRUE(store.untag(4, "even").ok());
    EXPECT_EQ(store.untag(4, "even").code(), Code::not_found);
    for (const char* number : {"3", "007", "99999999999999999999999"}) {
      EXPECT_EQ(store.tag(1, number).code(), Code::invalid_argument) << number;
      EXPECT_EQ(store.begin_snapshot({.tags = {number}}).status().code(), Code::invalid_argument) << number;
    }
    ASSERT_TRUE(store.tag(2, "3rd").ok());
    EXPECT_EQ(store.tag(9, "best").code(), Code::not_found);
    EXPECT_EQ(store.tag(1, "").code(), Code::invalid_argument);
    EXPECT_EQ(store.tag(1, "a\nb").code(), Code::invalid_argument);
  }
  Store store = open_store(folder);
  EXPECT_TRUE(store.notes().empty());
  EXPECT_EQ(store.find_tag("best"), 3u);
  EXPECT_EQ(store.find_tag("even"), 0u);
  EXPECT_EQ(store.find_tag("none"), 0u);
  EXPECT_EQ(store.snapshots().at(3).meta.tags, std::vector<std::string>{"best"});
  const auto report = store.prune({.keep_last = 1, .keep_tagged = true});
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->removed, (std::vector<std::uint64_t>{1, 4}));
  EXPECT_EQ(open_store(folder, {StoreMode::read_only}).tag(1, "x").code(), Code::invalid_argument);
}

TEST(CheckpointStore, WorkersHaveSectionsAndFrozenStreamsAreNamedByHash) {
  TemporaryFolder folder;
  Store store = open_store(folder);
  const std::vector<std::byte> shared(3000, std::byte{1}), first(100, std::byte{2}), second(200, std::byte{3});
  const std::vector<StreamInput> streams = {
      {"rng", StreamKind::rng, Element::bytes, shared},
      {.name = "rng", .kind = StreamKind::rng, .bytes = first, .worker = 1},
      {.name = "rng", .kind = StreamKind::rng, .bytes = second, .worker = 2},
      {.name = "embedding", .kind = StreamKind::parameter, .frozen = FrozenBytes{hash128(shared), 1ull << 40}}};
  const auto report = store.put_snapshot(streams, {});
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->raw_bytes, 3300u);
  store = open_store(folder, {StoreMode::read_only});
  std::vector<std::byte> got(200);
  ASSERT_TRUE(store.restore(1, "rng", got, 2).ok());
  EXPECT_EQ(got, second);
  EXPECT_EQ(store.restore(1, "rng", 1 << 20).value().size(), 3000u);
  EXPECT_EQ(store.restore(1, "rng", 1 << 20, 3).status().code(), Code::not_found);
  const Stream* frozen = store.snapshots().at(1).find("embedding");
  ASSERT_TRUE(frozen != nullptr && frozen->frozen);
  EXPECT_EQ(*frozen->frozen, hash128(shared));
  EXPECT_EQ(frozen->bytes, 1ull << 40);
  EXPECT_EQ(store.restore(1, "embedding", 1ull << 41).status().code(), Code::invalid_argument);
  EXPECT_TRUE(store.verify(1).ok());
}

TEST(CheckpointStore, DiffAndSizesComeFromTheTables) {
  TemporaryFolder folder;
  Store store = open_store(folder);
  ASSERT_TRUE(put(store, 1, training_state(1, 8)).ok());
  const auto second = put(store, 2, training_state(2, 8));
  ASSERT_TRUE(second.ok());
  ASSERT_TRUE(put(store, 3, {{"rng", std::vector<std::byte>(8)}, {"new", std::vector<std::byte>(5)}}).ok());
  const auto same = store.diff(1, 1);
  ASSERT_TRUE(same.ok());
  for (const StreamDiff& stream : same->streams) EXPECT_EQ(stream.difference, Difference::same) << stream.name;
  EXPECT_EQ(same->stored_bytes, 0u);
  const auto diff = store.diff(1, 2);
  ASSERT_TRUE(diff.ok());
  ASSERT_EQ(diff->streams.size(), 3u);
  for (const StreamDiff& stream : diff->streams) {
    EXPECT_EQ(stream.difference, Difference::changed) << stream.name;
    if (stream.name != "weight") continue;
    EXPECT_EQ(stream.bytes_b, 16000u);  // 16 chunks, of which the first half moved
    EXPECT_EQ(stream.shared_chunks, 8u);
    EXPECT_EQ(stream.changed_chunks, 8u);
    EXPECT_EQ(stream.changed_bytes, 8192u);
  }
  EXPECT_TRUE(diff->metadata.empty());
  const auto other = store.diff(2, 3);
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(other->streams[0].difference, Difference::only_in_b);
  EXPECT_EQ(other->streams.back().difference, Difference::only_in_a);
  EXPECT_EQ(store.diff(2, 9).status().code(), Code::not_found);

  const SnapshotSize size = store.sizes().at(2);
  EXPECT_EQ(size.raw_bytes, 32016u);
  EXPECT_GT(size.own_bytes, 0u);
  EXPECT_LT(size.own_bytes, size.stored_bytes);
  EXPECT_EQ(diff->stored_bytes, size.own_bytes);
}

TEST(CheckpointStore, StepsGoOnWhileASnapshotIsWritten) {
  TemporaryFolder folder;
  {
    Store store = open_store(folder);
    ASSERT_TRUE(store.append(step_record(1)).ok());
    auto writer = store.begin_snapshot({.step = 1});
    ASSERT_TRUE(writer.ok()) << writer.status().message();
    const auto state = training_state(1);
    std::thread worker([&] {
      for (const auto& [name, bytes] : state) GRAFT_CHECK((*writer)->add({.name = name, .bytes = bytes}).ok());
      GRAFT_CHECK((*writer)->finish().ok());
    });
    for (std::uint64_t step = 2; step <= 40; ++step) ASSERT_TRUE(store.append(step_record(step), step % 4 == 0).ok());
    ASSERT_TRUE(store.prune({}).ok());
    worker.join();
    const auto report = store.commit_snapshot(std::move(*writer));
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_EQ(store.head(), 1u);
    ASSERT_EQ(store.journal().size(), 39u);
    ASSERT_TRUE(store.append(step_record(41)).ok());
  }
  for (int round = 0; round < 2; ++round) {  // the second time, the snapshot is damaged and its steps joined
    const Store store = open_store(folder, {StoreMode::read_only});
    const std::size_t steps = round == 0 ? 40 : 1 + 40;
    ASSERT_EQ(store.journal().size(), steps);
    for (std::size_t i = 0; i < steps; ++i) EXPECT_EQ(store.journal()[i], step_record(41 - steps + 1 + i));
    EXPECT_EQ(read_state(store).value().step, round == 0 ? 1u : 0u);
    EXPECT_EQ(store.notes().empty(), round == 0);
    folder.write("store/" + file_name(FileKind::snapshot, 1), "damaged");
  }
}

TEST(CheckpointStore, ASnapshotThatIsNotCommittedLeavesNothing) {
  TemporaryFolder folder;
  Store store = open_store(folder);
  const auto bytes = training_state(1)["weight"];
  auto first = store.begin_snapshot({.step = 1});
  ASSERT_TRUE(first.ok() && (*first)->add({.name = "w", .bytes = bytes}).ok());
  EXPECT_EQ(store.commit_snapshot(std::move(*first)).status().code(), Code::invalid_argument);  // not finished
  auto second = store.begin_snapshot({.step = 1});
  ASSERT_TRUE(second.ok() && (*second)->add({.name = "w", .bytes = bytes}).ok() && (*second)->finish().ok());
  ASSERT_TRUE(store.set_head(0).ok());
  EXPECT_EQ(store.commit_snapshot(std::move(*second)).status().code(), Code::cancelled);
  for (const auto& entry : os::system_files().list(folder.file("store")).value()) {
    EXPECT_FALSE(file_number(FileKind::segment, entry.name)) << entry.name;
    EXPECT_FALSE(file_number(FileKind::snapshot, entry.name)) << entry.name;
  }
}

TEST(CheckpointStore, TheJournalSyncsAsItsPolicySays) {
  TemporaryFolder folder;
  StoreOptions options = kCreate;
  options.journal = {.every = 3};
  {
    Store store = open_store(folder, options);
    for (const std::size_t unsynced : {1u, 2u, 0u, 1u}) {
      ASSERT_TRUE(store.append(step_record(1)).ok());
      EXPECT_EQ(store.unsynced_records(), unsynced);
    }
    ASSERT_TRUE(store.flush_due().ok());  // no time is set, so nothing is due
    EXPECT_EQ(store.unsynced_records(), 1u);
  }
  options.journal = {.every = 0, .max_delay_ms = 20};
  Store store = open_store(folder, options);
  const os::Stopwatch watch;
  ASSERT_TRUE(store.append(step_record(2)).ok());
  ASSERT_TRUE(store.flush_due().ok());
  if (watch.seconds() < 0.02) {
    EXPECT_EQ(store.unsynced_records(), 1u);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(21));
  ASSERT_TRUE(store.flush_due().ok());
  EXPECT_EQ(store.unsynced_records(), 0u);
  ASSERT_TRUE(store.append(step_record(3)).ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(21));
  ASSERT_TRUE(store.append(step_record(4)).ok());
  EXPECT_EQ(store.unsynced_records(), 0u);
}

TEST(CheckpointStore, PruningKeepsWhatIsNeeded) {
  TemporaryFolder folder;
  Store store = open_store(folder);
  for (std::uint64_t step = 1; step <= 9; ++step) ASSERT_TRUE(put(store, step, training_state(step)).ok());
  for (const std::uint64_t number : {2, 4, 6}) ASSERT_TRUE(store.tag(number, cat("even ", number)).ok());
  const auto report = store.prune({2, {"even 2", "even 4", "even 6"}, false});
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

/// The journal of the oldest snapshot that stays leads from it to the newest state; only older ones go.
TEST(CheckpointStore, PruningKeepsTheJournalOfTheOldestSnapshot) {
  TemporaryFolder folder;
  {
    Store store = open_store(folder);
    for (std::uint64_t step = 1; step <= 3; ++step) {
      ASSERT_TRUE(put(store, step, training_state(step)).ok());
      ASSERT_TRUE(store.append(step_record(step + 1)).ok());
    }
    ASSERT_TRUE(store.prune({2, {}, false}).ok());
    std::vector<std::uint64_t> journals;
    for (const auto& entry : os::system_files().list(folder.file("store")).value()) {
      if (const auto number = file_number(FileKind::journal, entry.name)) journals.push_back(*number);
    }
    std::ranges::sort(journals);
    EXPECT_EQ(journals, (std::vector<std::uint64_t>{2, 3}));
  }
  folder.write("store/" + file_name(FileKind::snapshot, 3), "damaged");
  const Store store = open_store(folder);
  EXPECT_EQ(store.head(), 2u);
  ASSERT_EQ(store.journal().size(), 2u);
  EXPECT_EQ(store.journal()[0], step_record(3));
  EXPECT_EQ(store.journal()[1], step_record(4));
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

/// A journal that was begun by another process says as well which one it follows.
TEST(CheckpointStore, StepsBackOverAJournalThatWasBegunAnew) {
  TemporaryFolder folder;
  {
    Store store = open_store(folder);
    ASSERT_TRUE(put(store, 1, training_state(1)).ok());
    ASSERT_TRUE(store.append(step_record(2)).ok());
    ASSERT_TRUE(put(store, 2, training_state(2)).ok());
  }
  {
    Store store = open_store(folder);
    ASSERT_TRUE(store.append(step_record(3)).ok());
  }
  folder.write("store/" + file_name(FileKind::snapshot, 2), "damaged");
  const Store store = open_store(folder);
  EXPECT_EQ(store.head(), 1u);
  ASSERT_EQ(store.journal().size(), 2u);
  EXPECT_EQ(store.journal()[0], step_record(2));
  EXPECT_EQ(store.journal()[1], step_record(3));
}

/// Steps behind a lost one do not follow the snapshot.
TEST(CheckpointStore, AJournalEndsAtItsFirstLostRecord) {
  TemporaryFolder folder;
  {
    Store store = open_store(folder);
    ASSERT_TRUE(put(store, 1, training_state(1)).ok());
    ASSERT_TRUE(store.append(step_record(2)).ok());
    ASSERT_TRUE(store.append(step_record(3)).ok());
    ASSERT_TRUE(put(store, 2, training_state(2)).ok());
    ASSERT_TRUE(store.append(step_record(4)).ok());
  }
  folder.write("store/" + file_name(FileKind::snapshot, 2), "damaged");
  const std::string name = "store/" + file_name(FileKind::journal, 1);
  std::string bytes = os::read_text_file(os::system_files(), folder.file(name), 1 << 20).value();
  bytes.back() = static_cast<char>(bytes.back() ^ 4);
  folder.write(name, bytes);
  const Store store = open_store(folder);
  EXPECT_EQ(store.head(), 1u);
  ASSERT_EQ(store.journal().size(), 1u);
  EXPECT_EQ(store.journal()[0], step_record(2));
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
}  // namespace graft::test::store_test
