// tools/dev/read_checkpoint.py, written from CHECKPOINT_FORMAT.md alone, and the store agree byte for byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <set>

#include "runtime/checkpoint/store.h"
#include "tests/support/files/store_script.h"
#include "tests/support/files/temporary_folder.h"
#include "tests/support/paths.h"

namespace graft::test::reader_test {
namespace {

using namespace checkpoint;
using Bytes = std::vector<std::byte>;

int read_with_script(const std::string& arguments) {
  return std::system(cat("python3 -B ", source_dir(), "/tools/dev/read_checkpoint.py ", arguments).c_str());
}

struct Written {
  std::string name;
  Element element;
  Bytes bytes;
};

/// Streams that between them call for every codec, and whose sizes end chunks anywhere.
std::vector<Written> streams_of(int step) {
  std::mt19937 random(5);
  const auto bytes_of = [](const auto& values) {
    const auto bytes = std::as_bytes(std::span(values));
    return Bytes(bytes.begin(), bytes.end());
  };
  std::vector<float> moving(3000);
  std::vector<std::uint16_t> rare(5000);
  Bytes noise(2001), flipped(6003);
  for (float& value : moving) value = static_cast<float>(random() % 2000) * 1e-3f - 1.0f;
  for (std::uint16_t& value : rare) value = static_cast<std::uint16_t>(random());
  for (std::byte& byte : flipped) byte = static_cast<std::byte>(random());
  random.seed(static_cast<unsigned>(step));
  for (float& value : moving) value *= 1.0f + 1e-6f * static_cast<float>(random() % 100) * static_cast<float>(step);
  for (std::size_t i = 0; i < 40; ++i) rare[random() % rare.size()] += static_cast<std::uint16_t>(step);
  for (std::byte& byte : noise) byte = static_cast<std::byte>(random());
  for (std::byte& byte : flipped) byte ^= static_cast<std::byte>(step != 1 && random() % 3 == 0 ? 1 : 0);
  return {{"moving", Element::f32, bytes_of(moving)},
          {"rare", Element::bf16, bytes_of(rare)},
          {"noise", Element::bytes, noise},
          {"flipped", Element::boolean, flipped},
          {"none", Element::bytes, {}}};
}

TEST(CheckpointReader, AgreesWithTheStoreOnEveryCodec) {
  if (read_with_script("2> " + TemporaryFolder().file("usage")) == 127 << 8) GTEST_SKIP() << "there is no python3";
  TemporaryFolder folder;
  auto store = Store::open(os::system_files(), folder.file("s"),
                           {.mode = StoreMode::create, .chunk_bytes = 4096, .compaction = {.automatic = false}});
  ASSERT_TRUE(store.ok());
  std::set<Codec> codecs;
  for (int step = 1; step <= 4; ++step) {
    const auto written = streams_of(step);
    std::vector<StreamInput> streams;
    for (const Written& one : written) {
      streams.push_back({one.name, StreamKind::parameter, one.element, one.bytes, one.name == "rare" ? 3u : 0u});
    }
    streams.push_back({.name = "frozen", .frozen = FrozenBytes{{1, 2}, 3}});
    if (step == 4) {
      ASSERT_TRUE(store->prune({.keep_last = 2}).ok() && store->compact().ok());
    }
    checkpoint::SnapshotMeta meta{static_cast<std::uint64_t>(step), 0.5, 7, {"t"}};
    meta.metadata.edit()["k"] = "v";
    ASSERT_TRUE(store->put_snapshot(streams, meta).ok());
    ASSERT_TRUE(store->append(step_record(static_cast<std::uint64_t>(step) + 1)).ok());
    for (const Chunk& chunk : store->snapshots().at(store->head()).chunks) codecs.insert(chunk.codec);
    const std::string out = folder.file(cat("out", step));
    ASSERT_EQ(read_with_script(cat(folder.file("s"), " ", store->head(), " ", out)), 0);
    for (std::size_t i = 0; i < written.size(); ++i) {
      const auto file = os::read_file(os::system_files(), cat(out, "/", written[i].name == "rare" ? 3 : 0, ".", i),
                                      std::uint64_t{1} << 20);
      ASSERT_TRUE(file.ok()) << file.status().message();
      EXPECT_TRUE(std::ranges::equal(file->bytes(), written[i].bytes)) << written[i].name << " of step " << step;
    }
  }
  EXPECT_EQ(codecs.size(), 5u);
  ASSERT_EQ(read_with_script(cat(folder.file("s"), " > ", folder.file("list"))), 0);
  const std::string list = os::read_text_file(os::system_files(), folder.file("list"), 1 << 20).value();
  EXPECT_NE(list.find(cat("\"head\": ", store->head())), std::string::npos);
  EXPECT_NE(list.find("\"frozen\": \"01000000000000000200000000000000\""), std::string::npos);
  EXPECT_NE(list.find("\"k\": \"v\""), std::string::npos);
  EXPECT_NE(list.find("\"step\": 5"), std::string::npos);  // the journal's

  // It checks, too: a flipped bit is an error.
  const std::string name = "s/" + file_name(FileKind::segment, store->head());
  std::string bytes = os::read_text_file(os::system_files(), folder.file(name), 1 << 20).value();
  bytes[100] = static_cast<char>(bytes[100] ^ 1);
  folder.write(name, bytes);
  EXPECT_NE(read_with_script(
                cat(folder.file("s"), " ", store->head(), " ", folder.file("bad"), " 2> ", folder.file("error"))),
            0);
}

}  // namespace
}  // namespace graft::test::reader_test
