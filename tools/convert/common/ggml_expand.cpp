// The layouts are those of ggml's block structs (ggml-common.h). Each format's comment says how a number is made.
#include "tools/convert/common/ggml_expand.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "platform/base/half.h"

namespace graft::convert {
namespace {

constexpr std::size_t kSuper = 256;  ///< numbers of a block of blocks

std::uint32_t u8(const std::byte* at) { return static_cast<std::uint32_t>(*at); }
std::uint32_t u16(const std::byte* at) { return u8(at) | u8(at + 1) << 8; }
float half(const std::byte* at) { return half_to_float(static_cast<std::uint16_t>(u16(at))); }

/// Two bits of the number `i` of a block: each 32 bytes hold 128 numbers, and a byte those that are 32 apart.
std::uint32_t two_bits(const std::byte* bits, std::size_t i) {
  return u8(bits + i / 128 * 32 + i % 32) >> 2 * (i % 128 / 32) & 3;
}

/// Q2_K: 16 numbers share a scale and a least value, 4 bits each: d * scale * q - dmin * least.
void q2_k(const std::byte* block, float* out) {
  const std::byte* const scales = block;
  const std::byte* const bits = block + 16;
  const float d = half(block + 80), dmin = half(block + 82);
  for (std::size_t i = 0; i < kSuper; ++i) {
    const std::uint32_t both = u8(scales + i / 16);
    out[i] = d * static_cast<float>(both & 15) * static_cast<float>(two_bits(bits, i)) -
             dmin * static_cast<float>(both >> 4);
  }
}

/// Q3_K: 16 numbers share a scale of 6 bits less 32; a number has 2 bits, and 4 less where its high bit is not set.
void q3_k(const std::byte* block, float* out) {
  const std::byte* const high = block;
  const std::byte* const bits = block + 32;
  const std::byte* const packed = block + 96;
  const float d = half(block + 108);
  for (std::size_t i = 0; i < kSuper; ++i) {
    const std::size_t s = i / 16;  // the low 4 bits of scales 0 to 15, then the high 2 of each fourth in a byte
    const std::uint32_t low = u8(packed + s % 8) >> (s < 8 ? 0 : 4) & 15;
    const std::uint32_t scale = low | (u8(packed + 8 + s % 4) >> 2 * (s / 4) & 3) << 4;
    const bool set = (u8(high + i % 32) >> i / 32 & 1) != 0;
    const auto number = static_cast<int>(two_bits(bits, i)) - (set ? 0 : 4);
    out[i] = d * static_cast<float>(static_cast<int>(scale) - 32) * static_cast<float>(number);
  }
}

/// What the 4 bits of IQ4_NL and IQ4_XS stand for: closer together near 0, where most weights are.
constexpr float kUneven[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/// 32 numbers of 4 bits: a byte holds two that are 16 apart.
void from_table(const float* table, float scale, const std::byte* bits, float* out) {
  for (std::size_t i = 0; i < 16; ++i) {
    out[i] = scale * table[u8(bits + i) & 15];
    out[i + 16] = scale * table[u8(bits + i) >> 4];
  }
}

void iq4_nl(const std::byte* block, float* out) { from_table(kUneven, half(block), block + 2, out); }

/// IQ4_XS: as IQ4_NL, 32 numbers with a scale of 6 bits less 32: 2 bits in one word, 4 in a half byte.
void iq4_xs(const std::byte* block, float* out) {
  const float d = half(block);
  const std::uint32_t high = u16(block + 2);
  for (std::size_t s = 0; s < kSuper / 32; ++s) {
    const std::uint32_t low = u8(block + 4 + s / 2) >> 4 * (s % 2) & 15;
    const auto scale = static_cast<int>(low | (high >> 2 * s & 3) << 4) - 32;
    from_table(kUneven, d * static_cast<float>(scale), block + 8 + 16 * s, out + 32 * s);
  }
}

/// MXFP4: 32 numbers of 1 sign, 2 exponent and 1 mantissa bits, times a power of two (OCP Microscaling 1.0).
void mxfp4(const std::byte* block, float* out) {
  constexpr float kFp4[16] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6, -0.0F, -0.5F, -1, -1.5F, -2, -3, -4, -6};
  from_table(kFp4, std::ldexp(1.0F, static_cast<int>(u8(block)) - 127), block + 1, out);
}

/// -1, 0 or 1: the digit of base 3 that is at `place` of a byte which holds the fraction of 256.
float ternary(std::uint32_t byte, std::size_t place) {
  constexpr std::uint32_t kPowers[] = {1, 3, 9, 27, 81};
  const std::uint32_t shifted = byte * kPowers[place] & 255;
  return static_cast<float>(shifted * 3 >> 8) - 1;
}

/// TQ1_0: five digits in a byte, of numbers that are 32 apart, then 16, then four digits of numbers that are 4 apart.
void tq1_0(const std::byte* block, float* out) {
  const float d = half(block + 52);
  for (std::size_t i = 0; i < 160; ++i) out[i] = d * ternary(u8(block + i % 32), i / 32);
  for (std::size_t i = 0; i < 80; ++i) out[160 + i] = d * ternary(u8(block + 32 + i % 16), i / 16);
  for (std::size_t i = 0; i < 16; ++i) out[240 + i] = d * ternary(u8(block + 48 + i % 4), i / 4);
}

/// TQ2_0: two bits less 1.
void tq2_0(const std::byte* block, float* out) {
  const float d = half(block + 64);
  for (std::size_t i = 0; i < kSuper; ++i) out[i] = d * (static_cast<float>(two_bits(block, i)) - 1);
}

constexpr ExpandedType kTypes[] = {{10, kSuper, 84, q2_k},    {11, kSuper, 110, q3_k}, {20, 32, 18, iq4_nl},
                                   {23, kSuper, 136, iq4_xs}, {34, kSuper, 54, tq1_0}, {35, kSuper, 66, tq2_0},
                                   {39, 32, 17, mxfp4}};

}  // namespace

std::span<const ExpandedType> expanded_types() { return kTypes; }

const ExpandedType* expanded_type(std::uint32_t number) {
  const auto* const found = std::ranges::find(kTypes, number, &ExpandedType::number);
  return found == std::end(kTypes) ? nullptr : found;
}

void expand(const ExpandedType& type, std::span<const std::byte> blocks, std::span<float> out) {
  for (std::size_t i = 0; i * type.elements < out.size(); ++i) {
    type.expand(blocks.data() + i * type.bytes, out.data() + i * type.elements);
  }
}

}  // namespace graft::convert
