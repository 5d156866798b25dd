//! variant f32 : -DLANE=vec4
//! variant f16 : -DLANE=f16vec4 -DHALF
//! variant dot8 : -DLANE=ivec4 -DDOT8
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#ifdef HALF
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#endif
#ifdef DOT8
#extension GL_EXT_spirv_intrinsics : require
#endif
// Arithmetic alone: kChains independent chains of multiply and add in registers, each with four components. dot8 adds
// up products of four 8-bit integers per component. One word is stored, so that nothing may be left out.
layout(local_size_x = 64) in;
#include "shaders/common/index.glsl"
#include "shaders/bench/bench_arithmetic_push.h"

layout(std430, binding = 0) buffer Y { uint y[]; };
const uint kChains = 2;
const uint kUnroll = 16;  // as in device_bench.cpp

#ifdef DOT8
// OpSDot of SPV_KHR_integer_dot_product on packed operands: GLSL had no name for it when this was written.
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = 4450)
int dot_packed(int a, int b, spirv_literal int packed_format);
ivec4 turn(ivec4 x, ivec4 factor) {
  return x + ivec4(dot_packed(x.x, factor.x, 0), dot_packed(x.y, factor.y, 0), dot_packed(x.z, factor.z, 0),
                   dot_packed(x.w, factor.w, 0));
}
#else
LANE turn(LANE x, LANE factor) { return x * factor + factor; }
#endif

void main() {
  const uint seed = y[0] + gl_LocalInvocationIndex;
  LANE x[kChains];
  [[unroll]] for (uint i = 0; i < kChains; ++i) x[i] = LANE(vec4(seed + i, seed, i, 1));
#ifdef DOT8
  const LANE factor = LANE(seed);
#else
  const LANE factor = LANE(0.25) + LANE(vec4(seed) * 1e-3);
#endif
  for (uint r = 0; r < p.rounds; ++r) {
    [[unroll]] for (uint u = 0; u < kUnroll; ++u) {
      [[unroll]] for (uint i = 0; i < kChains; ++i) x[i] = turn(x[i], factor);
    }
  }
  LANE sum = x[0];
  [[unroll]] for (uint i = 1; i < kChains; ++i) sum += x[i];
  if (float(sum.x + sum.y + sum.z + sum.w) == 12345.0) y[1] = 1;  // almost never true, but no compiler knows
}
