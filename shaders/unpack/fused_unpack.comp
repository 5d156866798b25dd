//! variant w32 :
// Elements of fewer than 32 bits, several in a word, the first in its lowest bits, become f32, times a scale and plus an
// offset for each channel. By bits: what a driver's own conversion does with subnormal numbers is up to it.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "shaders/unpack/unpack_push.h"
layout(local_size_x = 128) in;
layout(constant_id = 0) const uint KIND = 0;  // 0 u8, 1 i8, 2 f16, 3 bf16
layout(constant_id = 1) const uint AFFINE = 0;
#include "shaders/common/flat.glsl"
layout(binding = 0) readonly buffer X1 { uint x1[]; };
layout(binding = 1) writeonly buffer Y1 { float y1[]; };
layout(binding = 1) writeonly buffer Y4 { vec4 y4[]; };

float from_f16(uint h) {
  const uint sign = (h & 0x8000u) << 16, exponent = h >> 10 & 31u, mantissa = h & 0x3ffu;
  if (exponent == 0u) return uintBitsToFloat(floatBitsToUint(float(mantissa) * 5.9604645e-8) | sign);
  return uintBitsToFloat(sign | (exponent == 31u ? 255u : exponent + 112u) << 23 | mantissa << 13);
}

float element(uint i) {
  const uint per_word = KIND < 2u ? 4u : 2u, bits = 32u / per_word;
  const uint word = x1[i / per_word];
  const int at = int(i % per_word * bits);
  if (KIND == 0u) return float(bitfieldExtract(word, at, 8));
  if (KIND == 1u) return float(bitfieldExtract(int(word), at, 8));
  const uint h = bitfieldExtract(word, at, 16);
  return KIND == 2u ? from_f16(h) : uintBitsToFloat(h << 16);
}

float value(uint i) {
  const float x = element(i);
  if (AFFINE == 0u) return x;
  const uint channel = i / p.inner % p.channels;
  return x * p.scale[channel] + p.offset[channel];
}

void vector(uint i) {
  const uint at = p.first + 4u * i;
  y4[i] = vec4(value(at), value(at + 1u), value(at + 2u), value(at + 3u));
}
void single(uint i) { y1[i] = value(p.first + i); }
