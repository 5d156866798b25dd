// What quantizing kernels share: which scale is an element's, division, and rounding to the quantized type.
// The including kernel declares `readonly buffer` S (float s[]) and Z (uint z[]).
#include "shaders/common/nan.glsl"
#include "shaders/common/index.glsl"
layout(constant_id = 0) const uint kScales = 0;         // 0 one, 1 one for each of the axis, 2 one for each block of it
layout(constant_id = 1) const uint kHasZeroPoint = 0;
layout(constant_id = 2) const uint kMantissa = 0;       // bits; 0: an integer type
layout(constant_id = 3) const uint kOverflow = 0;       // of a float type: 0 its limit, 1 not a number, 2 infinity

uint scale_of(uint element) {
  if (kScales == 0u) return 0u;
  const uint line = element / p.inner;
  const uint along = line % p.axis;
  if (kScales == 1u) return along;
  const uint blocks = (p.axis + p.block - 1u) / p.block;
  return (line / p.axis * blocks + along / p.block) * p.inner + element % p.inner;
}

// a * b - p, exactly, p being the rounded product; for sizes whose products neither overflow nor vanish.
float product_error(float a, float b, float product) {
  precise float ca = 4097.0 * a;
  precise float ah = ca - (ca - a);
  precise float al = a - ah;
  precise float cb = 4097.0 * b;
  precise float bh = cb - (cb - b);
  precise float bl = b - bh;
  precise float e = ah * bh - product;
  e = e + ah * bl;
  e = e + al * bh;
  e = e + al * bl;
  return e;
}

// x / s rounded to the nearest f32: Vulkan lets a division be off by 2.5 units in the last place, which would turn ties.
float quotient(float x, float s) {
  precise float q = x / s;
  if (!(abs(q) > 1e-6 && abs(q) < 1e6 && abs(s) > 1e-25 && abs(s) < 1e25)) return q;
  precise float product = q * s;
  precise float rest = x - product;
  rest = rest - product_error(q, s, product);
  q = q + rest / s;
  return q;
}

// The integer before it is limited: far beyond both limits it is something beyond them.
int to_integer(float x, uint at) {
  const float q = roundEven(quotient(x, s[at]));
  const int zero = kHasZeroPoint != 0u ? int(z[at]) : 0;
  return (is_nan(q) ? 0 : int(clamp(q, -1048576.0, 1048576.0))) + zero;
}
int limited(int v) { return clamp(v, int(p.low), int(p.high)); }

float to_float_type(float x, uint at) {
  float v = quotient(x, s[at]);
  if (kHasZeroPoint != 0u) v += uintBitsToFloat(z[at]);
  if (is_nan(v)) return kOverflow == 3u ? p.high : v;
  const uint sign = floatBitsToUint(v) & 0x80000000u;
  float size = abs(v);
  if (!is_inf(v)) {
    const int exponent = max(int(floatBitsToUint(size) >> 23) - 127, p.least);
    const float ulp = uintBitsToFloat(uint(exponent - int(kMantissa) + 127) << 23);
    const float inverse = uintBitsToFloat(uint(127 - exponent + int(kMantissa)) << 23);
    if (exponent < 100) size = roundEven(size * inverse) * ulp;
  }
  if (size > p.high) {
    if (kOverflow == 1u) return nan();
    size = kOverflow == 2u ? inf() : p.high;
  }
  return uintBitsToFloat(floatBitsToUint(size) | sign);
}

float from_integer(int v, uint at) {
  const int zero = kHasZeroPoint != 0u ? int(z[at]) : 0;
  precise float y = float(v - zero) * s[at];
  return y;
}
float from_float(float v, uint at) {
  precise float y = kHasZeroPoint != 0u ? v - uintBitsToFloat(z[at]) : v;
  y = y * s[at];
  return y;
}
