// ctest: slow
// 10,000 snapshots of a small model: opening and listing them takes time in proportion to their number.
#include <gtest/gtest.h>

#include <cstdio>

#include "platform/os/clock.h"
#include "runtime/checkpoint/store.h"
#include "tests/support/store_script.h"
#include "tests/support/temporary_folder.h"

namespace graft::test::many_snapshots_test {
namespace {

using checkpoint::Store;
using checkpoint::StoreMode;

TEST(ManySnapshots, AreOpenedAndListedInLinearTime) {
  const TemporaryFolder folder;
  const std::string path = folder.file("store");
  constexpr std::uint64_t kFirst = 1250, kAll = 10000;
  auto store = Store::open(os::system_files(), path, {StoreMode::create, 1024, 4});
  ASSERT_TRUE(store.ok());
  // The fastest of three: another process may have taken the time of the others.
  const auto seconds = [&](std::uint64_t count) {
    double fastest = 1e9;
    for (int run = 0; run < 3; ++run) {
      const os::Stopwatch watch;
      const auto read = Store::open(os::system_files(), path, {StoreMode::read_only});
      EXPECT_TRUE(read.ok());
      EXPECT_EQ(read.ok() ? read->sizes().size() : 0, count);
      fastest = std::min(fastest, watch.seconds());
    }
    return fastest;
  };
  double few = 0;
  for (std::uint64_t step = 1; step <= kAll; ++step) {
    const auto report = put(*store, step, {{"w", std::vector<std::byte>(64, static_cast<std::byte>(step))}});
    ASSERT_TRUE(report.ok()) << report.status().message();
    if (step == kFirst) few = seconds(kFirst);
  }
  const double all = seconds(kAll);
  std::printf("%llu snapshots in %.3f s, %llu in %.3f s\n", static_cast<unsigned long long>(kFirst), few,
              static_cast<unsigned long long>(kAll), all);
  // Eight times as many: linear is 8, with sorting and colder caches some more; quadratic would be 64.
  EXPECT_LT(all, 20 * few);
}

}  // namespace
}  // namespace graft::test::many_snapshots_test
