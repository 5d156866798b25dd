// .npy files: what NumPy writes is read, every element type becomes graft's, and headers that lie are refused.
#include "runtime/data/npy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/support/files/fault_files.h"

namespace graft::data::npy_test {
namespace {

using Bytes = std::vector<std::byte>;

template <typename T>
Bytes bytes_of(const std::vector<T>& items) {
  Bytes out(items.size() * sizeof(T));
  if (!items.empty()) std::memcpy(out.data(), items.data(), out.size());
  return out;
}

template <typename T>
std::vector<T> items_of(std::span<const std::byte> bytes) {
  std::vector<T> out(bytes.size() / sizeof(T));
  if (!out.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

/// A file of version `version` with the dictionary `text` as it is.
Bytes file_with(const std::string& text, const Bytes& data, int version = 1) {
  std::string head = "\x93NUMPY";
  head += static_cast<char>(version);
  head += '\0';
  const auto length = static_cast<std::uint32_t>(text.size());
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) head += static_cast<char>(length >> (8 * i));
  head += text;
  Bytes out(head.size());
  std::memcpy(out.data(), head.data(), head.size());
  out.insert(out.end(), data.begin(), data.end());
  return out;
}

Bytes file_of(const std::string& type, const std::string& shape, const Bytes& data, bool fortran = false) {
  return file_with("{'descr': '" + type + "', 'fortran_order': " + (fortran ? "True" : "False") +
                       ", 'shape': " + shape + ", }     \n",
                   data);
}

template <typename T>
std::vector<T> read_all(const Bytes& file, DType dtype) {
  const auto reader = NpyReader::from_bytes(file, "a.npy");
  EXPECT_TRUE(reader.ok()) << reader.status().message();
  if (!reader.ok()) return {};
  EXPECT_EQ(reader->dtype(), dtype);
  Bytes out(reader->elements() * 4);
  const Status status = reader->read(0, reader->elements(), out);
  EXPECT_TRUE(status.ok()) << status.message();
  return items_of<T>(out);
}

std::string refusal(const Bytes& file) {
  const auto reader = NpyReader::from_bytes(file, "a.npy");
  if (!reader.ok()) return reader.status().message();
  Bytes out(reader->elements() * 4);
  const Status status = reader->read(0, reader->elements(), out);
  EXPECT_FALSE(status.ok()) << "it was read";
  return status.message();
}

#define EXPECT_REFUSED(file, part) EXPECT_NE(refusal(file).find(part), std::string::npos) << refusal(file)

using F = std::vector<float>;
using I = std::vector<std::int32_t>;

TEST(Npy, EveryElementTypeIsRead) {
  EXPECT_EQ(read_all<float>(file_of("<f4", "(2,)", bytes_of<float>({1.5f, -2})), DType::f32), F({1.5f, -2}));
  EXPECT_EQ(read_all<float>(file_of("<f8", "(2,)", bytes_of<double>({1.5, -2})), DType::f32), F({1.5f, -2}));
  // Halves: one, the smallest subnormal, the largest number, minus infinity.
  const auto halves = bytes_of<std::uint16_t>({0x3c00, 0x0001, 0x7bff, 0xfc00});
  EXPECT_EQ(read_all<float>(file_of("<f2", "(4,)", halves), DType::f32),
            F({1, std::ldexp(1.f, -24), 65504, -std::numeric_limits<float>::infinity()}));
  EXPECT_EQ(read_all<std::int32_t>(file_of("|i1", "(2,)", bytes_of<std::int8_t>({-128, 127})), DType::i32),
            I({-128, 127}));
  EXPECT_EQ(read_all<std::int32_t>(file_of("<i2", "(2,)", bytes_of<std::int16_t>({-32768, 5})), DType::i32),
            I({-32768, 5}));
  EXPECT_EQ(read_all<std::int32_t>(file_of("<i4", "(1,)", bytes_of<std::int32_t>({-7})), DType::i32), I({-7}));
  EXPECT_EQ(
      read_all<std::int32_t>(file_of("<i8", "(2,)", bytes_of<std::int64_t>({-2147483648, 2147483647})), DType::i32),
      I({std::numeric_limits<std::int32_t>::min(), 2147483647}));
  EXPECT_EQ(read_all<std::int32_t>(file_of("|u1", "(1,)", bytes_of<std::uint8_t>({255})), DType::i32), I({255}));
  EXPECT_EQ(read_all<std::int32_t>(file_of("<u2", "(1,)", bytes_of<std::uint16_t>({65535})), DType::i32), I({65535}));
  EXPECT_EQ(read_all<std::int32_t>(file_of("<u4", "(1,)", bytes_of<std::uint32_t>({9})), DType::i32), I({9}));
  EXPECT_EQ(read_all<std::int32_t>(file_of("<u8", "(1,)", bytes_of<std::uint64_t>({9})), DType::i32), I({9}));
  EXPECT_EQ(read_all<std::int32_t>(file_of("|b1", "(3,)", bytes_of<std::uint8_t>({0, 1, 7})), DType::boolean),
            I({0, 1, 1}));
}

TEST(Npy, BigEndianAndFortranOrderAreTurnedRound) {
  EXPECT_EQ(read_all<std::int32_t>(file_of(">i2", "(2,)", bytes_of<std::uint8_t>({1, 2, 0xff, 0xfe})), DType::i32),
            I({258, -2}));
  EXPECT_EQ(read_all<float>(file_of(">f4", "(1,)", bytes_of<std::uint8_t>({0x3f, 0x80, 0, 0})), DType::f32), F({1}));
  const auto columns = bytes_of<float>({1, 4, 2, 5, 3, 6});
  const Bytes file = file_of("<f4", "(2, 3)", columns, true);
  EXPECT_EQ(read_all<float>(file, DType::f32), F({1, 2, 3, 4, 5, 6}));
  const auto reader = NpyReader::from_bytes(file, "a.npy");
  Bytes middle(12);
  ASSERT_TRUE(reader->read(2, 3, middle).ok());
  EXPECT_EQ(items_of<float>(middle), F({3, 4, 5}));
}

TEST(Npy, ScalarsEmptyArraysAndAllVersions) {
  EXPECT_EQ(read_all<float>(file_of("<f4", "()", bytes_of<float>({3})), DType::f32), F({3}));
  EXPECT_EQ(read_all<float>(file_of("<f4", "(0, 7)", {}), DType::f32), F());
  const std::string text = "{'shape': (1,), \"fortran_order\": False, 'descr': '<f4'}";
  for (const int version : {1, 2, 3}) {
    EXPECT_EQ(read_all<float>(file_with(text, bytes_of<float>({2}), version), DType::f32), F({2}));
  }
}

TEST(Npy, NumbersThatDoNotFitAreNamed) {
  EXPECT_REFUSED(file_of("<i8", "(2,)", bytes_of<std::int64_t>({1, 2147483648})), "element 1 is 2147483648");
  EXPECT_REFUSED(file_of("<i8", "(1,)", bytes_of<std::int64_t>({std::numeric_limits<std::int64_t>::min()})),
                 "element 0 is -9223372036854775808");
  EXPECT_REFUSED(file_of("<u4", "(1,)", bytes_of<std::uint32_t>({3000000000u})), "element 0 is 3000000000");
  EXPECT_REFUSED(file_of("<f8", "(1,)", bytes_of<double>({1e39})), "element 0 is 1e+39");
  const auto infinite = read_all<float>(file_of("<f8", "(1,)", bytes_of<double>({INFINITY})), DType::f32);
  EXPECT_TRUE(std::isinf(infinite.at(0))) << "infinity is a float32";
}

TEST(Npy, HeadersThatLieAreRefused) {
  const Bytes four = bytes_of<float>({1});
  EXPECT_REFUSED(Bytes(), "NumPy's mark");
  EXPECT_REFUSED((bytes_of<char>({'P', 'K', 3, 4})), "a .npz file");
  EXPECT_REFUSED((bytes_of<char>({'\x1f', '\x8b'})), "compressed by gzip");
  EXPECT_REFUSED(file_with("{}", four, 4), "version 4.0");
  EXPECT_REFUSED(file_with("{}", four), "lacks descr");
  EXPECT_REFUSED(file_with("{'descr': '<f4'", four), "not closed");
  EXPECT_REFUSED(file_with("{'descr': '<f4', 'descr': '<f4'}", four), "twice");
  EXPECT_REFUSED(file_with("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x", four), "after the dictionary");
  EXPECT_REFUSED(file_with("{'descr': [('a', '<f4')], }", four), "records");
  EXPECT_REFUSED(file_of("<c8", "(1,)", bytes_of<double>({1})), "\"<c8\"");
  EXPECT_REFUSED(file_of("|O", "(1,)", four), "\"|O\"");
  EXPECT_REFUSED(file_of("|f4", "(1,)", four), "\"|f4\"");
  EXPECT_REFUSED(file_of("<f4", "(2,)", four), "does not fit the 4 bytes");
  EXPECT_REFUSED(file_of("<f4", "()", {}), "does not fit the 0 bytes");
  EXPECT_REFUSED(file_of("<f4", "(-1,)", four), "something else than sizes");
  EXPECT_REFUSED(file_of("<f4", "(1", four), "something else than sizes");
  EXPECT_REFUSED(file_of("<f4", "(1 2)", four), "shape is not closed");
  EXPECT_REFUSED(file_of("<f4", "(1,1,1,1,1,1,1,1,1)", four), "rank above 8");
  EXPECT_REFUSED(file_of("<f4", "(4611686018427387904,)", four), "does not fit");
  EXPECT_REFUSED(file_of("<f8", "(4611686018427387904, 4)", four), "more than 2^62 elements");
  EXPECT_REFUSED(file_of("<f4", "(99999999999999999999,)", four), "something else than sizes");
  Bytes long_header = file_of("<f4", "(1,)", four);
  long_header[9] = std::byte{0xff};
  EXPECT_REFUSED(long_header, "Its header is said to have");
}

TEST(Npy, EveryTruncationIsRefused) {
  const Bytes file = file_of("<i2", "(3,)", bytes_of<std::int16_t>({1, 2, 3}));
  for (std::size_t size = 0; size < file.size(); ++size) {
    const Bytes cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_FALSE(NpyReader::from_bytes(cut, "a.npy").ok()) << size;
  }
}

TEST(Npy, ReadChecksItsArguments) {
  const Bytes file = file_of("<f4", "(4,)", bytes_of<float>({1, 2, 3, 4}));
  const auto reader = NpyReader::from_bytes(file, "a.npy");
  Bytes out(8);
  EXPECT_TRUE(reader->read(2, 2, out).ok());
  EXPECT_FALSE(reader->read(3, 2, out).ok());
  EXPECT_FALSE(reader->read(~0ull, 2, out).ok());
  EXPECT_FALSE(reader->read(0, 1, out).ok());
}

TEST(Npy, WhatIsWrittenIsRead) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("a.npy");
  os::FileSystem& files = os::system_files();
  const auto check = [&](DType dtype, const Shape& shape, const Bytes& bytes) {
    const Status written = write_npy(files, path, dtype, shape, bytes);
    ASSERT_TRUE(written.ok()) << written.message();
    const auto array = read_npy(files, path);
    ASSERT_TRUE(array.ok()) << array.status().message();
    EXPECT_EQ(array->dtype, dtype);
    EXPECT_EQ(array->shape, shape);
    EXPECT_EQ(Bytes(array->buffer.bytes().begin(), array->buffer.bytes().end()), bytes);
  };
  check(DType::f32, {2, 3}, bytes_of<float>({1, 2, 3, 4, 5, -0.f}));
  check(DType::i32, {1}, bytes_of<std::int32_t>({-5}));
  check(DType::boolean, {3}, bytes_of<std::int32_t>({1, 0, 1}));
  check(DType::f32, {}, bytes_of<float>({7}));
  check(DType::f32, {3, 0}, {});
  EXPECT_FALSE(write_npy(files, path, DType::bf16, {1}, Bytes(2)).ok());
  EXPECT_FALSE(write_npy(files, path, DType::f32, {2}, Bytes(4)).ok());
  EXPECT_FALSE(write_npy(files, path, DType::f32, {Dim::symbol("batch")}, Bytes(4)).ok());
  EXPECT_FALSE(write_npy(files, path, DType::f32, {std::int64_t{1} << 62}, {}).ok());
  EXPECT_EQ(read_npy(files, folder.file("none.npy")).status().code(), Code::not_found);
}

// Byte for byte what numpy.save() gives for array([[1, 2]], dtype=int32).
TEST(Npy, TheFileIsNumPysOwn) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("a.npy");
  ASSERT_TRUE(write_npy(os::system_files(), path, DType::i32, {1, 2}, bytes_of<std::int32_t>({1, 2})).ok());
  const auto text = os::read_text_file(os::system_files(), path, 1000);
  std::string expected("\x93NUMPY\x01\x00\x76\x00", 10);
  expected += "{'descr': '<i4', 'fortran_order': False, 'shape': (1, 2), }";
  expected.append(127 - expected.size(), ' ');
  expected += '\n';
  expected += std::string("\1\0\0\0\2\0\0\0", 8);
  EXPECT_EQ(*text, expected);
}

}  // namespace
}  // namespace graft::data::npy_test
