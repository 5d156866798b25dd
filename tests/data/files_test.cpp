// idx, csv and npy files, digits and SPEC strings: what they give, and what they say of bad ones.
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "runtime/data/digits.h"
#include "runtime/data/loader.h"
#include "runtime/data/npy.h"
#include "runtime/data/npy_header.h"
#include "runtime/data/random.h"
#include "runtime/data/spec.h"
#include "tests/support/files/fault_files.h"
#include "tests/support/files/temporary_folder.h"
#include "tests/support/paths.h"
#include "tests/support/samples.h"

namespace graft::data::files_test {
namespace {

std::string idx(int type, const std::vector<std::uint32_t>& dims, const std::string& data) {
  std::string out = {0, 0, static_cast<char>(type), static_cast<char>(dims.size())};
  for (const std::uint32_t d : dims) {
    for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(d >> shift));
  }
  return out + data;
}

std::string gzipped(const std::string& text) {
  z_stream z{};
  deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&z, text.size()), '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  deflate(&z, Z_FINISH);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

using test::sample_of;

std::string message(const Result<std::unique_ptr<Source>>& result) {
  EXPECT_FALSE(result.ok());
  return result.ok() ? "" : result.status().message();
}

class Files : public testing::Test {
 protected:
  test::TemporaryFolder folder_;
};

TEST_F(Files, IdxImagesBecomeZeroToOneWithAChannelAxis) {
  const std::string images = idx(8, {3, 1, 2}, {0, static_cast<char>(255), 51, 102, 1, 2});
  const std::string labels = idx(8, {3}, {7, 8, 9});
  const std::string spec = "idx:" + folder_.write("x", images) + "," + folder_.write("y.gz", gzipped(labels));
  auto source = open_spec(spec);
  ASSERT_TRUE(source.ok()) << source.status().message();
  const auto& fields = (*source)->fields();
  EXPECT_EQ(fields[0].name, "image");
  EXPECT_EQ(fields[0].shape, (Shape{1, 1, 2}));
  EXPECT_EQ(fields[1].name, "label");
  EXPECT_EQ(fields[1].dtype, DType::i32);
  EXPECT_EQ(fields[1].role, Role::label);
  EXPECT_EQ((*source)->size(), 3u);
  EXPECT_EQ(sample_of(**source, 0), (std::vector<double>{0, 1, 7}));
  EXPECT_EQ(sample_of(**source, 1), (std::vector<double>{51.0f / 255.0f, 102.0f / 255.0f, 8}));
  auto scaled = open_spec(spec + "?scale=2&skip=1&count=1").value();
  EXPECT_EQ(scaled->size(), 1u);
  EXPECT_EQ(sample_of(*scaled, 0), (std::vector<double>{102, 204, 8}));
  auto normal = open_spec(spec + "?normalize=0.5,0.25").value();
  EXPECT_EQ(sample_of(*normal, 0), (std::vector<double>{-2, 2, 7}));
}

TEST_F(Files, IdxOfEveryType) {
  const std::string labels = "," + folder_.write("y", idx(8, {1}, {0}));
  const auto first = [&](int type, const std::string& bytes) {
    auto source = open_spec("idx:" + folder_.write("x", idx(type, {1, 1}, bytes)) + labels);
    EXPECT_TRUE(source.ok()) << source.status().message();
    return sample_of(**source, 0)[0];
  };
  using namespace std::string_literals;
  EXPECT_EQ(first(0x09, "\xfe"s), -2);
  EXPECT_EQ(first(0x0B, "\xff\xfe"s), -2);
  EXPECT_EQ(first(0x0C, "\xff\xff\xff\xfe"s), -2);
  EXPECT_EQ(first(0x0D, "\xc0\x00\x00\x00"s), -2);
  EXPECT_EQ(first(0x0E, "\xc0\x00\x00\x00\x00\x00\x00\x00"s), -2);
}

TEST_F(Files, LargeGzipIsUnpackedToATemporaryFileThatGoesAway) {
  std::string data(100000, '\0');
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(mix(i) & 0xff);
  std::filesystem::create_directory(folder_.file("tmp"));
  FileOptions options;
  options.unpack_in_memory = 1000;
  options.temporary_directory = folder_.file("tmp");
  const std::string path = folder_.write("x.gz", gzipped(data));
  auto file = DataFile::open(path, options);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->size(), data.size());
  std::string got(500, '\0');
  ASSERT_TRUE(file->read(70000, std::as_writable_bytes(std::span(got))).ok());
  EXPECT_EQ(got, data.substr(70000, 500));
  EXPECT_FALSE(file->read(99999, std::as_writable_bytes(std::span(got))).ok());
  {
    DataFile moved = std::move(file).value();
    EXPECT_TRUE(moved.read(0, std::as_writable_bytes(std::span(got))).ok());
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.file("tmp")));
  options.unpack_limit = 5000;
  EXPECT_FALSE(DataFile::open(path, options).ok());
  options.unpack_limit = 1 << 20;
  options.temporary_directory = folder_.file("absent");
  EXPECT_FALSE(DataFile::open(path, options).ok());
}

/// Bytes of this process that are in memory and belong to no file.
std::uint64_t private_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) return std::stoull(line.substr(8)) * 1024;
  }
  return 0;
}

TEST_F(Files, AFileLargerThanItsMemoryLimitIsNotLoaded) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "Sanitizers hold on to memory that was freed, so the process's size says nothing.";
#endif
  // 128 MiB of bytes, 512 MiB once they are f32, under a limit of 4 MiB. The file is sparse: it takes no disk.
  constexpr std::uint32_t kSamples = 8192, kSide = 128;
  constexpr std::uint64_t kLimit = 4 << 20;
  const std::string images = folder_.write("x", idx(8, {kSamples, kSide, kSide}, ""));
  const std::string labels = folder_.write("y", idx(8, {kSamples}, std::string(kSamples, '\1')));
  std::filesystem::resize_file(images, 16 + std::uint64_t{kSamples} * kSide * kSide);
  auto source = open_spec("idx:" + images + "," + labels).value();
  auto loader = Loader::create(*source, {.batch = 16, .epochs = 1, .memory_limit = kLimit}).value();
  ASSERT_TRUE(loader->next().ok());
  const std::uint64_t before = private_memory();
  std::uint64_t samples = 16, most = before;
  for (;; samples += 16) {
    auto batch = loader->next();
    ASSERT_TRUE(batch.ok()) << batch.status().message();
    if (*batch == nullptr) break;
    if (samples % 1024 == 0) most = std::max(most, private_memory());
  }
  EXPECT_EQ(samples, kSamples);
  // The batches in flight are allocated already; the rest is slack for the allocator and the test itself.
  EXPECT_LT(most, before + kLimit) << "the data set seems to be kept in memory";
}

TEST_F(Files, EveryFailingFileCallIsOneErrorAndLeavesNothing) {
  std::string rows = "a,b\n";
  for (int i = 0; i < 40; ++i) rows += std::to_string(i) + ",1\n";
  const std::string images = folder_.write("x.gz", gzipped(idx(8, {6, 2, 2}, std::string(24, 'x'))));
  const std::string labels = folder_.write("y", idx(8, {6}, std::string(6, '\1')));
  std::filesystem::create_directory(folder_.file("tmp"));
  for (const std::string& spec : {"idx:" + images + "," + labels, "csv:" + folder_.write("t.csv", rows)}) {
    std::uint64_t calls = 0;
    for (std::uint64_t k = 0; k <= calls; ++k) {
      test::FaultFiles faulty;
      faulty.state.fail_call = k;
      FileOptions options;
      options.files = &faulty;
      options.unpack_in_memory = 5;  // so that the images go through a temporary file
      options.temporary_directory = folder_.file("tmp");
      const auto read_all = [&]() -> Status {
        GRAFT_TRY_ASSIGN(const auto source, open_spec(spec, options));
        GRAFT_TRY_ASSIGN(const auto loader, Loader::create(*source, {.batch = 4, .epochs = 1}));
        for (;;) {
          GRAFT_TRY_ASSIGN(const Batch* batch, loader->next());
          if (batch == nullptr) return {};
        }
      };
      const Status status = read_all();
      if (k == 0) {
        ASSERT_TRUE(status.ok()) << status.message();
        calls = faulty.state.calls;
        EXPECT_GE(calls, 5u);
      } else if (faulty.state.failed != "remove") {  // then the name goes later
        EXPECT_FALSE(status.ok()) << spec << ", call " << k << " (" << faulty.state.failed << ")";
      }
      EXPECT_TRUE(std::filesystem::is_empty(folder_.file("tmp"))) << "call " << k;
    }
  }
}

TEST_F(Files, EveryDamagedIdxIsRefused) {
  const std::string good = idx(8, {3, 2, 2}, std::string(12, 'x'));
  const std::string labels = "," + folder_.write("y", idx(8, {3}, {0, 1, 2}));
  const auto open = [&](const std::string& bytes) { return open_spec("idx:" + folder_.write("x", bytes) + labels); };
  ASSERT_TRUE(open(good).ok());
  for (std::size_t length = 0; length < good.size(); ++length) EXPECT_FALSE(open(good.substr(0, length)).ok());
  EXPECT_FALSE(open(good + "z").ok());
  EXPECT_FALSE(open(idx(7, {3, 2, 2}, std::string(12, 'x'))).ok());
  EXPECT_FALSE(open(idx(8, {3, 0, 2}, "")).ok());
  const std::uint32_t huge = 0xffffffff;
  EXPECT_FALSE(open(idx(8, {0, huge, huge, huge, huge}, "")).ok());
  EXPECT_NE(message(open(idx(8, {huge, huge, huge}, ""))).find("more elements than can be counted"), std::string::npos);
  EXPECT_NE(message(open(idx(8, {2, 2, 2}, std::string(8, 'x')))).find("2 samples of \"image\" but 3 of \"label\""),
            std::string::npos);
  EXPECT_FALSE(open_spec("idx:" + folder_.file("x") + "," + folder_.file("x")).ok());
  EXPECT_NE(message(open_spec("idx:" + folder_.file("none") + labels)).find("none"), std::string::npos);
}

TEST_F(Files, CsvWithHeaderQuotesAndLineEnds) {
  const std::string text =
      "\xEF\xBB\xBF"
      "a,\"b, \"\"c\"\"\",y\r\n1,2.5,0\r\n\r\n\"-3e2\", 4 ,1\n+5,.5,2";
  const std::string path = folder_.write("t.csv", text);
  auto source = open_spec("csv:" + path).value();
  EXPECT_EQ(source->size(), 3u);
  EXPECT_EQ(source->fields()[0].shape, Shape{2});
  EXPECT_EQ(source->fields()[1].dtype, DType::i32);
  EXPECT_EQ(sample_of(*source, 0), (std::vector<double>{1, 2.5, 0}));
  EXPECT_EQ(sample_of(*source, 2), (std::vector<double>{5, 0.5, 2}));
  EXPECT_EQ(sample_of(*source, 1), (std::vector<double>{-300, 4, 1}));
  auto named = open_spec("csv:" + path + "?label=a").value();
  EXPECT_EQ(sample_of(*named, 0), (std::vector<double>{2.5, 0, 1}));
  auto real = open_spec("csv:" + path + "?label=1").value();
  EXPECT_EQ(real->fields()[1].dtype, DType::f32);
  EXPECT_EQ(real->fields()[1].shape, Shape{1});
  EXPECT_EQ(sample_of(*real, 0), (std::vector<double>{1, 0, 2.5}));
}

TEST_F(Files, CsvClassesByName) {
  auto source = open_spec("csv:" + folder_.write("t.csv", "1,dog\n2,cat\n3,dog\n4,ant\n")).value();
  EXPECT_EQ(source->size(), 4u);
  EXPECT_EQ(sample_of(*source, 0), (std::vector<double>{1, 2}));
  EXPECT_EQ(sample_of(*source, 1), (std::vector<double>{2, 1}));
  EXPECT_EQ(sample_of(*source, 3), (std::vector<double>{4, 0}));
}

TEST_F(Files, CsvRowsInAnyOrder) {
  std::string text = "v,label\n";
  for (int i = 0; i < 1000; ++i) text += std::to_string(i * 3) + "," + std::to_string(i) + "\n";
  auto source = open_spec("csv:" + folder_.write("t.csv.gz", gzipped(text))).value();
  const Permutation order(1000, 5);
  for (std::uint64_t i = 0; i < 300; ++i) {
    const auto row = static_cast<double>(order(i));
    EXPECT_EQ(sample_of(*source, order(i)), (std::vector<double>{row * 3, row}));
  }
  for (std::uint64_t i = 0; i < 40; ++i) EXPECT_EQ(sample_of(*source, i)[1], static_cast<double>(i));
}

TEST_F(Files, BadCsvIsOneSentence) {
  const auto open = [&](const std::string& text, const std::string& options = "") {
    return message(open_spec("csv:" + folder_.write("t.csv", text) + options));
  };
  EXPECT_NE(open("a,b\n1,2\n3\n").find("Sample 1 of"), std::string::npos);
  EXPECT_NE(open("a,b\n1,2\nx,3\n").find("\"x\", which is not a number"), std::string::npos);
  EXPECT_NE(open("a,b\n1,2\n1e60,3\n").find("1e60"), std::string::npos);
  EXPECT_NE(open("a,b\nnan,2\n").find("nan"), std::string::npos);
  EXPECT_NE(open("a,b\n1,\"2\n").find("quoted field that does not end"), std::string::npos);
  EXPECT_NE(open("a,b\n\"1\"2,2\n").find("text after a closing quote"), std::string::npos);
  EXPECT_NE(open("").find("holds no row"), std::string::npos);
  EXPECT_NE(open("a,b\n").find("no sample"), std::string::npos);
  EXPECT_NE(open("1\n2\n").find("1 column"), std::string::npos);
  EXPECT_NE(open("a,b\n1,2\n", "?label=c").find("no column \"c\"; it has 2 columns: a, b."), std::string::npos);
  EXPECT_NE(open("a,b\n1,2\n", "?header=maybe").find("yes or no"), std::string::npos);
  EXPECT_NE(open(std::string(70000, ',')).find("more than 65536 columns"), std::string::npos);
  EXPECT_NE(open("1,a\n2," + std::string(2000, 'b') + "\n").find("a text of 2000 bytes"), std::string::npos);
}

TEST_F(Files, CsvDelimiters) {
  const std::vector<double> wanted = {1, 2.5, 0};
  const auto first = [&](const std::string& text, const std::string& options = "") {
    const auto source = open_spec("csv:" + folder_.write("t.csv", text) + options);
    EXPECT_TRUE(source.ok()) << source.status().message();
    return source.ok() ? sample_of(**source, 0) : std::vector<double>();
  };
  EXPECT_EQ(first("a;b;y\r\n1;2.5;0\r\n3;4;1\n"), wanted);
  EXPECT_EQ(first("a\tb\ty\n1\t2.5\t0\n"), wanted);
  EXPECT_EQ(first("\"a, or\";b;y\n1;2.5;0\n"), wanted) << "quoted commas do not count";
  EXPECT_EQ(first("a|b|y\n1|2.5|0\n", "?delimiter=|"), wanted);
  EXPECT_EQ(first("a b y\n1 2.5 0\n", "?delimiter=space"), wanted);
  EXPECT_EQ(first("a;x,b,y\n1,2.5,0\n"), wanted) << "a comma and a semicolon: a comma separates";
  EXPECT_EQ(first("a,1;b;y\n1;2.5;0\n", "?delimiter=;"), wanted);
  const auto says = [&](const std::string& text, const std::string& options = "") {
    return message(open_spec("csv:" + folder_.write("t.csv", text) + options));
  };
  EXPECT_NE(says("a;b\n1,5;0\n")
                .find("\"1,5\", which is not a number that float can hold; numbers are written with a "
                      "decimal point."),
            std::string::npos);
  EXPECT_NE(says("1,5;0\n2,5;1\n").find("delimiter= names another character"), std::string::npos);
  EXPECT_NE(says("1,5;cat\n2,5;dog\n").find("delimiter= names another character"), std::string::npos);
  EXPECT_EQ(first("1,5;0\n2,4;1\n", "?delimiter=,"), (std::vector<double>{1, 1})) << "a label as it is";
  EXPECT_EQ(first("1,b|c\n2,a|c\n"), (std::vector<double>{1, 1})) << "a label as it is";
  EXPECT_NE(says("a|b\n1|0\n").find("1 column by its delimiter \",\""), std::string::npos);
  EXPECT_NE(says("a,b\n1,0\n", "?delimiter=1").find("must be one character between columns"), std::string::npos);
  for (const std::string& mark : {std::string("\xff\xfe"), std::string("\xfe\xff")}) {
    EXPECT_NE(says(mark + std::string("a\0,\0b\0", 6)).find("is text in UTF-16 (or UTF-32); save it as UTF-8."),
              std::string::npos);
  }
  EXPECT_NE(says(std::string("a\0,\0b\0", 6)).find("is not text in UTF-8: its byte 1 is 0."), std::string::npos);
  EXPECT_NE(says("a,y\n1,caf\xe9\n2,th\xe9\n").find("begins at byte 4 is not text in UTF-8: its column 1."),
            std::string::npos);
  EXPECT_NE(says("a,caf\xe9\n1,2\n").find("not text in UTF-8: its column 1."), std::string::npos);
  EXPECT_EQ(first("a,y\n1,caf\xc3\xa9\n"), (std::vector<double>{1, 0}));
}

TEST_F(Files, CsvLinesMayEndInCarriageReturns) {
  for (const char* const text : {"1,2.5,0\r3,4,1\r", "a,b,y\r1,2.5,0\r\r3,4,1", "a,b,y\r1,2.5,0\n3,4,1\r\n"}) {
    const auto source = open_spec("csv:" + folder_.write("t.csv", text));
    ASSERT_TRUE(source.ok()) << source.status().message();
    EXPECT_EQ((*source)->size(), 2u);
    EXPECT_EQ(sample_of(**source, 0), (std::vector<double>{1, 2.5, 0}));
    EXPECT_EQ(sample_of(**source, 1), (std::vector<double>{3, 4, 1}));
  }
  EXPECT_EQ(message(open_spec("csv:" + folder_.write("t.csv", "a;y\r1,5;0\r"))).find("1 column"), std::string::npos);
}

TEST_F(Files, NamesOfClassesAreUtf8) {
  for (const char* name : {"caf\xe9", "\xed\xa0\x80", "\xc0\xaf"}) {
    const Field field{"label", DType::i32, Shape{}, Role::label, false, {"tea", name}};
    EXPECT_NE(std::string(check_fields({&field, 1}).message()).find("not text in UTF-8"), std::string::npos) << name;
  }
  const Field field{"label", DType::i32, Shape{}, Role::label, false, {"tea", "caf\xc3\xa9", "\xf0\x9f\x8d\xb5"}};
  EXPECT_TRUE(check_fields({&field, 1}).ok());
}

TEST_F(Files, NpyIntegersBeyond32BitsAreFloats) {
  const auto write = [&](const std::string& type, const auto& values) {
    using T = std::ranges::range_value_t<decltype(values)>;
    std::string bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
    return folder_.write("x.npy", npy_header(type, Shape{static_cast<std::int64_t>(values.size()), 1}) + bytes);
  };
  const auto read = [](const std::string& path) {
    const auto source = open_spec("npy:x=" + path).value();
    std::vector<double> all;
    for (std::uint64_t i = 0; i < *source->size(); ++i) all.push_back(sample_of(*source, i)[0]);
    return std::pair(source->fields()[0].dtype, all);
  };
  EXPECT_EQ(read(write("<i8", std::vector<std::int64_t>{-5, 1 << 30})),
            std::pair(DType::i32, std::vector<double>{-5, 1 << 30}));
  EXPECT_EQ(read(write("<i8", std::vector<std::int64_t>{-5, std::int64_t{1} << 40})),
            std::pair(DType::f32, std::vector<double>{-5, 0x1p40}));
  EXPECT_EQ(read(write("<u8", std::vector<std::uint64_t>{1, ~std::uint64_t{0}})),
            std::pair(DType::f32, std::vector<double>{1, 0x1p64}));
  EXPECT_EQ(read(write("<u4", std::vector<std::uint32_t>{3000000000u, 2})),
            std::pair(DType::f32, std::vector<double>{3e9, 2}));
}

TEST_F(Files, NpyPair) {
  const std::vector<float> x = {1, 2, 3, 4, 5, 6};
  const std::vector<std::int32_t> y = {4, 5, 6};
  const std::string xs = folder_.file("x.npy"), ys = folder_.file("y.npy");
  ASSERT_TRUE(write_npy(os::system_files(), xs, DType::f32, Shape{3, 1, 2}, std::as_bytes(std::span(x))).ok());
  ASSERT_TRUE(write_npy(os::system_files(), ys, DType::i32, Shape{3, 1}, std::as_bytes(std::span(y))).ok());
  auto source = open_spec("npy:" + xs + "," + ys).value();
  EXPECT_EQ(source->fields()[0].shape, (Shape{1, 2}));
  EXPECT_EQ(source->fields()[1].shape, Shape{});
  EXPECT_EQ(sample_of(*source, 2), (std::vector<double>{5, 6, 6}));
  // Whole numbers stay so, until an input wants floats; f32 labels are targets and stay.
  auto swapped = open_spec("npy:" + ys + "," + xs).value();
  EXPECT_EQ(swapped->fields()[0].dtype, DType::i32);
  EXPECT_EQ(sample_of(*swapped, 1), (std::vector<double>{5, 3, 4}));
  ASSERT_TRUE(write_npy(os::system_files(), ys, DType::i32, Shape{2}, std::as_bytes(std::span(y).first(2))).ok());
  EXPECT_FALSE(open_spec("npy:" + xs + "," + ys).ok());
}

TEST(Digits, AreTheSameEverywhereAndBalanced) {
  DigitImage image;
  std::uint64_t hash = 0;
  std::vector<int> count(10, 0);
  std::set<std::uint64_t> seen;
  for (const bool is_test : {false, true}) {
    for (std::uint64_t i = 0; i < 200; ++i) {
      const int label = draw_digit({.seed = 1, .test = is_test}, i, image);
      ++count[static_cast<std::size_t>(label)];
      std::uint64_t own = static_cast<std::uint64_t>(label);
      for (const std::uint8_t pixel : image) own = mix(own, pixel);
      EXPECT_TRUE(seen.insert(own).second) << "a sample came twice";
      hash = mix(hash, own);
    }
  }
  for (const int c : count) EXPECT_EQ(c, 40);
  EXPECT_EQ(hash, 17554698634044039747ull) << "the drawn bytes have changed: saved results no longer compare";
}

TEST(Digits, SpecAndSource) {
  auto source = open_spec("digits:").value();
  EXPECT_EQ(source->size(), 10000u);
  EXPECT_EQ(open_spec("digits:?split=test").value()->size(), 2000u);
  EXPECT_EQ(open_spec("digits:?split=test&count=70&seed=4").value()->size(), 70u);
  DigitImage image;
  const int label = draw_digit({}, 123, image);
  const auto values = sample_of(*source, 123);
  ASSERT_EQ(values.size(), 785u);
  EXPECT_EQ(values.back(), label);
  EXPECT_EQ(values[300], image[300] / 255.0f);
}

TEST(Digits, OfFewerClasses) {
  const auto source = open_spec("digits:?classes=9&count=90").value();
  std::vector<int> count(10, 0);
  for (std::uint64_t i = 0; i < 90; ++i) ++count[static_cast<std::size_t>(sample_of(*source, i).back())];
  EXPECT_EQ(count, (std::vector<int>{10, 10, 10, 10, 10, 10, 10, 10, 10, 0}));
  EXPECT_FALSE(open_spec("digits:?classes=11").ok());
}

TEST(Spec, ErrorsAreOneSentence) {
  EXPECT_NE(message(open_spec("digits")).find("does not begin with a kind"), std::string::npos);
  EXPECT_NE(message(open_spec("jpeg:x")).find("There is no kind of data set \"jpeg:\"; there are idx:, csv:"),
            std::string::npos);
  EXPECT_NE(message(open_spec("digits:?colour=red")).find("no option \"colour\"; they have split"), std::string::npos);
  EXPECT_NE(message(open_spec("digits:?count=-1")).find("whole number"), std::string::npos);
  EXPECT_NE(message(open_spec("digits:?count=0")).find("0 digits"), std::string::npos);
  EXPECT_NE(message(open_spec("digits:?count")).find("not written name=value"), std::string::npos);
  EXPECT_NE(message(open_spec("digits:?seed=1&seed=2")).find("given twice"), std::string::npos);
  EXPECT_NE(message(open_spec("digits:?normalize=1")).find("1 numbers were given"), std::string::npos);
  EXPECT_NE(message(open_spec("digits:?normalize=0,0")).find("deviation of 0"), std::string::npos);
  EXPECT_NE(message(open_spec("digits:?skip=10000")).find("skip=10000 leaves nothing"), std::string::npos);
  // A generator has what is asked for.
  auto later = open_spec("digits:?count=320&skip=320");
  ASSERT_TRUE(later.ok()) << later.status().message();
  EXPECT_EQ((*later)->size(), 320u);
  EXPECT_EQ(sample_of(**later, 3), sample_of(*open_spec("digits:").value(), 323));
  EXPECT_NE(message(open_spec("idx:only")).find("idx:IMAGES,LABELS"), std::string::npos);
}

TEST(Mnist, LoadsWhereItIs) {
  const std::string base = test::test_data("img-mnist-idx/t10k-");
  if (!std::filesystem::exists(base + "labels-idx1-ubyte.gz")) GTEST_SKIP() << "There is no " << base << "*.";
  auto source = open_spec("idx:" + base + "images-idx3-ubyte.gz," + base + "labels-idx1-ubyte.gz");
  ASSERT_TRUE(source.ok()) << source.status().message();
  EXPECT_EQ((*source)->size(), 10000u);
  auto loader = Loader::create(**source, {.batch = 1000, .epochs = 1}).value();
  double ink = 0;
  std::vector<int> count(10, 0);
  for (;;) {
    auto batch = loader->next();
    ASSERT_TRUE(batch.ok());
    if (*batch == nullptr) break;
    const auto pixels = (*batch)->field(0);
    for (std::size_t at = 0; at < pixels.size(); at += 4) {
      float value = 0;
      std::memcpy(&value, &pixels[at], 4);
      ink += value;
    }
    for (std::size_t at = 0; at < (*batch)->field(1).size(); at += 4) {
      std::int32_t label = 0;
      std::memcpy(&label, &(*batch)->field(1)[at], 4);
      ++count.at(static_cast<std::size_t>(label));
    }
  }
  EXPECT_NEAR(ink / (10000 * 784), 0.1325, 0.0001);  // the test set's published mean
  EXPECT_EQ(count[0], 980);
  EXPECT_EQ(count[1], 1135);
}

}  // namespace
}  // namespace graft::data::files_test
