// 8-bit codes of numbers in [-1, 1] or [0, 1], spaced at about a hundredth of the number, over seven decades: the
// "dynamic" data type of T. Dettmers, M. Lewis, S. Shleifer, L. Zettlemoyer, "8-bit Optimizers via Block-wise
// Quantization", ICLR 2022. Each block of kCodeBlock numbers is divided by its largest magnitude first.
//
// Of the k bits after the sign, the place of the leading one is the decade; those behind it say which of the equal cells
// of [0.1, 1) times the decade. A code stands for the middle of its cell. 0 is 0, and one code is left for 1.
// Shared by GLSL and C++: Real is float there and double in the reference.
#ifdef __cplusplus
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
namespace graft::codes {
using uint = std::uint32_t;
using Real = double;
inline int findMSB(uint x) { return static_cast<int>(std::bit_width(x)) - 1; }
inline Real decade(int i) { return std::pow(10.0, i - 6); }
inline uint cell(Real x) { return static_cast<uint>(x); }
#define CODE_FUNCTION inline
#define CODE_REAL(x) static_cast<Real>(x)
#else
#define Real float
const float kDecades[7] = float[](1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0);
float decade(int i) { return kDecades[i]; }
uint cell(float x) { return uint(x); }
#define CODE_FUNCTION
#define CODE_REAL(x) float(x)
#endif

// The middle of cell j of 2^bits of a decade.
CODE_FUNCTION Real cell_value(int i, uint j, int bits) {
  return decade(i) * (CODE_REAL(0.1) + CODE_REAL(0.9) * (CODE_REAL(j) + CODE_REAL(0.5)) / CODE_REAL(1u << uint(bits)));
}

// What a code without sign stands for; `extra` (0 or 1) more bits per decade. last: the code of 1.
CODE_FUNCTION Real decode(uint k, int extra, uint last) {
  if (k == 0u) return CODE_REAL(0);
  if (k == last) return CODE_REAL(1);
  uint shifted = k + uint(extra);  // the first decade has 2^extra cells
  int bits = findMSB(shifted);
  return cell_value(bits - extra, shifted - (1u << uint(bits)), bits);
}

CODE_FUNCTION uint encode(Real x, int extra, uint last) {
  if (!(x >= CODE_REAL(0.275e-6))) return 0u;  // half of the least code or so
  if (x > CODE_REAL(0.5) * (CODE_REAL(1) + cell_value(6, (1u << uint(6 + extra)) - 1u, 6 + extra))) return last;
  int i = 0;
  while (i < 6 && x >= decade(i)) ++i;
  int bits = i + extra;
  uint cells = 1u << uint(bits);
  Real at = (x / decade(i) - CODE_REAL(0.1)) / CODE_REAL(0.9) * CODE_REAL(cells);
  uint j = at <= CODE_REAL(0) ? 0u : cell(at);
  if (j >= cells) j = cells - 1u;
  return cells + j - uint(extra);
}

// With sign: 127 codes each way, 128 for 1. Without: 254, and 255 for 1.
CODE_FUNCTION Real decode_signed(uint code) {
  if (code == 128u) return CODE_REAL(1);
  Real magnitude = decode(code & 127u, 0, 255u);
  return code > 128u ? -magnitude : magnitude;
}
CODE_FUNCTION uint encode_signed(Real x) {
  if (x < CODE_REAL(0)) {
    uint k = encode(-x, 0, 127u);
    return k == 0u ? 0u : k | 128u;
  }
  return encode(x, 0, 128u);
}
CODE_FUNCTION Real decode_unsigned(uint code) { return decode(code, 1, 255u); }
CODE_FUNCTION uint encode_unsigned(Real x) { return encode(x, 1, 255u); }

#ifdef __cplusplus
#undef CODE_FUNCTION
#undef CODE_REAL
inline constexpr std::uint64_t kCodeBlock = 256;
}  // namespace graft::codes
#else
#undef Real
#endif
