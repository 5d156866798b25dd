// The worked example of schema/CHECKPOINT_FORMAT.md, byte for byte, and its limits.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "runtime/checkpoint/store.h"
#include "tests/support/paths.h"
#include "tests/support/files/power_files.h"

namespace graft::test::example_test {
namespace {

using namespace checkpoint;

std::string document() {
  std::ifstream file(source_dir() + "/schema/CHECKPOINT_FORMAT.md");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The bytes of a block that begins with "```hex NAME".
PowerFiles::Bytes block(const std::string& text, const std::string& name) {
  PowerFiles::Bytes bytes;
  const std::string start = "```hex " + name + "\n";
  std::size_t at = text.find(start);
  if (at == std::string::npos) return bytes;
  at += start.size();
  std::istringstream words(text.substr(at, text.find("```", at) - at));
  for (std::string word; words >> word;) {
    for (std::size_t i = 0; i + 1 < word.size(); i += 2) {
      bytes.push_back(static_cast<std::byte>(std::stoi(word.substr(i, 2), nullptr, 16)));
    }
  }
  return bytes;
}

JournalRecord record(std::uint64_t step, std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  return {1, step, {bytes.begin(), bytes.end()}};
}

PowerFiles::Image example() {
  PowerFiles files;
  auto store = Store::open(files, "s", {StoreMode::create, 64, 8, false, 0x1122334455667788});
  GRAFT_CHECK(store.ok());
  GRAFT_CHECK(store->append(record(1, "ab")).ok());
  const float weights[] = {1.0f, 2.0f};
  // "w" has the sizes 2 and 1, and its axes are the source's axes 1 and 0.
  constexpr std::string_view kLayouts("\1\0\0\0w\2\0\0\0\2\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\1\0\0\0\0\0\0\0", 37);
  const std::vector<StreamInput> streams = {
      {"w", StreamKind::parameter, Element::f32, std::as_bytes(std::span(weights))},
      {"tensor_layouts", StreamKind::config, Element::bytes, std::as_bytes(std::span(kLayouts))}};
  GRAFT_CHECK(store->put_snapshot(streams, {1, 0.5, 1000, {}, {}}).ok());
  GRAFT_CHECK(store->append(record(2, "cd")).ok());
  return files.contents();
}

void print_block(const std::string& name, const PowerFiles::Bytes& bytes) {
  std::printf("```hex %s", name.c_str());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::printf("%s%02x", i % 32 == 0 ? "\n" : i % 8 == 0 ? " " : "", static_cast<unsigned>(bytes[i]));
  }
  std::printf("\n```\n");
}

TEST(CheckpointFormat, TheDocumentsExampleIsWhatTheStoreWrites) {
  const std::string text = document();
  const auto image = example();
  ASSERT_EQ(image.size(), 5u);
  for (const auto& [path, bytes] : image) {
    const std::string name = path.substr(2);
    const bool same = block(text, name) == bytes;
    EXPECT_TRUE(same) << name;
    if (!same) print_block(name, bytes);
  }
}

TEST(CheckpointFormat, TheDocumentsExampleIsReadBack) {
  PowerFiles::Image image;
  for (const char* name : {"ROOT", "journal-0000000000000000", "journal-0000000000000001", "segment-0000000000000001",
                           "snapshot-0000000000000001"}) {
    image[std::string("s/") + name] = block(document(), name);
  }
  PowerFiles files(image);
  const auto store = Store::open(files, "s", {StoreMode::read_only});
  ASSERT_TRUE(store.ok()) << store.status().message();
  EXPECT_TRUE(store->notes().empty());
  EXPECT_EQ(store->head(), 1u);
  float weights[2] = {};
  ASSERT_TRUE(store->restore(1, "w", std::as_writable_bytes(std::span(weights))).ok());
  EXPECT_EQ(weights[1], 2.0f);
  ASSERT_EQ(store->journal().size(), 1u);
  EXPECT_EQ(store->journal()[0], record(2, "cd"));
}

TEST(CheckpointFormat, TheDocumentNamesTheLimitsOfTheCode) {
  const std::string text = document();
  for (const std::uint64_t limit :
       {std::uint64_t{kMaxChunkBytes}, std::uint64_t{kMinChunkBytes}, std::uint64_t{kMaxChain}, kMaxSnapshotFileBytes,
        kMaxJournalBytes, std::uint64_t{kMaxRecordBytes}, kMaxListed, std::uint64_t{kMaxNameBytes}}) {
    EXPECT_NE(text.find("| " + std::to_string(limit) + " |"), std::string::npos) << limit;
  }
}

}  // namespace
}  // namespace graft::test::example_test
