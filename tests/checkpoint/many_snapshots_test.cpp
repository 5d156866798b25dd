// ctest: slow
// 10,000 snapshots of a small model: opening and listing them takes a few calls of the file system for each.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "runtime/checkpoint/store.h"
#include "tests/support/files/fault_files.h"
#include "tests/support/files/store_script.h"
#include "tests/support/files/temporary_folder.h"

namespace graft::test::many_snapshots_test {
namespace {

using checkpoint::Store;
using checkpoint::StoreMode;

/// What each snapshot alone refers to, counted plainly.
void expect_own_bytes(const Store& store) {
  std::map<checkpoint::Place, std::pair<std::set<std::uint64_t>, std::uint64_t>> uses;  // by whom, and bytes in all
  for (const auto& [number, manifest] : store.snapshots()) {
    for (const checkpoint::Chunk& chunk : manifest.chunks) {
      auto& use = uses[checkpoint::place_of(chunk)];
      use.first.insert(number);
      use.second += chunk.stored_bytes;
    }
  }
  std::map<std::uint64_t, std::uint64_t> own;
  for (const auto& [place, use] : uses) {
    if (use.first.size() == 1) own[*use.first.begin()] += use.second;
  }
  for (const auto& [number, size] : store.sizes()) ASSERT_EQ(size.own_bytes, own[number]) << number;
}

/// Segments of many chunks, which later snapshots name in other orders, some of them not.
TEST(ManySnapshots, SharesAreCountedInAnyOrder) {
  const TemporaryFolder folder;
  FaultFiles files;
  files.state.skip_sync = true;
  auto store = Store::open(files, folder.file("store"), {StoreMode::create, 64, 4});
  ASSERT_TRUE(store.ok());
  std::mt19937 random(3);
  std::vector<std::array<std::byte, 64>> chunks(200);
  for (auto& chunk : chunks) {
    for (std::byte& byte : chunk) byte = static_cast<std::byte>(random());
  }
  for (std::uint64_t step = 1; step <= 12; ++step) {
    std::vector<std::byte> bytes;
    for (const auto& chunk : chunks) bytes.insert(bytes.end(), chunk.begin(), chunk.end());
    ASSERT_TRUE(put(*store, step, {{"w", bytes}}).ok());
    std::shuffle(chunks.begin(), chunks.end(), random);
    for (int i = 0; i < 20; ++i) chunks[random() % chunks.size()][7] = static_cast<std::byte>(random());
    expect_own_bytes(*store);
  }
}

TEST(ManySnapshots, AreOpenedAndListedWithAFewCallsEach) {
  const TemporaryFolder folder;
  const std::string path = folder.file("store");
  constexpr std::uint64_t kFirst = 1250, kAll = 10000;
  FaultFiles unsynced;
  unsynced.state.skip_sync = true;
  auto store = Store::open(unsynced, path, {StoreMode::create, 1024, 4});
  ASSERT_TRUE(store.ok());
  // Calls of the file system: none fails.
  const auto calls = [&](std::uint64_t count) {
    FaultFiles files;
    const auto read = Store::open(files, path, {StoreMode::read_only});
    EXPECT_TRUE(read.ok());
    EXPECT_EQ(read.ok() ? read->sizes().size() : 0, count);
    return files.state.calls;
  };
  std::uint64_t few = 0;
  const std::vector<std::byte> same(64);  // stays in the first segment, to which all refer
  for (std::uint64_t step = 1; step <= kAll; ++step) {
    const auto report =
        put(*store, step, {{"w", std::vector<std::byte>(64, static_cast<std::byte>(step))}, {"same", same}});
    ASSERT_TRUE(report.ok()) << report.status().message();
    if (step == kFirst) few = calls(kFirst);
  }
  // A manifest is opened, its size asked and its bytes read, and the size of its own segment asked; closing is not
  // counted.
  EXPECT_LE(calls(kAll) - few, 4 * (kAll - kFirst));

  // Threads read the tables into memory that goes with the last of them; copies are on their own.
  FaultFiles files;
  std::vector<checkpoint::Manifest> copies;
  {
    const auto read = Store::open(files, path, {StoreMode::read_only});
    ASSERT_TRUE(read.ok());
    expect_own_bytes(*read);
    for (const auto& [number, manifest] : read->snapshots()) {
      if (number % 100 == 0) copies.push_back(manifest);
    }
  }
  ASSERT_FALSE(copies.empty());
  for (const checkpoint::Manifest& copy : copies) {
    const checkpoint::Manifest& written = store->snapshots().at(copy.number);
    EXPECT_EQ(copy.indices, written.indices);
    EXPECT_TRUE(std::equal(copy.chunks.begin(), copy.chunks.end(), written.chunks.begin(), written.chunks.end(),
                           [](const auto& a, const auto& b) { return a.hash == b.hash && a.parent == b.parent; }));
  }
}

}  // namespace
}  // namespace graft::test::many_snapshots_test
