// Indices of the k largest or smallest along an axis, best first. An element's place is the number of those before it,
// so that elements need not be moved; of equals the first in the axis goes first. Not-a-number is larger than all.
//! variant f32 : -DELEMENT=float
//! variant i32 : -DELEMENT=int
#version 450
#extension GL_GOOGLE_include_directive : require
#include "shaders/common/nan.glsl"
layout(local_size_x = 128) in;
layout(constant_id = 0) const bool LARGEST = true;
#include "shaders/common/index.glsl"
#include "shaders/top_k/top_k_push.h"

layout(std430, set = 0, binding = 0) readonly buffer X { ELEMENT x[]; };
layout(std430, set = 0, binding = 1) writeonly buffer Y { int y[]; };

// An unsigned number in the order of the elements.
uint key_of(float value) {
  const uint bits = floatBitsToUint(value);
  if (is_nan_bits(bits)) return 0xffffffffu;
  if ((bits & 0x7fffffffu) == 0u) return 0x80000000u;  // either zero
  return (bits & 0x80000000u) != 0u ? ~bits : bits | 0x80000000u;
}
uint key_of(int value) { return uint(value) ^ 0x80000000u; }
uint key_at(uint i) { return LARGEST ? key_of(x[i]) : ~key_of(x[i]); }

void main() {
  const uint i = flat_invocation();
  if (i >= p.count) return;
  const uint row = i / p.inner;
  const uint column = i - row * p.inner;
  const uint outer = row / p.size;
  const uint own = row - outer * p.size;
  const uint first = outer * p.size * p.inner + column;
  const uint key = key_at(i);
  uint place = 0u;
  for (uint j = 0u; j < p.size && place < p.k; ++j) {
    const uint other = key_at(first + j * p.inner);
    if (other > key || (other == key && j < own)) ++place;
  }
  if (place < p.k) y[(outer * p.k + place) * p.inner + column] = int(own);
}
