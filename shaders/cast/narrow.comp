//! variant f32 : -DELEMENT=float -DVECTOR=vec4
//! variant i32 : -DELEMENT=int -DVECTOR=ivec4
// Numbers rounded to what a narrower format can say, to nearest, ties to even; integers keep their low bits. All by
// bits, so that no driver's rounding or flushing of denormals shows.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "shaders/common/nan.glsl"
#include "shaders/cast/narrow_push.h"
layout(local_size_x = 128) in;
#include "shaders/common/flat.glsl"
layout(binding = 0) readonly buffer X1 { ELEMENT x1[]; };
layout(binding = 0) readonly buffer X4 { VECTOR x4[]; };
layout(binding = 1) writeonly buffer Y1 { ELEMENT y1[]; };
layout(binding = 1) writeonly buffer Y4 { VECTOR y4[]; };

int apply(int x) { return p.least != 0 ? bitfieldExtract(x, 0, p.mantissa) : int(bitfieldExtract(uint(x), 0, p.mantissa)); }

// bits of a magnitude, without the lowest `drop` of them.
uint rounded(uint bits, uint drop) {
  const uint half_unit = 1u << (drop - 1u);
  const uint odd = (bits >> drop) & 1u;
  return (bits + half_unit - 1u + odd) >> drop << drop;
}

// Magnitudes below the smallest normal number are multiples of a quantum of 2^(least - mantissa).
uint denormal(uint bits) {
  const int exponent = int(bits >> 23);
  const uint mantissa = exponent == 0 ? bits : (bits & 0x007fffffu) | 0x00800000u;
  // The value is mantissa * 2^(max(exponent, 1) - 150).
  const int drop = p.least - p.mantissa + 150 - max(exponent, 1);
  if (drop > 24) return 0u;
  const uint units = drop <= 0 ? mantissa << -drop : rounded(mantissa, uint(drop)) >> drop;
  if (units == 0u) return 0u;
  const int top = findMSB(units);
  return (uint(top + p.least - p.mantissa + 127) << 23) | ((units << (23 - top)) & 0x007fffffu);
}

uint power_of_two(uint bits) {
  const uint exponent = bits >> 23;
  const uint rest = bits & 0x007fffffu;
  if (bits >= 0x7f800000u) return p.saturate != 0u && bits == 0x7f800000u ? 0x7f000000u : 0x7fc00000u;
  if (exponent == 0u) {  // 2^-127 is 0x00400000
    if (p.power == 1u && rest > 0x00400000u) return 0x00800000u;
    return p.power == 3u && rest >= 0x00600000u ? 0x00800000u : 0x00400000u;
  }
  const bool more = p.power == 1u ? rest != 0u : (p.power == 3u && rest >= 0x00400000u);
  const uint chosen = exponent + (more ? 1u : 0u);
  if (chosen < 255u) return chosen << 23;
  return p.saturate != 0u ? 0x7f000000u : 0x7fc00000u;
}

float apply(float x) {
  const uint all = floatBitsToUint(x);
  const uint bits = all & 0x7fffffffu;
  if (p.power != 0u) return uintBitsToFloat(power_of_two(bits));
  if (is_nan_bits(all)) return p.overflow == 2u ? -0.0 : uintBitsToFloat(0x7fc00000u);  // there may be none
  const uint sign = all & 0x80000000u;
  const uint largest = floatBitsToUint(p.largest);
  const bool normal = int(bits >> 23) - 127 >= p.least || p.least <= -126;
  uint y = bits == 0x7f800000u ? bits : (normal ? rounded(bits, uint(23 - p.mantissa)) : denormal(bits));
  if (y > largest) {
    if (p.saturate != 0u || p.overflow == 2u) {
      y = largest;
    } else {
      y = p.overflow == 0u ? 0x7f800000u : 0x7fc00000u;
    }
  }
  if (y == 0u && p.negative_zero == 0u) return 0.0;
  return uintBitsToFloat(y | sign);
}

void vector(uint i) {
  const VECTOR x = x4[i];
  y4[i] = VECTOR(apply(x.x), apply(x.y), apply(x.z), apply(x.w));
}
void single(uint i) { y1[i] = apply(x1[i]); }
