// Stores written to do harm: refused before memory is taken, and never followed out of their folder.
#include <gtest/gtest.h>
#include <zstd.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <random>

#include "tests/support/heap_count.h"
#include "tests/support/files/power_files.h"
#include "tests/support/files/store_script.h"

namespace graft::test::hostile_test {
namespace {

using namespace checkpoint;

constexpr std::uint64_t kStore = 77;

PowerFiles::Bytes join(std::span<const std::byte> a, std::span<const std::byte> b) {
  PowerFiles::Bytes bytes(a.begin(), a.end());
  bytes.insert(bytes.end(), b.begin(), b.end());
  return bytes;
}

/// One snapshot of one stream "w" of one chunk of 64 zero bytes, stored as they are.
Manifest plain_manifest() {
  const std::vector<std::byte> zeros(64);
  Manifest manifest;
  manifest.number = 1;
  manifest.chunk_bytes = 64;
  Chunk chunk;
  chunk.hash = hash128(zeros);
  chunk.segment = 1;
  chunk.offset = kHeaderBytes;
  chunk.stored_checksum = checksum64(zeros);
  chunk.stored_bytes = chunk.decoded_bytes = 64;
  manifest.chunks = {chunk};
  manifest.streams.edit() = {{.name = "w", .element = Element::f32, .bytes = 64, .count = 1}};
  manifest.indices = {0};
  return manifest;
}

/// A whole store with right checksums, whatever the manifest says.
PowerFiles::Image store_of(const Manifest& manifest, std::span<const std::byte> stored) {
  const auto tables = encode_tables(manifest);
  PowerFiles::Image image;
  image["s/ROOT"] = join(write_header({FileKind::root, kStore, 2, 1, 1}), {});
  image["s/" + file_name(FileKind::journal, 1)] =
      join(write_header({FileKind::journal, kStore, 1, 1, ~std::uint64_t{0}, 0}), {});
  image["s/" + file_name(FileKind::segment, 1)] = join(write_header({FileKind::segment, kStore, 1}), stored);
  image["s/" + file_name(FileKind::snapshot, 1)] =
      join(write_header({FileKind::snapshot, kStore, 1, tables.size(), manifest.parent}, tables), tables);
  return image;
}

Result<Store> open_image(PowerFiles& files) { return Store::open(files, "s", {StoreMode::read_only}); }

TEST(CheckpointHostile, ThePlainStoreIsGood) {
  const std::vector<std::byte> zeros(64);
  PowerFiles files(store_of(plain_manifest(), zeros));
  const auto store = open_image(files);
  ASSERT_TRUE(store.ok()) << store.status().message();
  EXPECT_EQ(store->head(), 1u);
  EXPECT_TRUE(store->verify(1).ok());
}

TEST(CheckpointHostile, TablesThatBreakARuleAreRefusedBeforeAnythingIsDecoded) {
  using Change = std::function<void(Manifest&)>;
  const auto chain = [](Manifest& m, std::uint32_t length) {
    for (std::uint32_t i = 1; i < length; ++i) {
      m.chunks.push_back(m.chunks[0]);
      m.chunks.back().codec = Codec::xor_planes;
      m.chunks.back().parent = i - 1;
    }
  };
  const std::map<std::string, Change> changes = {
      {"10,000-long chain", [&](Manifest& m) { chain(m, 10000); }},
      {"chain one too long", [&](Manifest& m) { chain(m, kMaxChain + 1); }},
      {"own parent", [](Manifest& m) { m.chunks[0].codec = Codec::xor_planes, m.chunks[0].parent = 0; }},
      {"circle",
       [&](Manifest& m) {
         chain(m, 3);
         m.chunks[1].parent = 2;
       }},
      {"parent without codec", [&](Manifest& m) { chain(m, 2), m.chunks[1].codec = Codec::planes; }},
      {"codec without parent", [](Manifest& m) { m.chunks[0].codec = Codec::delta_planes; }},
      {"huge stream", [](Manifest& m) { m.streams.edit()[0].bytes = std::uint64_t{1} << 60; }},
      {"largest stream", [](Manifest& m) { m.streams.edit()[0].bytes = ~std::uint64_t{0}; }},
      {"missing chunk", [](Manifest& m) { m.indices = {9}; }},
      {"huge chunk", [](Manifest& m) { m.chunk_bytes = 1u << 31, m.chunks[0].decoded_bytes = 1u << 31; }},
      {"chunk larger than chunks", [](Manifest& m) { m.chunks[0].decoded_bytes = 65; }},
      {"no chunk size", [](Manifest& m) { m.chunk_bytes = 0; }},
      {"empty chunk", [](Manifest& m) { m.chunks[0].stored_bytes = 0; }},
      {"stored larger than decoded", [](Manifest& m) { m.chunks[0].stored_bytes = 0xffffffff; }},
      {"offset that overflows", [](Manifest& m) { m.chunks[0].offset = ~std::uint64_t{0} - 3; }},
      {"offset in the header", [](Manifest& m) { m.chunks[0].offset = 8; }},
      {"offset past the end", [](Manifest& m) { m.chunks[0].offset = 4096; }},
      {"segment of the future", [](Manifest& m) { m.chunks[0].segment = 2; }},
      {"segment 0", [](Manifest& m) { m.chunks[0].segment = 0; }},
      {"unknown codec", [](Manifest& m) { m.chunks[0].codec = static_cast<Codec>(9); }},
      {"elements of 8 bytes", [](Manifest& m) { m.chunks[0].element_bytes = 8; }},
      {"elements of 0 bytes", [](Manifest& m) { m.chunks[0].element_bytes = 0; }},
      {"same name twice", [](Manifest& m) { m.streams.edit().push_back((*m.streams)[0]); }},
      {"no name", [](Manifest& m) { m.streams.edit()[0].name.clear(); }},
      {"zero byte in a name", [](Manifest& m) { m.streams.edit()[0].name = std::string("a\0b", 3); }},
      {"parent of itself", [](Manifest& m) { m.parent = 1; }},
  };
  const std::vector<std::byte> zeros(64);
  for (const auto& [name, change] : changes) {
    Manifest manifest = plain_manifest();
    change(manifest);
    PowerFiles files(store_of(manifest, zeros));
    const std::uint64_t before = heap_bytes_asked_for();
    const auto store = open_image(files);
    EXPECT_LT(heap_bytes_asked_for() - before, 4u << 20) << name;  // the longest chain's tables have 1 MiB
    ASSERT_TRUE(store.ok()) << name << ": " << store.status().message();
    EXPECT_EQ(store->damaged().count(1), 1u) << name;
    EXPECT_EQ(store->head(), 0u) << name;
    EXPECT_FALSE(store->restore(1, "w", std::uint64_t{1} << 20).ok()) << name;
  }
}

TEST(CheckpointHostile, ABombFillsNoMoreThanItsDeclaredSize) {
  const std::vector<std::byte> large(std::size_t{64} << 20);
  std::vector<std::byte> bomb(ZSTD_compressBound(large.size()));
  bomb.resize(ZSTD_compress(bomb.data(), bomb.size(), large.data(), large.size(), 19));
  Manifest manifest = plain_manifest();
  manifest.chunk_bytes = kMaxChunkBytes;
  manifest.streams.edit()[0].bytes = kMaxChunkBytes;
  Chunk& chunk = manifest.chunks[0];
  chunk.decoded_bytes = kMaxChunkBytes;
  chunk.stored_bytes = static_cast<std::uint32_t>(bomb.size());
  chunk.stored_checksum = checksum64(bomb);
  chunk.compression = Compression::zstd;
  PowerFiles files(store_of(manifest, bomb));
  const auto store = open_image(files);
  ASSERT_TRUE(store.ok());
  const std::uint64_t before = heap_bytes_asked_for();
  EXPECT_EQ(store->verify(1).code(), Code::corrupt);
  EXPECT_LT(heap_bytes_asked_for() - before, 3u * kMaxChunkBytes);
}

TEST(CheckpointHostile, ASparseChunkThatDeclaresMoreThanItHasIsRefused) {
  for (const std::uint32_t count : {17u, 0x40000000u, 0xffffffffu}) {
    std::vector<std::byte> stored(64);
    std::memcpy(&stored[32], &count, 4);  // the chunk that follows the 32 bytes of zeros
    Manifest manifest = plain_manifest();
    manifest.streams.edit()[0].bytes = 32;
    Chunk& parent = manifest.chunks[0];
    parent.stored_bytes = parent.decoded_bytes = 32;
    parent.hash = hash128(std::span(stored).first(32));
    parent.stored_checksum = checksum64(std::span(stored).first(32));
    Chunk child = parent;
    child.offset += 32;
    child.codec = Codec::sparse;
    child.element_bytes = 4;
    child.parent = 0;
    child.stored_checksum = checksum64(std::span(stored).last(32));
    manifest.chunks.push_back(child);
    manifest.indices = {1};
    PowerFiles files(store_of(manifest, stored));
    const auto store = open_image(files);
    ASSERT_TRUE(store.ok() && store->damaged().empty());
    const std::uint64_t before = heap_bytes_asked_for();
    EXPECT_EQ(store->verify(1).code(), Code::corrupt);
    EXPECT_LT(heap_bytes_asked_for() - before, 1u << 20);
  }
}

TEST(CheckpointHostile, AStreamThatRepeatsOneChunkTakesNoMoreThanTheLimit) {
  Manifest manifest = plain_manifest();
  manifest.indices.assign(1 << 20, 0);
  manifest.streams.edit()[0].count = 1 << 20;
  manifest.streams.edit()[0].bytes = std::uint64_t{64} << 20;
  const std::vector<std::byte> zeros(64);
  PowerFiles files(store_of(manifest, zeros));
  const auto store = open_image(files);
  ASSERT_TRUE(store.ok());
  const auto restored = store->restore(1, "w", std::uint64_t{1} << 20);
  ASSERT_FALSE(restored.ok());
  EXPECT_EQ(restored.status().code(), Code::invalid_argument);
}

TEST(CheckpointHostile, NamesInTheFolderAndInTablesAreNeverPaths) {
  Manifest manifest = plain_manifest();
  manifest.streams.edit()[0].name = "../../etc/passwd";
  const std::vector<std::byte> zeros(64);
  auto image = store_of(manifest, zeros);
  const auto copy = image.at("s/" + file_name(FileKind::snapshot, 1));
  for (const char* name : {"s/snapshot-..%2f..%2f00000001", "s/snapshot-00000000000000FF", "s/snapshot-1",
                           "s/snapshot-000000000000000g", "s/snapshot-00000000000000001"}) {
    image[name] = copy;
  }
  PowerFiles files(image);
  const auto store = open_image(files);
  ASSERT_TRUE(store.ok());
  EXPECT_EQ(store->snapshots().size(), 1u);
  EXPECT_TRUE(store->damaged().empty());
  EXPECT_TRUE(store->restore(1, "../../etc/passwd", 64).ok());  // a name like any other, looked up in the table
  EXPECT_EQ(files.contents(), image);
}

TEST(CheckpointHostile, FilesOfAnotherStoreOrNumberAreRefused) {
  const std::vector<std::byte> zeros(64);
  const auto image = store_of(plain_manifest(), zeros);
  for (const FileKind kind : {FileKind::snapshot, FileKind::segment}) {
    for (const auto& [store_id, number] :
         {std::pair(kStore + 1, std::uint64_t{1}), std::pair(kStore, std::uint64_t{5})}) {
      auto changed = image;
      auto& bytes = changed.at("s/" + file_name(kind, 1));
      const auto body = std::vector<std::byte>(bytes.begin() + kHeaderBytes, bytes.end());
      const bool snapshot = kind == FileKind::snapshot;
      bytes = join(write_header({kind, store_id, number, snapshot ? body.size() : 0},
                                snapshot ? std::span<const std::byte>(body) : std::span<const std::byte>()),
                   body);
      PowerFiles files(changed);
      const auto store = open_image(files);
      ASSERT_TRUE(store.ok());
      EXPECT_EQ(store->damaged().count(1), 1u);
    }
  }
}

TEST(CheckpointHostile, FilesThatSayOtherThanRootWhetherTheyAreEncryptedAreRefused) {
  const std::vector<std::byte> zeros(64);
  const auto tables = encode_tables(plain_manifest());
  const auto image = store_of(plain_manifest(), zeros);
  const std::map<std::string, PowerFiles::Bytes> changes = {
      {"s/" + file_name(FileKind::segment, 1),
       join(write_header({FileKind::segment, kStore, 1, 0, 0, 0, true}), zeros)},
      {"s/" + file_name(FileKind::snapshot, 1),
       join(write_header({FileKind::snapshot, kStore, 1, tables.size(), 0, 0, true}, tables), tables)}};
  for (const auto& [path, bytes] : changes) {
    auto changed = image;
    changed[path] = bytes;
    PowerFiles files(changed);
    const auto store = open_image(files);
    ASSERT_TRUE(store.ok()) << path;
    ASSERT_EQ(store->damaged().count(1), 1u) << path;
    EXPECT_NE(store->damaged().at(1).find("encrypted, unlike its store"), std::string::npos);
  }
  auto changed = image;
  changed["s/ROOT"] = join(write_header({FileKind::root, kStore, 2, 1, 1, 0, true}), {});
  PowerFiles files(changed);
  EXPECT_FALSE(open_image(files).ok());
}

TEST(CheckpointHostile, RootsAndJournalsThatLieAreRefused) {
  const std::vector<std::byte> zeros(64);
  const auto image = store_of(plain_manifest(), zeros);
  for (const Header& root : {Header{FileKind::root, kStore, 0, 0, 0}, Header{FileKind::root, kStore, 2, 2, 1},
                             Header{FileKind::root, kStore, 2, 1, 9}}) {
    auto changed = image;
    changed["s/ROOT"] = join(write_header(root), {});
    PowerFiles files(changed);
    const auto store = open_image(files);
    ASSERT_TRUE(store.ok());  // the journal stands in
    EXPECT_EQ(store->head(), 1u);
    EXPECT_FALSE(store->notes().empty());
  }
  auto changed = image;
  auto& journal = changed.at("s/" + file_name(FileKind::journal, 1));
  journal.insert(journal.end(), 64, std::byte{0xff});  // a frame of 4 GiB
  PowerFiles files(changed);
  const auto store = open_image(files);
  ASSERT_TRUE(store.ok());
  EXPECT_TRUE(store->journal().empty());
  EXPECT_FALSE(store->notes().empty());
}

TEST(CheckpointHostile, EveryTruncationOfTheTablesIsRefused) {
  const auto tables = encode_tables(plain_manifest());
  // The last bytes may be padding after a text, which means nothing: up to 3 of them may go.
  for (std::size_t size = 0; size + 3 < tables.size(); ++size) {
    const auto part = std::span<const std::byte>(tables).first(size);
    const auto bytes = join(write_header({FileKind::snapshot, kStore, 1, size, 0}, part), part);
    EXPECT_FALSE(Sealer(nullptr, kStore).decode_snapshot(bytes, 1).ok()) << size;
  }
}

TEST(CheckpointHostile, MutatedTablesWithRightChecksumsNeverGiveWrongBytes) {
  const std::vector<std::byte> zeros(64);
  const auto good = encode_tables(plain_manifest());
  std::mt19937 random(11);
  std::size_t refused = 0, restored = 0;
  constexpr int kMutations = 20000;
  for (int i = 0; i < kMutations; ++i) {
    auto tables = good;
    for (unsigned n = 1 + random() % 3; n > 0; --n) {
      const unsigned char values[] = {0, 1, 0x7f, 0x80, 0xff, static_cast<unsigned char>(random())};
      tables[random() % tables.size()] = static_cast<std::byte>(values[random() % 6]);
    }
    auto image = store_of(plain_manifest(), zeros);
    image["s/" + file_name(FileKind::snapshot, 1)] =
        join(write_header({FileKind::snapshot, kStore, 1, tables.size()}, tables), tables);
    PowerFiles files(image);
    const auto store = open_image(files);
    ASSERT_TRUE(store.ok()) << i;
    refused += store->damaged().size();
    (void)store->verify();
    const auto bytes = store->restore(1, "w", 1 << 20);
    if (!bytes.ok() || bytes->size() != 64) continue;
    ++restored;  // the mutation hit nothing that the bytes depend on
    EXPECT_TRUE(std::equal(zeros.begin(), zeros.end(), bytes->bytes().begin())) << i;
  }
  std::printf("%d mutations: %zu refused at opening, %zu restored\n", kMutations, refused, restored);
  EXPECT_GT(refused, 1000u);
  EXPECT_GT(restored, 1000u);
}

}  // namespace
}  // namespace graft::test::hostile_test
