#include "runtime/core/op_id.gen.h"
#include "runtime/core/narrow.h"
#include "runtime/core/quantized.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "platform/base/half.h"
#include "runtime/model/model.h"

namespace graft::core_quantized_test {
namespace {

constexpr DType kAll[] = {DType::q8_0, DType::q4_0, DType::q4_1, DType::q5_0,
                          DType::q5_1, DType::q4_k, DType::q5_k, DType::q6_k};

using Bytes = std::vector<std::byte>;

std::byte byte(std::uint32_t value) { return static_cast<std::byte>(value); }

Bytes random_block(DType dtype, std::uint32_t seed) {
  std::mt19937 random(seed);
  Bytes block(dtype_block(dtype).bytes);
  for (std::byte& b : block) b = byte(random());
  return block;
}

void put_half(Bytes& block, std::size_t at, float value) {
  const std::uint16_t bits = float_to_half(value);
  block[at] = byte(bits);
  block[at + 1] = byte(bits >> 8);
}

// A second way to read the blocks: walking over the bytes, as the formats' authors describe them, not by element.
std::vector<double> walk_k(DType dtype, const Bytes& block, double d, double dmin) {
  std::vector<double> y;
  const bool five = dtype == DType::q5_k;
  const auto u = [&](std::size_t i) { return std::to_integer<unsigned>(block[i]); };
  unsigned scales[8];
  unsigned mins[8];
  for (unsigned j = 0; j < 4; ++j) {
    scales[j] = u(4 + j) % 64;
    mins[j] = u(8 + j) % 64;
    scales[j + 4] = u(12 + j) % 16 + u(4 + j) / 64 * 16;
    mins[j + 4] = u(12 + j) / 16 + u(8 + j) / 64 * 16;
  }
  for (unsigned pair = 0; pair < 4; ++pair) {
    for (unsigned upper = 0; upper < 2; ++upper) {
      for (unsigned l = 0; l < 32; ++l) {
        const unsigned packed = u((five ? 48 : 16) + 32 * pair + l);
        unsigned q = upper != 0 ? packed / 16 : packed % 16;
        if (five && (u(16 + l) & (1u << (2 * pair + upper))) != 0) q += 16;
        y.push_back(d * scales[2 * pair + upper] * q - dmin * mins[2 * pair + upper]);
      }
    }
  }
  return y;
}

std::vector<double> walk_q6_k(const Bytes& block, double d) {
  std::vector<double> y(256);
  const auto u = [&](std::size_t i) { return std::to_integer<int>(block[i]); };
  for (std::size_t half = 0; half < 2; ++half) {
    for (std::size_t l = 0; l < 32; ++l) {
      const int high = u(128 + 32 * half + l);
      const int first = u(64 * half + l);
      const int second = u(64 * half + 32 + l);
      const int codes[] = {first % 16 + high % 4 * 16, second % 16 + high / 4 % 4 * 16, first / 16 + high / 16 % 4 * 16,
                           second / 16 + high / 64 * 16};
      for (std::size_t k = 0; k < 4; ++k) {
        const double scale = static_cast<std::int8_t>(u(192 + 8 * half + 2 * k + l / 16));
        y[128 * half + 32 * k + l] = d * scale * (codes[k] - 32);
      }
    }
  }
  return y;
}

TEST(Quantized, LargeBlocksReadTheSameWhenWalkedByteByByte) {
  for (const DType dtype : {DType::q4_k, DType::q5_k, DType::q6_k}) {
    for (std::uint32_t seed = 0; seed < 20; ++seed) {
      Bytes block = random_block(dtype, seed);
      const bool six = dtype == DType::q6_k;
      put_half(block, six ? 208 : 0, 0.25f);
      if (!six) put_half(block, 2, 0.75f);
      const auto expected = six ? walk_q6_k(block, 0.25) : walk_k(dtype, block, 0.25, 0.75);
      for (std::uint32_t i = 0; i < 256; ++i) {
        EXPECT_EQ(dequantize_element(dtype, block.data(), i), expected[i]) << dtype_name(dtype) << " element " << i;
      }
    }
  }
}

TEST(Quantized, SmallBlocksAreWhatTheFormatSays) {
  struct Case {
    DType dtype;
    std::size_t codes;  // where the halves of bytes begin
    double d, m, zero;
  };
  for (const Case& c : {Case{DType::q4_0, 2, 0.5, 0, 8}, Case{DType::q4_1, 4, 0.5, 3, 0},
                        Case{DType::q5_0, 6, 0.5, 0, 16}, Case{DType::q5_1, 8, 0.5, 3, 0}}) {
    Bytes block = random_block(c.dtype, 7);
    put_half(block, 0, 0.5f);
    if (c.m != 0) put_half(block, 2, 3.0f);
    const bool five = c.dtype == DType::q5_0 || c.dtype == DType::q5_1;
    std::uint32_t fifths = 0;
    for (std::size_t i = 0; five && i < 4; ++i) {
      fifths |= std::to_integer<std::uint32_t>(block[c.codes - 4 + i]) << (8 * i);
    }
    for (std::uint32_t i = 0; i < 16; ++i) {
      const auto packed = std::to_integer<unsigned>(block[c.codes + i]);
      const double low = packed % 16 + (fifths >> i & 1u) * 16.0;
      const unsigned upper = packed / 16;
      const double high = upper + (fifths >> (i + 16) & 1u) * 16.0;
      EXPECT_EQ(dequantize_element(c.dtype, block.data(), i), c.d * (low - c.zero) + c.m);
      EXPECT_EQ(dequantize_element(c.dtype, block.data(), i + 16), c.d * (high - c.zero) + c.m);
    }
  }
  Bytes block(34);
  put_half(block, 0, -0.25f);
  block[2] = byte(0x80);
  block[33] = byte(3);
  EXPECT_EQ(dequantize_element(DType::q8_0, block.data(), 0), 32.0);
  EXPECT_EQ(dequantize_element(DType::q8_0, block.data(), 31), -0.75);
}

TEST(Quantized, ErrorIsAtMostAStepOfTheBlock) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> x(1024);
  for (float& value : x) value = normal(random);
  for (const DType dtype : kAll) {
    Bytes blocks(storage_bytes(dtype, x.size()));
    quantize(dtype, x, blocks);
    std::vector<float> y(x.size());
    dequantize(dtype, blocks, y);
    // Numbers reach 4 on either side. Half a step of a block of 2^bits steps over its range, and as much again for
    // 6-bit scales; a whole step of a block without a minimum, whose positive end lacks a code.
    const double bits = dtype == DType::q8_0                                                   ? 8
                        : dtype == DType::q6_k                                                 ? 6
                        : dtype == DType::q5_0 || dtype == DType::q5_1 || dtype == DType::q5_k ? 5
                                                                                               : 4;
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_NEAR(y[i], x[i], 8.0 / std::exp2(bits)) << dtype_name(dtype) << " element " << i;
    }
  }
}

double weighted_error(DType dtype, std::span<const float> x, std::span<const float> weights, const Bytes& blocks) {
  std::vector<float> y(x.size());
  dequantize(dtype, blocks, y);
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double error = static_cast<double>(x[i]) - y[i];
    sum += weights[i % weights.size()] * error * error;
  }
  return sum;
}

TEST(Quantized, SearchedScalesLeaveLessErrorWhereItWeighs) {
  std::mt19937 random(4);
  std::normal_distribution<float> normal;
  constexpr std::size_t kRow = 512;
  std::vector<float> x(16 * kRow);
  std::vector<float> weights(kRow);
  for (float& value : x) value = normal(random);
  for (float& weight : weights) weight = std::exp(2 * normal(random));  // as activations are: a few matter most
  for (const DType dtype : kAll) {
    Bytes fast(storage_bytes(dtype, x.size()));
    Bytes searched = fast;
    quantize(dtype, x, fast);
    quantize(dtype, x, weights, searched);
    // Measured: 0.39 (q4_1) to 0.65 (q5_0).
    EXPECT_LT(weighted_error(dtype, x, weights, searched), 0.75 * weighted_error(dtype, x, weights, fast))
        << dtype_name(dtype);
  }
}

/// Numbers that other programs can make, too: sums of four words of the Mersenne twister.
std::vector<float> bell_shaped(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> x(count);
  for (float& value : x) {
    double sum = 0;
    for (int i = 0; i < 4; ++i) sum += static_cast<double>(random()) / 0x1p32;
    value = static_cast<float>(sum - 2);
  }
  return x;
}

// What ggml_quantize_chunk of llama.cpp's libggml (0.5.0) leaves of these numbers without an importance matrix: the root
// of the errors' squares over that of the numbers'. tests/torch/ggml_blocks.py compares others.
TEST(Quantized, LargeBlocksHaveNoMoreErrorThanGgmls) {
  const std::vector<float> x = bell_shaped(65536, 3);
  const float alike[] = {1};
  double squares = 0;
  for (const float value : x) squares += static_cast<double>(value) * value;
  using Known = std::pair<DType, double>;
  for (const auto& [dtype, ggml] : {Known{DType::q4_k, 0.068803}, Known{DType::q5_k, 0.034902}, Known{DType::q6_k, 0.017047}}) {
    Bytes blocks(storage_bytes(dtype, x.size()));
    quantize(dtype, x, blocks);
    EXPECT_LT(std::sqrt(weighted_error(dtype, x, alike, blocks) / squares), ggml) << dtype_name(dtype);
  }
}

TEST(Quantized, ImportanceNeverMakesItWorse) {
  std::mt19937 random(6);
  std::uniform_real_distribution<float> exponent(-9, 9);
  const std::vector<float> x = bell_shaped(64 * 256, 7);
  for (const DType dtype : kAll) {
    std::vector<float> weights(256);
    for (float& weight : weights) weight = std::pow(10.0f, exponent(random));
    Bytes plain(storage_bytes(dtype, x.size())), weighed = plain;
    quantize(dtype, x, plain);
    quantize(dtype, x, weights, weighed);
    const std::size_t bytes = storage_bytes(dtype, 256);
    for (std::size_t row = 0; row < 64; ++row) {
      const auto numbers = std::span(x).subspan(256 * row, 256);
      const auto error = [&](const Bytes& of) {
        const Bytes one(of.begin() + static_cast<std::ptrdiff_t>(row * bytes),
                        of.begin() + static_cast<std::ptrdiff_t>((row + 1) * bytes));
        return weighted_error(dtype, numbers, weights, one);
      };
      EXPECT_LE(error(weighed), error(plain) * (1 + 1e-6)) << dtype_name(dtype) << " row " << row;
    }
  }
}

TEST(Quantized, WhatNoScaleHoldsIsNamed) {
  for (const DType dtype : kAll) {
    std::vector<float> x(512, 0.5f);
    Bytes blocks(storage_bytes(dtype, x.size()));
    x[300] = 60000;
    quantize(dtype, x, blocks);
    EXPECT_TRUE(check_blocks("w", x, dtype, blocks).ok()) << dtype_name(dtype);
    x[300] = -3e38f;
    quantize(dtype, x, blocks);
    const Status refused = check_blocks("w", x, dtype, blocks);
    EXPECT_EQ(refused.message(), cat("The tensor \"w\" holds -3e+38 at element 300, which a block of ", dtype_name(dtype),
                                     " cannot: its scale would exceed 65504, the largest number of f16."));
  }
  const float large[] = {1, -65519, 65520};
  EXPECT_EQ(check_narrowing("w", large, DType::f16).message(),
            "The tensor \"w\" holds 65520 at element 2, which f16 cannot: its largest number is 65504.");
  EXPECT_TRUE(check_narrowing("w", std::span(large).first(2), DType::f16).ok());
  EXPECT_TRUE(check_narrowing("w", large, DType::bf16).ok());
  const float most[] = {std::numeric_limits<float>::max(), std::numeric_limits<float>::infinity()};
  EXPECT_FALSE(check_narrowing("w", most, DType::bf16).ok());
  EXPECT_TRUE(check_narrowing("w", std::span(most).last(1), DType::f16).ok()) << "it was infinite before";
  EXPECT_TRUE(check_narrowing("w", most, DType::f32).ok());
}

/// Blocks of one scale, tried closely: no scale leaves much less than the one that was found.
TEST(Quantized, SearchedScalesAreNearTheBestOfAThousand) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (int block = 0; block < 20; ++block) {
    std::vector<float> x(32);
    std::vector<float> weights(32);
    for (float& value : x) value = normal(random);
    for (float& weight : weights) weight = block == 0 ? 0 : std::exp(normal(random));
    const std::vector<float> alike(32, 1.0f);
    const std::vector<float>& counted = block == 0 ? alike : weights;  // weights of 0 all count alike
    Bytes found(storage_bytes(DType::q4_0, 32));
    quantize(DType::q4_0, x, weights, found);
    double best = std::numeric_limits<double>::infinity();
    for (int i = -1000; i <= 1000; ++i) {
      const double scale = i * 0.0008;
      double sum = 0;
      for (std::size_t k = 0; k < 32 && i != 0; ++k) {
        const double error = x[k] - scale * std::clamp(std::nearbyint(x[k] / scale), -8.0, 7.0);
        sum += counted[k] * error * error;
      }
      if (i != 0) best = std::min(best, sum);
    }
    // Of 20 blocks 14 get the best one, and none more than 1.22 times its error: twenty are tried, and rounded to f16.
    EXPECT_LT(weighted_error(DType::q4_0, x, counted, found), 1.25 * best) << block;
  }
}

TEST(Quantized, RowsThatAreNoWholeBlocksTakeTheNextBetterOnes) {
  EXPECT_EQ(fitting_blocks(DType::q4_k, 512), DType::q4_k);
  EXPECT_EQ(fitting_blocks(DType::q4_k, 896), DType::q5_0);
  EXPECT_EQ(fitting_blocks(DType::q5_k, 896), DType::q5_1);
  EXPECT_EQ(fitting_blocks(DType::q6_k, 896), DType::q8_0);
  EXPECT_EQ(fitting_blocks(DType::q4_0, 896), DType::q4_0);
  EXPECT_EQ(fitting_blocks(DType::q6_k, 900), std::nullopt);
  EXPECT_EQ(fitting_blocks(DType::q4_0, 900), std::nullopt);
  EXPECT_EQ(fitting_blocks(DType::f16, 900), DType::f16);
}

TEST(Quantized, ZerosStayZeros) {
  const std::vector<float> x(256);
  for (const DType dtype : kAll) {
    Bytes blocks(storage_bytes(dtype, x.size()), byte(0xff));
    quantize(dtype, x, blocks);
    std::vector<float> y(x.size(), 1);
    dequantize(dtype, blocks, y);
    EXPECT_EQ(y, x) << dtype_name(dtype);
  }
}

TEST(Quantized, HalvesComeBackAndRoundToTheNearest) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    if (std::isnan(half_to_float(half))) continue;
    EXPECT_EQ(float_to_half(half_to_float(half)), half);
  }
  EXPECT_EQ(float_to_half(65519.0f), 0x7bff);
  EXPECT_EQ(float_to_half(65520.0f), 0x7c00);
  EXPECT_EQ(float_to_half(1.0f + 0x1p-11f), 0x3c00);  // a tie goes to the even one
  EXPECT_EQ(float_to_half(1.0f + 0x1p-11f + 0x1p-20f), 0x3c01);
  EXPECT_TRUE(std::isnan(half_to_float(float_to_half(NAN))));
}

TEST(Quantized, OnlyConstantsOfWholeBlocks) {
  Graph graph;
  const auto parameter = graph.add_value("w", DType::q8_0, {4, 32}, ValueKind::parameter);
  EXPECT_NE(parameter.status().message().find("quantized values are frozen"), std::string::npos);
  const auto ragged = graph.add_value("w", DType::q4_k, {4, 128}, ValueKind::constant);
  EXPECT_NE(ragged.status().message().find("must be a multiple of 256"), std::string::npos);
  EXPECT_FALSE(graph.add_value("w", DType::q8_0, {Dim::symbol("n")}, ValueKind::constant).ok());
  EXPECT_FALSE(graph.add_value("w", DType::q8_0, {}, ValueKind::constant).ok());
  ASSERT_TRUE(graph.add_value("w", DType::q8_0, {4, 32}, ValueKind::constant).ok());
  const auto node = graph.add_node(Op::neg, {graph.find_value("w")});
  EXPECT_NE(node.status().message().find("takes no quantized value"), std::string::npos) << node.status().message();
}

TEST(Quantized, ModelTakesBytesOfItsBlocks) {
  Model model;
  const auto id = model.graph.add_value("w", DType::q5_1, {3, 64}, ValueKind::constant);
  ASSERT_TRUE(id.ok());
  EXPECT_TRUE(model.copy_weight(*id, Bytes(3 * 2 * 24)).ok());
  EXPECT_FALSE(model.copy_weight(*id, Bytes(3 * 64 * 4)).ok());
}

}  // namespace
}  // namespace graft::core_quantized_test
