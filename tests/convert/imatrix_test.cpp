// llama.cpp's importance matrices: read, or refused in one sentence.
#include "tools/convert/gguf/imatrix.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/support/files/temporary_folder.h"
#include "tools/convert/gguf/gguf_write.h"

namespace graft::test::convert_imatrix_test {
namespace {

using convert::ExportTensor;
using convert::GgufWriter;
using Tensors = std::vector<std::pair<std::string, std::vector<float>>>;

const Tensors kGood = {{"blk.0.attn_q.weight.in_sum2", {8, 0, 4}},
                       {"blk.0.attn_q.weight.counts", {4}},
                       {"output.weight.counts", {0}},
                       {"output.weight.in_sum2", {1, 2}}};

std::string file_of(const Tensors& tensors, const char* type = "imatrix") {
  GgufWriter writer;
  if (type != nullptr) writer.add("general.type", type);
  std::vector<ExportTensor> out;
  for (const auto& [name, numbers] : tensors) {
    out.emplace_back().name = name;
    out.back().source = {{static_cast<std::int64_t>(numbers.size())}, DType::f32, std::as_bytes(std::span(numbers))};
  }
  auto bytes = writer.bytes(out);
  return bytes.ok() ? *bytes : "";
}

Result<convert::Importance> read(const std::string& bytes) {
  GRAFT_TRY_ASSIGN(const convert::GgufFile file, convert::GgufFile::parse(std::as_bytes(std::span(bytes))));
  return convert::read_imatrix(file);
}

TEST(Imatrix, HoldsMeanSquares) {
  const auto read_back = read(file_of(kGood));
  ASSERT_TRUE(read_back.ok()) << read_back.status().message();
  EXPECT_EQ(read_back->at("blk.0.attn_q.weight"), (std::vector<float>{2, 0, 1}));
  EXPECT_EQ(read_back->at("output.weight"), (std::vector<float>{1, 2}));  // a count of 0 divides nothing
}

TEST(Imatrix, IsReadAsItWasWritten) {
  const TemporaryFolder folder;
  const std::string path = folder.file("im.gguf");
  const std::vector<double> query{8, 0, 4, 1e-30}, down{2.5};
  ASSERT_TRUE(convert::write_imatrix(os::system_files(), path,
                                     {{"blk.1.ffn_down.weight", down, 2}, {"blk.0.attn_q.weight", query, 4}},
                                     {{"a.txt", "b.txt"}, 3, 512})
                  .ok());
  const auto back = convert::read_imatrix(os::system_files(), path);
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(*back,
            (convert::Importance{{"blk.0.attn_q.weight", {2, 0, 1, 1e-30F / 4}}, {"blk.1.ffn_down.weight", {1.25F}}}));
  const auto mapped = os::system_files().map(path);
  ASSERT_TRUE(mapped.ok());
  const auto file = convert::GgufFile::parse((*mapped)->bytes());
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->integer("imatrix.chunk_count").value(), 3);
  EXPECT_EQ(file->integer("imatrix.chunk_size").value(), 512);
  std::vector<std::string> names;
  for (const convert::GgufTensor& tensor : file->tensors()) {
    names.emplace_back(tensor.name);
    EXPECT_EQ(tensor.dims.size(), 1u) << tensor.name;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"blk.0.attn_q.weight.in_sum2", "blk.0.attn_q.weight.counts",
                                             "blk.1.ffn_down.weight.in_sum2", "blk.1.ffn_down.weight.counts"}));
}

TEST(Imatrix, WhatNoFileHoldsIsNotWritten) {
  const TemporaryFolder folder;
  const std::string path = folder.file("im.gguf");
  const std::vector<double> good{1}, large{1e39}, nan{std::numeric_limits<double>::quiet_NaN()}, negative{-1};
  for (const auto* sums : {&large, &nan, &negative}) {
    const Status written = convert::write_imatrix(os::system_files(), path, {{"a", *sums, 1}}, {});
    EXPECT_EQ(written.code(), Code::invalid_argument) << written.message();
  }
  const Status twice =
      convert::write_imatrix(os::system_files(), path, {{"a", good, 1}, {"b", good, 1}, {"a", good, 1}}, {});
  EXPECT_EQ(twice.code(), Code::invalid_argument) << twice.message();
  EXPECT_FALSE(os::system_files().map(path).ok());
}

TEST(Imatrix, OthersAreRefused) {
  const std::string nan = file_of({{"a.in_sum2", {1, std::numeric_limits<float>::quiet_NaN()}}, {"a.counts", {1}}});
  const std::pair<std::string, std::string> files[] = {
      {file_of(kGood, nullptr), "general.type"},
      {file_of(kGood, "model"), "general.type"},
      {file_of({}), "no sums"},
      {file_of({{"a.in_sum2", {1}}}), "without their counts"},
      {file_of({{"a.in_sum2", {1, 2}}, {"a.counts", {1, 1}}}), "experts"},
      {file_of({{"a.in_sum2", {1, -2}}, {"a.counts", {1}}}), "-2"},
      {nan, "nan"},
  };
  for (const auto& [bytes, part] : files) {
    const auto refused = read(bytes);
    ASSERT_FALSE(refused.ok()) << part;
    EXPECT_NE(refused.status().message().find(part), std::string::npos) << refused.status().message();
  }
}

TEST(Imatrix, CutAndFlippedFilesEndWell) {
  const std::string whole = file_of(kGood);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto cut = read(whole.substr(0, size));
    // Padding at the end may be cut without loss.
    if (cut.ok()) {
      EXPECT_GT(size + 32, whole.size()) << size;
    }
  }
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string bytes = whole;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
    (void)read(bytes);  // what is left may be a matrix: no sanitizer may complain
  }
}

}  // namespace
}  // namespace graft::test::convert_imatrix_test
