#include "tools/convert/dequantize.h"

#include <cstring>

#include "tools/convert/host_tensor.h"

namespace graft::convert {
namespace {

using Byte = unsigned char;

std::uint16_t word(const Byte* at) { return static_cast<std::uint16_t>(at[0] | at[1] << 8); }
float half(const Byte* at) { return half_to_float(word(at)); }

/// 32 numbers of 4 bits and, with `high` bits, of 5: element i is the low half of byte i, i + 16 the high half.
/// value = scale * q + offset.
void nibbles(const Byte* low, const Byte* high, float scale, float offset, int bias, float* out) {
  for (int i = 0; i < 16; ++i) {
    const auto fifth = [&](int bit) { return high == nullptr ? 0 : (high[bit / 8] >> bit % 8 & 1) << 4; };
    out[i] = scale * static_cast<float>(((low[i] & 15) | fifth(i)) - bias) + offset;
    out[i + 16] = scale * static_cast<float>((low[i] >> 4 | fifth(i + 16)) - bias) + offset;
  }
}

void q8_0(const Byte* in, float* out) {
  const float scale = half(in);
  for (int i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(static_cast<signed char>(in[2 + i]));
}

/// Scale and minimum of sub-block j of eight: 6 bits each, packed into 12 bytes.
struct ScaleAndMin {
  int scale;
  int min;
};
ScaleAndMin scale_and_min(const Byte* packed, int j) {
  if (j < 4) return {packed[j] & 63, packed[j + 4] & 63};
  return {(packed[j + 4] & 15) | (packed[j - 4] >> 6) << 4, packed[j + 4] >> 4 | (packed[j] >> 6) << 4};
}

/// Q4_K and, with `high` bits, Q5_K: eight sub-blocks of 32. Two share 32 bytes of nibbles.
void k_nibbles(const Byte* in, const Byte* high, const Byte* low, float* out) {
  const float scale = half(in);
  const float min_scale = half(in + 2);
  for (int j = 0; j < 8; ++j) {
    const auto [factor, minimum] = scale_and_min(in + 4, j);
    const float d = scale * static_cast<float>(factor);
    const float m = min_scale * static_cast<float>(minimum);
    for (int i = 0; i < 32; ++i) {
      const int nibble = low[j / 2 * 32 + i] >> (j % 2 * 4) & 15;
      const int fifth = high == nullptr ? 0 : (high[i] >> j & 1) << 4;
      out[j * 32 + i] = d * static_cast<float>(nibble | fifth) - m;
    }
  }
}

/// 128 bytes of low nibbles, 64 of pairs of high bits, 16 scales of 8 bits, one of 16: two halves of 128 elements.
void q6_k(const Byte* in, float* out) {
  const float scale = half(in + 208);
  for (int part = 0; part < 2; ++part) {
    const Byte* low = in + part * 64;
    const Byte* high = in + 128 + part * 32;
    const Byte* scales = in + 192 + part * 8;
    for (int i = 0; i < 128; ++i) {
      const int quarter = i / 32;
      const int nibble = low[i % 32 + quarter % 2 * 32] >> (quarter / 2 * 4) & 15;
      const int q = (nibble | (high[i % 32] >> (quarter * 2) & 3) << 4) - 32;
      out[part * 128 + i] =
          scale * static_cast<float>(static_cast<signed char>(scales[i / 16])) * static_cast<float>(q);
    }
  }
}

void block(Encoding encoding, const Byte* in, float* out) {
  switch (encoding) {
    case Encoding::f32: std::memcpy(out, in, sizeof(float)); break;
    case Encoding::f16: *out = half(in); break;
    case Encoding::bf16: *out = bfloat_to_float(word(in)); break;
    case Encoding::q4_0: nibbles(in + 2, nullptr, half(in), 0, 8, out); break;
    case Encoding::q4_1: nibbles(in + 4, nullptr, half(in), half(in + 2), 0, out); break;
    case Encoding::q5_0: nibbles(in + 6, in + 2, half(in), 0, 16, out); break;
    case Encoding::q5_1: nibbles(in + 8, in + 4, half(in), half(in + 2), 0, out); break;
    case Encoding::q8_0: q8_0(in, out); break;
    case Encoding::q4_k: k_nibbles(in, nullptr, in + 16, out); break;
    case Encoding::q5_k: k_nibbles(in, in + 16, in + 48, out); break;
    case Encoding::q6_k: q6_k(in, out); break;
  }
}

}  // namespace

void dequantize(Encoding encoding, std::span<const std::byte> bytes, std::span<float> out) {
  const BlockSize size = block_size(encoding);
  const Byte* in = reinterpret_cast<const Byte*>(bytes.data());
  for (std::size_t i = 0; i < out.size(); i += size.elements, in += size.bytes) block(encoding, in, out.data() + i);
}

}  // namespace graft::convert
