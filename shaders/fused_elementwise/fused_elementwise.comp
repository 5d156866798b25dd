// A program of elementwise functions in one pass. Steps are specialization constants, so that a driver compiles the very
// program and nothing else. The host's side is runtime/ops/fused_program.cpp.
//! variant f32 :
//! variant f32_few : -DFUSED_FEW
//! variant f32_short : -DFUSED_FEW -DFUSED_SHORT
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#include "shaders/fused_elementwise/fused_apply.glsl"
layout(local_size_x = fused_invocations) in;
#include "shaders/fused_elementwise/fused_elementwise_push.h"
#include "shaders/common/index.glsl"

layout(constant_id = 0) const uint MODES = 0;    // four bits for each input, from the lowest
layout(constant_id = 1) const uint OUTPUTS = 0;  // eight bits for each further output: its register; 0 for none
layout(constant_id = 2) const uint STEPS = 0;
// rounded << 24 | kind << 16 | fn << 8 | register a << 4 | register b
layout(constant_id = 3) const uint STEP_0 = 0;
layout(constant_id = 4) const uint STEP_1 = 0;
layout(constant_id = 5) const uint STEP_2 = 0;
layout(constant_id = 6) const uint STEP_3 = 0;
layout(constant_id = 7) const uint STEP_4 = 0;
layout(constant_id = 8) const uint STEP_5 = 0;
layout(constant_id = 9) const uint STEP_6 = 0;
layout(constant_id = 10) const uint STEP_7 = 0;

#define INPUT(n)                                                                    \
  layout(std430, set = 0, binding = n) readonly buffer In##n { float in_##n[]; };   \
  layout(std430, set = 0, binding = n) readonly buffer In4##n { vec4 in4_##n[]; };
INPUT(0)
INPUT(1)
INPUT(2)
INPUT(3)
#define OUTPUT(n)                                                                            \
  layout(std430, set = 0, binding = n + 4) writeonly buffer Out##n { float out_##n[]; };     \
  layout(std430, set = 0, binding = n + 4) writeonly buffer Out4##n { vec4 out4_##n[]; };
OUTPUT(0)
OUTPUT(1)
OUTPUT(2)

// Elements e to e + 3, or (single) element e alone.
#define LOAD(n, x)                                                                      \
  {                                                                                     \
    const uint mode = MODES >> (4 * n) & 15u;                                           \
    const uint at = p.first + e;                                                        \
    if (mode == fused_same) {                                                           \
      if (single) x = vec4(in_##n[e]); else x = in4_##n[e / 4];                         \
    } else if (mode == fused_one) {                                                     \
      x = vec4(in_##n[0]);                                                              \
    } else if (mode == fused_row && !single) {                                          \
      x = in4_##n[at % p.mod[n] / 4];                                                   \
    } else if (mode == fused_any && !single) {                                          \
      for (uint q = 0; q < 4; ++q) x[q] = in_##n[(at + q) / p.div[n] % p.mod[n]];       \
    } else {                                                                            \
      x = vec4(in_##n[at / p.div[n] % p.mod[n]]);                                       \
    }                                                                                   \
  }
#define STORE(n, y) \
  if (single) out_##n[e] = y.x; else out4_##n[e / 4] = y;
#define STEP(n)   \
  if (n < STEPS) { \
    r[4 + n] = fused_apply(STEP_##n >> 8, r[STEP_##n >> 4 & 15u], r[STEP_##n & 15u], p.alpha[n], p.beta[n]); \
  }

void main() {
  const uint vectors = p.count / 4;
  const uint units = vectors + p.count % 4;  // what four do not divide is done singly
  const uint run = min(gl_SubgroupSize, gl_WorkGroupSize.x);
  const uint lane = gl_LocalInvocationIndex % run;
  const uint start = (flat_workgroup() * gl_WorkGroupSize.x + gl_LocalInvocationIndex - lane) * fused_vectors + lane;
  for (uint k = 0; k < fused_vectors; ++k) {
    const uint unit = start + k * run;
    if (unit >= units) return;
    const bool single = unit >= vectors;
    const uint e = single ? 4 * vectors + (unit - vectors) : 4 * unit;
    vec4 x0 = vec4(0.0), x1 = vec4(0.0), x2 = vec4(0.0), x3 = vec4(0.0);
    LOAD(0, x0)
    if ((MODES >> 16 & 15u) > 1) LOAD(1, x1)
    if ((MODES >> 16 & 15u) > 2) LOAD(2, x2)
    if ((MODES >> 16 & 15u) > 3) LOAD(3, x3)
    vec4 y0, y1, y2;
    for (uint q = 0; q < 4; ++q) {  // one call of each step: see unary.comp
      float r[12];
      r[0] = x0[q];
      r[1] = x1[q];
      r[2] = x2[q];
      r[3] = x3[q];
      STEP(0)
      STEP(1)
      STEP(2)
      STEP(3)
#ifndef FUSED_SHORT
      STEP(4)
      STEP(5)
      STEP(6)
      STEP(7)
#endif
      y0[q] = r[3 + STEPS];
      y1[q] = r[OUTPUTS & 15u];
      y2[q] = r[OUTPUTS >> 8 & 15u];
    }
    STORE(0, y0)
    if ((OUTPUTS & 255u) != 0) STORE(1, y1)
    if ((OUTPUTS >> 8 & 255u) != 0) STORE(2, y2)
  }
}
