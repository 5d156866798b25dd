// Reading gzip files: members, checksums, truncation, and files that unpack to far more than they should.
#include "runtime/data/gzip.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <random>

#include "tests/support/files/fault_files.h"

namespace graft::data::gzip_test {
namespace {

using Bytes = std::vector<std::byte>;

Bytes pack(const Bytes& plain) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  Bytes out(deflateBound(&stream, plain.size()));
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(plain.data()));
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  const auto size = static_cast<std::ptrdiff_t>(stream.total_out);
  deflateEnd(&stream);
  return {out.begin(), out.begin() + size};
}

Bytes noise(std::size_t size) {
  std::mt19937 random(7);
  Bytes out(size);
  for (auto& byte : out) byte = static_cast<std::byte>(random() % 11);
  return out;
}

Bytes joined(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class Gzip : public testing::Test {
 protected:
  void write(const Bytes& bytes) {
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  Result<HostBuffer> unpack(const Bytes& bytes, std::uint64_t limit = 1 << 24) {
    write(bytes);
    return read_unpacked(os::system_files(), path_, limit);
  }
  void expect_contents(const Bytes& file, const Bytes& contents) {
    const auto got = unpack(file);
    ASSERT_TRUE(got.ok()) << got.status().message();
    EXPECT_TRUE(std::equal(contents.begin(), contents.end(), got->bytes().begin(), got->bytes().end()));
  }
  void expect_refused(const Bytes& file, const std::string& part, std::uint64_t limit = 1 << 24) {
    const auto got = unpack(file, limit);
    ASSERT_FALSE(got.ok());
    EXPECT_NE(got.status().message().find(part), std::string::npos) << got.status().message();
    EXPECT_NE(got.status().message().find(path_), std::string::npos) << got.status().message();
  }

  test::TemporaryFolder folder_;
  std::string path_ = folder_.file("data.gz");
};

TEST_F(Gzip, FilesOfAllSizesComeBack) {
  for (const std::size_t size : {0, 1, 1000, 65536, 65537, 300000}) {
    const Bytes contents = noise(size);
    expect_contents(pack(contents), contents);
    expect_contents(contents, contents);  // not packed: as it is
  }
}

TEST_F(Gzip, MembersFollowEachOther) {
  const Bytes a = noise(100000);
  const Bytes b = noise(5);
  expect_contents(joined(joined(pack(a), pack({})), pack(b)), joined(a, b));
  expect_contents(joined(pack(a), Bytes(512)), a);  // zeros at the end are padding
  expect_refused(joined(pack(a), Bytes(10, std::byte{'x'})), "is damaged");
}

TEST_F(Gzip, SmallReadsGiveTheSame) {
  const Bytes contents = noise(10000);
  write(joined(pack(contents), pack(contents)));
  auto reader = StreamReader::open(os::system_files(), path_, 1 << 20);
  ASSERT_TRUE(reader.ok());
  Bytes got;
  Bytes piece(777);
  while (true) {
    const auto count = reader->read(piece);
    ASSERT_TRUE(count.ok()) << count.status().message();
    got.insert(got.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(*count));
    if (*count < piece.size()) break;
  }
  EXPECT_EQ(got, joined(contents, contents));
  EXPECT_EQ(*reader->read(piece), 0u);
}

TEST_F(Gzip, EveryTruncationIsRefused) {
  const Bytes file = pack(noise(200));
  for (std::size_t size = 2; size < file.size(); ++size) {
    expect_refused(Bytes(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size)),
                   "ends in the middle of its data");
  }
}

TEST_F(Gzip, EveryFlippedBitIsFoundOrHarmless) {
  const Bytes contents = noise(200);
  Bytes file = pack(contents);
  // The header's time, extra flags and system (bytes 4 to 9) say nothing about the contents.
  for (std::size_t bit = 16; bit < 8 * file.size(); ++bit) {
    file[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    const auto got = unpack(file);
    if (got.ok()) {
      EXPECT_TRUE(std::equal(contents.begin(), contents.end(), got->bytes().begin(), got->bytes().end())) << bit;
    }
    EXPECT_TRUE(bit < 80 || !got.ok()) << "bit " << bit;
    file[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
  }
}

TEST_F(Gzip, TheLimitHolds) {
  const Bytes zeros(1 << 20);
  const Bytes bomb = pack(zeros);
  ASSERT_LT(bomb.size(), 20000u);
  expect_refused(bomb, "holds more than 512.00 KiB when unpacked", 1 << 19);
  expect_refused(zeros, "the limit", 100);
  EXPECT_FALSE(unpack(bomb, (1 << 20) - 1).ok());
  EXPECT_TRUE(unpack(bomb, 1 << 20).ok()) << "exactly the limit is within it";
  expect_refused(pack(noise(1)), "the limit", 0);
}

TEST_F(Gzip, AnErrorStays) {
  Bytes file = pack(noise(1000));
  file.back() ^= std::byte{1};
  write(file);
  auto reader = StreamReader::open(os::system_files(), path_, 1 << 20);
  ASSERT_TRUE(reader.ok());
  Bytes out(2000);
  const auto first = reader->read(out);
  ASSERT_FALSE(first.ok());
  EXPECT_EQ(reader->read(out).status().message(), first.status().message());
}

TEST_F(Gzip, FailingCallsAreReported) {
  write(pack(noise(300000)));
  for (std::uint64_t call = 1;; ++call) {
    test::FaultFiles files;
    files.state.fail_call = call;
    const auto got = read_unpacked(files, path_, 1 << 24);
    if (got.ok()) {
      EXPECT_GT(call, 3u);
      break;
    }
    EXPECT_EQ(got.status().code(), Code::io_error);
  }
  EXPECT_EQ(read_unpacked(os::system_files(), folder_.file("none"), 1).status().code(), Code::not_found);
}

}  // namespace
}  // namespace graft::data::gzip_test
