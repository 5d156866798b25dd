// ctest: slow
// 10,000 snapshots of a small model: opening and listing them takes a few calls of the file system for each.
#include <gtest/gtest.h>

#include "runtime/checkpoint/store.h"
#include "tests/support/fault_files.h"
#include "tests/support/store_script.h"
#include "tests/support/temporary_folder.h"

namespace graft::test::many_snapshots_test {
namespace {

using checkpoint::Store;
using checkpoint::StoreMode;

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
}

}  // namespace
}  // namespace graft::test::many_snapshots_test
