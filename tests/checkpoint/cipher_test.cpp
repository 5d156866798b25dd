// ctest: middle
// Encrypted stores, with a real cipher: nothing readable is stored, and whatever is wrong is said in one sentence.
#include "runtime/checkpoint/cipher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "runtime/checkpoint/store.h"
#include "tests/support/files/power_files.h"
#include "tests/support/files/store_faults.h"
#include "tests/support/files/store_script.h"
#include "tests/support/files/test_cipher.h"

namespace graft::test::cipher_test {
namespace {

using namespace checkpoint;

class CheckpointCipher : public testing::Test {
 protected:
  void SetUp() override {
    if (cipher_ == nullptr) GTEST_SKIP() << "built without OpenSSL (Debian's libssl-dev)";
  }

  StoreOptions options(StoreMode mode = StoreMode::create) const {
    return {.mode = mode,
            .chunk_bytes = 512,
            .max_chain = 3,
            .identity = 4321,
            .compaction = {.min_gain = 0, .min_gain_bytes = 0},
            .cipher = cipher_.get()};
  }

  /// Two snapshots, and a step after each.
  PowerFiles::Image written() const {
    PowerFiles files;
    auto store = Store::open(files, "s", options());
    GRAFT_CHECK(store.ok());
    for (std::uint64_t step = 1; step <= 2; ++step) {
      GRAFT_CHECK(put(*store, step, training_state(step)).ok());
      GRAFT_CHECK(store->append(step_record(step + 1)).ok());
    }
    return files.contents();
  }

  std::unique_ptr<Cipher> cipher_ = make_cipher(7);
};

bool holds(const PowerFiles::Image& image, std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  return std::any_of(image.begin(), image.end(), [&](const auto& file) {
    return std::search(file.second.begin(), file.second.end(), bytes.begin(), bytes.end()) != file.second.end();
  });
}

TEST_F(CheckpointCipher, AStoreComesBackAndNothingOfItIsReadable) {
  const auto image = written();
  PowerFiles plain_files;
  {
    StoreOptions plain = options();
    plain.cipher = nullptr;
    auto store = Store::open(plain_files, "s", plain);
    ASSERT_TRUE(store.ok() && put(*store, 1, training_state(1)).ok());
    ASSERT_TRUE(store->append({1, 2, {std::byte{'a'}, std::byte{'b'}, std::byte{'c'}, std::byte{'d'}}}).ok());
  }
  for (const char* text : {"weight", "moment", "model", "script", "even"}) {
    EXPECT_FALSE(holds(image, text)) << text;
    EXPECT_TRUE(text == std::string("even") || holds(plain_files.contents(), text)) << text;
  }
  PowerFiles files(image);
  const auto store = Store::open(files, "s", options(StoreMode::read_only));
  ASSERT_TRUE(store.ok()) << store.status().message();
  EXPECT_TRUE(store->notes().empty());
  EXPECT_TRUE(store->verify().value().problems.empty());
  const auto state = read_state(*store);
  ASSERT_TRUE(state.ok());
  EXPECT_EQ(state->streams, training_state(2));
  EXPECT_EQ(state->journal, std::vector<std::uint64_t>{3});
}

TEST_F(CheckpointCipher, AnotherKeyNoKeyAndAKeyTooManyAreRefused) {
  const auto image = written();
  const auto other = make_cipher(8);
  for (const StoreMode mode : {StoreMode::read_only, StoreMode::create}) {
    PowerFiles files(image);
    ASSERT_TRUE(files.make_directory("s").ok());
    StoreOptions wrong = options(mode), none = options(mode);
    wrong.cipher = other.get();
    none.cipher = nullptr;
    const auto with_wrong = Store::open(files, "s", wrong), with_none = Store::open(files, "s", none);
    ASSERT_FALSE(with_wrong.ok() || with_none.ok());
    EXPECT_NE(with_wrong.status().message().find("The key is not the one"), std::string::npos)
        << with_wrong.status().message();
    EXPECT_NE(with_none.status().message().find("is encrypted"), std::string::npos) << with_none.status().message();
    EXPECT_EQ(files.contents(), image);  // nothing was touched
  }
  auto rootless = image;
  rootless.erase("s/ROOT");
  PowerFiles files(rootless);
  StoreOptions wrong = options(StoreMode::read_only);
  wrong.cipher = other.get();
  const auto refused = Store::open(files, "s", wrong);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("The key is not the one"), std::string::npos) << refused.status().message();
  const auto recovered = Store::open(files, "s", options(StoreMode::read_only));
  ASSERT_TRUE(recovered.ok());
  EXPECT_EQ(recovered->head(), 2u);

  PowerFiles plain_files;
  StoreOptions plain = options();
  plain.cipher = nullptr;
  ASSERT_TRUE(Store::open(plain_files, "s", plain).ok());
  const auto too_many = Store::open(plain_files, "s", options(StoreMode::read_only));
  ASSERT_FALSE(too_many.ok());
  EXPECT_NE(too_many.status().message().find("not encrypted"), std::string::npos) << too_many.status().message();
}

TEST_F(CheckpointCipher, TamperedAndSwappedChunksAreNamed) {
  const auto image = written();
  PowerFiles clean(image);
  const auto store = Store::open(clean, "s", options(StoreMode::read_only));
  ASSERT_TRUE(store.ok());
  const auto& chunks = store->snapshots().at(1).chunks;
  const Chunk* first = nullptr;
  const Chunk* second = nullptr;
  for (const Chunk& chunk : chunks) {
    if (first == nullptr) first = &chunk;
    if (chunk.stored_bytes == first->stored_bytes && place_of(chunk) != place_of(*first)) second = &chunk;
  }
  ASSERT_NE(second, nullptr);  // chunks that do not shrink have one size
  const std::string segment = "s/" + file_name(FileKind::segment, 1);
  const Sealer sealer(cipher_.get(), 4321);
  const auto read = [&](const PowerFiles::Image& from, const Chunk& chunk) {
    PowerFiles files(from);
    Chunk claimed = chunk;  // the attacker mends the checksum, which anyone can compute
    const auto stored = std::span(from.at(segment)).subspan(chunk.offset, chunk.stored_bytes);
    claimed.stored_checksum = checksum64(stored);
    const auto opened = sealer.open(sealer.bound_to(claimed), stored, "chunk");
    return opened.ok() ? std::string() : opened.status().message();
  };
  EXPECT_EQ(read(image, *first), "");
  auto tampered = image;
  tampered[segment][first->offset + first->stored_bytes - 1] ^= std::byte{1};  // its tag
  EXPECT_NE(read(tampered, *first).find("tampered with"), std::string::npos) << read(tampered, *first);
  auto swapped = image;
  std::swap_ranges(swapped[segment].begin() + static_cast<std::ptrdiff_t>(first->offset),
                   swapped[segment].begin() + static_cast<std::ptrdiff_t>(first->offset + first->stored_bytes),
                   swapped[segment].begin() + static_cast<std::ptrdiff_t>(second->offset));
  EXPECT_NE(read(swapped, *first).find("tampered with"), std::string::npos);
  EXPECT_NE(read(swapped, *second).find("tampered with"), std::string::npos);
}

TEST_F(CheckpointCipher, TamperedTablesAndRecordsAreSteppedBackFrom) {
  const auto image = written();
  // Tables: a byte changed, the checksum mended.
  auto changed = image;
  auto& snapshot = changed.at("s/" + file_name(FileKind::snapshot, 2));
  snapshot[kHeaderBytes + 40] ^= std::byte{1};
  const auto body = std::span<const std::byte>(snapshot).subspan(kHeaderBytes);
  const auto header = write_header({FileKind::snapshot, 4321, 2, body.size(), 1, 0, true}, body);
  std::copy(header.begin(), header.end(), snapshot.begin());
  PowerFiles files(changed);
  const auto store = Store::open(files, "s", options(StoreMode::read_only));
  ASSERT_TRUE(store.ok());
  EXPECT_EQ(store->head(), 1u);
  EXPECT_NE(store->damaged().at(2).find("tampered with"), std::string::npos) << store->damaged().at(2);
  EXPECT_EQ(read_state(*store).value().streams, training_state(1));

  // A record: likewise.
  changed = image;
  auto& journal = changed.at("s/" + file_name(FileKind::journal, 2));
  const std::size_t start = kHeaderBytes + cipher_->overhead();
  journal[start + kFrameHeaderBytes + 20] ^= std::byte{1};
  const auto bytes = std::span<const std::byte>(journal);
  const auto frame =
      write_frame(bytes.subspan(start, 16), bytes.subspan(start + kFrameHeaderBytes), header_checksum(bytes));
  std::copy(frame.begin(), frame.end(), journal.begin() + static_cast<std::ptrdiff_t>(start));
  PowerFiles other(changed);
  const auto second = Store::open(other, "s", options(StoreMode::read_only));
  ASSERT_TRUE(second.ok());
  EXPECT_TRUE(second->journal().empty());
  ASSERT_FALSE(second->notes().empty());
  EXPECT_NE(second->notes()[0].find("tampered with"), std::string::npos) << second->notes()[0];
}

TEST_F(CheckpointCipher, TheSameBytesAreNeverSealedAlike) {
  const std::vector<std::byte> plain(100);
  const Sealer sealer(cipher_.get(), 1);
  EXPECT_NE(sealer.seal({}, plain).value(), sealer.seal({}, plain).value());
}

TEST_F(CheckpointCipher, EncryptedStoresOutliveFaultsAsOthersDo) {
  StoreOptions all = options();
  std::size_t faults = try_power_cuts(all, 5, 4);
  faults += try_failing_calls(all);
  faults += try_flipped_bits(all);
  std::printf("%zu faults\n", faults);
  EXPECT_GT(faults, 10000u);
}

}  // namespace
}  // namespace graft::test::cipher_test
