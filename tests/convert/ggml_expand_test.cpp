// Blocks that become f32, against ggml: the expected numbers are what its dequantize_row_* functions (ggml-base of
// llama.cpp) gave of the same bytes. All are sums of powers of two that float holds, so that equality is asked for.
#include <cstring>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "platform/base/half.h"
#include "tests/support/paths.h"
#include "tools/convert/common/ggml_expand.h"
#include "tools/convert/language_model/convert_decoder.h"

namespace graft::convert::ggml_expand_test {
namespace {

/// Bytes without an order; the half floats at `halves` are 0.125, 0.25.
std::vector<std::byte> block_of(std::uint32_t size, const std::vector<std::size_t>& halves, std::uint32_t seed) {
  std::vector<std::byte> out(size);
  for (std::uint32_t i = 0; i < size; ++i) {
    out[i] = static_cast<std::byte>((i * 37 + 11 + seed) * (i + 3 + 2 * seed) >> 1 & 255);
  }
  for (std::size_t k = 0; k < halves.size(); ++k) {
    const std::uint16_t bits = float_to_half(0.125F * static_cast<float>(k + 1));
    std::memcpy(out.data() + halves[k], &bits, sizeof bits);
  }
  return out;
}

struct Case {
  std::uint32_t type;
  std::vector<std::size_t> halves;
  /// Numbers 0, 1, elements / 2 + 1 and elements - 1 of the first block; the first and the last but one of the second.
  std::vector<float> some;
  double sum;  ///< of (i mod 97 + 1) * number i
};

TEST(GgmlExpand, AsGgml) {
  const Case cases[] = {
      {10, {80, 82}, {-0.25, -0.25, -2.25, -1.25, -1.5, 3.0}, -11524.875},
      {11, {108}, {16.0, 16.0, -15.5, 7.5, 12.0, 0.0}, 7665.625},
      {20, {0}, {-6.125, 11.125, -2.75, -15.875, -8.125, -1.25}, -1909.125},
      {23, {0}, {-2.5, 317.5, -127.0, 73.5, 119.25, -351.0}, 38565.625},
      {34, {52}, {-0.125, 0.0, 0.0, 0.125, 0.0, 0.0}, 173.875},
      {35, {64}, {-0.125, -0.125, -0.125, 0.25, -0.125, 0.0}, 1217.125},
      {39, {}, {0.0, 1.0, -1.5, 2.0, 6.0, 6.0}, 2892.5},
  };
  EXPECT_EQ(std::size(cases), expanded_types().size());
  for (const Case& one : cases) {
    const ExpandedType* const type = expanded_type(one.type);
    ASSERT_NE(type, nullptr) << one.type;
    std::vector<std::byte> blocks = block_of(type->bytes, one.halves, 0);
    const std::vector<std::byte> second = block_of(type->bytes, one.halves, 5);
    blocks.insert(blocks.end(), second.begin(), second.end());
    if (one.type == 39) {  // powers of two
      blocks[0] = std::byte{126};
      blocks[type->bytes] = std::byte{129};
    }
    const std::size_t n = type->elements;
    std::vector<float> out(2 * n);
    expand(*type, blocks, out);
    EXPECT_EQ((std::vector{out[0], out[1], out[n / 2 + 1], out[n - 1], out[n], out[2 * n - 2]}), one.some) << one.type;
    double sum = 0;
    for (std::size_t i = 0; i < out.size(); ++i) sum += static_cast<double>(i % 97 + 1) * out[i];
    EXPECT_EQ(sum, one.sum) << one.type;
  }
  EXPECT_EQ(expanded_type(16), nullptr) << "IQ2_XXS, whose numbers are rows of a table";
}

// A Q4_0 block has the layout of an IQ4_NL block: the same file with another number for the type.
TEST(GgmlExpand, AMatrixOfAFile) {
  std::ifstream seed(test::source_dir() + "/tests/fuzz/corpus/gguf/blocks", std::ios::binary);
  std::string file(std::istreambuf_iterator<char>(seed), {});
  const std::string name = "blk.0.attn_output.weight";
  const std::size_t type = file.find(name) + name.size() + 4 + 2 * 8;  // behind the rank and two dimensions
  ASSERT_EQ(file[type], 2);
  const auto matrix = [](const ConvertedDecoder& from) {
    const ValueId id = from.model.graph.find_value("model.layers.0.self_attn.o_proj.weight");
    return std::pair(from.model.graph.value(id).dtype, from.model.weight(id).value());
  };
  const auto plain = convert_gguf(std::as_bytes(std::span(file)), "a.gguf");
  ASSERT_TRUE(plain.ok()) << plain.status().message();
  EXPECT_EQ(matrix(*plain).first, DType::q4_0);
  file[type] = 20;
  const auto uneven = convert_gguf(std::as_bytes(std::span(file)), "a.gguf");
  ASSERT_TRUE(uneven.ok()) << uneven.status().message();
  ASSERT_EQ(matrix(*uneven).first, DType::f32);
  EXPECT_NE(uneven->report.text().find("Blocks of IQ4_NL became f32, since no kernel reads them"), std::string::npos)
      << uneven->report.text();
  const auto blocks = matrix(*plain).second, numbers = matrix(*uneven).second;
  ASSERT_EQ(numbers.size(), 32 * 32 * sizeof(float));
  std::vector<float> expected(32 * 32);
  expand(*expanded_type(20), blocks, expected);
  EXPECT_EQ(std::memcmp(expected.data(), numbers.data(), numbers.size()), 0);
  const auto again = convert_gguf(std::as_bytes(std::span(file)), "a.gguf", {.quantize = DType::q8_0});
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(matrix(*again).first, DType::q8_0);
}

}  // namespace
}  // namespace graft::convert::ggml_expand_test
