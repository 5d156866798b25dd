//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// Rounds runs of 32 numbers to 8 bits each, for matmul_skinny_weight's dot8: a run becomes its scale, the largest
// magnitude over 127, and eight words of codes.
layout(local_size_x = 64) in;
#include "shaders/common/index.glsl"
#include "shaders/matmul/quantize_rows_push.h"

layout(std430, binding = 0) readonly buffer X { vec4 x[]; };
layout(std430, binding = 1) writeonly buffer Y { uint y[]; };

void main() {
  const uint run = flat_invocation();
  if (run >= p.runs) return;
  vec4 four[8];
  vec4 largest = vec4(0.0);
  [[unroll]] for (uint q = 0; q < 8; ++q) {
    four[q] = x[run * 8 + q];
    largest = max(largest, abs(four[q]));
  }
  const float top = max(max(largest.x, largest.y), max(largest.z, largest.w));
  const float inverse = top > 0.0 ? 127.0 / top : 0.0;
  y[run * 9] = floatBitsToUint(top / 127.0);
  [[unroll]] for (uint q = 0; q < 8; ++q) {
    const ivec4 code = ivec4(round(four[q] * inverse));
    y[run * 9 + 1 + q] = uint(code.x & 255) | uint(code.y & 255) << 8 | uint(code.z & 255) << 16 | uint(code.w) << 24;
  }
}
