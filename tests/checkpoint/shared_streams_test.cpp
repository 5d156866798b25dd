// Snapshots share what their streams are with the one before, and only with one that says the same.
#include <gtest/gtest.h>

#include "runtime/checkpoint/snapshot_writer.h"
#include "runtime/checkpoint/store.h"
#include "tests/support/files/power_files.h"

namespace graft::test::shared_streams_test {
namespace {

using namespace checkpoint;

Result<PutReport> put_streams(Store& store, const std::vector<StreamInput>& streams) {
  return store.put_snapshot(streams, SnapshotMeta{.step = 1});
}

TEST(SharedStreams, AreThoseThatTheSnapshotWasMadeOf) {
  const std::vector<std::byte> bytes(200, std::byte{7}), longer(201, std::byte{7});
  const StreamInput plain{.name = "w", .kind = StreamKind::parameter, .element = Element::f32, .bytes = bytes};
  std::vector<std::pair<std::string, StreamInput>> changes = {{"as before", plain}, {"name", plain},  {"kind", plain},
                                                              {"element", plain},   {"bytes", plain}, {"worker", plain},
                                                              {"frozen", plain},    {"hash", plain}};
  changes[1].second.name = "v";
  changes[2].second.kind = StreamKind::optimizer;
  changes[3].second.element = Element::i32;
  changes[4].second.bytes = longer;
  changes[5].second.worker = 2;
  changes[6].second.bytes = {};
  changes[6].second.frozen = FrozenBytes{hash128(bytes), bytes.size()};
  changes[7].second = changes[6].second;
  changes[7].second.frozen->hash.low ^= 1;
  const StreamInput other{.name = "other", .bytes = bytes};
  for (const auto& [what, changed] : changes) {
    PowerFiles files;
    std::map<std::uint64_t, Manifest> written;
    {
      auto store = Store::open(files, "s", {StoreMode::create, 64, 4});
      ASSERT_TRUE(store.ok());
      const StreamInput& first = what == "hash" ? changes[6].second : plain;
      ASSERT_TRUE(put_streams(*store, {other, first}).ok());
      ASSERT_TRUE(put_streams(*store, {other, changed}).ok()) << what;
      ASSERT_TRUE(put_streams(*store, {other, changed,
                                       first.name == changed.name && changed.worker == 0
                                           ? StreamInput{.name = "third", .bytes = bytes}
                                           : first})
                      .ok());
      written = store->snapshots();
    }
    const auto store = Store::open(files, "s", {StoreMode::read_only});
    ASSERT_TRUE(store.ok()) << store.status().message();
    ASSERT_EQ(store->snapshots().size(), 3u);
    for (const auto& [number, manifest] : store->snapshots()) {
      EXPECT_EQ(*manifest.streams, *written.at(number).streams) << what;
      EXPECT_EQ(manifest.indices, written.at(number).indices) << what;
    }
    for (const auto* manifests :
         {&store->snapshots(), static_cast<const std::map<std::uint64_t, Manifest>*>(&written)}) {
      EXPECT_EQ(manifests->at(1).streams.is(manifests->at(2).streams), what == "as before") << what;
      EXPECT_FALSE(manifests->at(2).streams.is(manifests->at(3).streams)) << what;
    }
  }
}

}  // namespace
}  // namespace graft::test::shared_streams_test
