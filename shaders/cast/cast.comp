//! variant w32 :
// Between f32, i32 and boolean, all in 32-bit words. Floats become integers by truncation, saturating; not-a-number
// becomes 0 as an integer and 1 as a truth value.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "shaders/common/nan.glsl"
#include "shaders/cast/cast_push.h"
layout(local_size_x = 128) in;
layout(constant_id = 0) const uint KIND = 0;  // 0 f32 -> i32, 1 f32 -> boolean, 2 i32 -> f32, 3 i32 -> boolean
#include "shaders/common/flat.glsl"
layout(binding = 0) readonly buffer X1 { uint x1[]; };
layout(binding = 0) readonly buffer X4 { uvec4 x4[]; };
layout(binding = 1) writeonly buffer Y1 { uint y1[]; };
layout(binding = 1) writeonly buffer Y4 { uvec4 y4[]; };

uint to_int(float x) {
  if (is_nan(x)) return 0u;
  if (x >= 2147483648.0) return 0x7fffffffu;
  if (x <= -2147483648.0) return 0x80000000u;
  return uint(int(x));
}

uint apply(uint x) {
  switch (KIND) {
    case 0: return to_int(uintBitsToFloat(x));
    case 1: return (x & 0x7fffffffu) != 0u ? 1u : 0u;  // of either zero the sign alone may be set
    case 2: return floatBitsToUint(float(int(x)));
    case 3: return x != 0u ? 1u : 0u;
  }
  return x;
}

void vector(uint i) {
  uvec4 x = x4[i];
  y4[i] = uvec4(apply(x.x), apply(x.y), apply(x.z), apply(x.w));
}
void single(uint i) { y1[i] = apply(x1[i]); }
