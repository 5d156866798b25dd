//! variant f32 : -DSTORE_F32
// dx = dy * fn'(x), with the derivative written in x or in y = fn(x), whichever is cheaper to have (unary.cpp knows).
#version 450
#extension GL_GOOGLE_include_directive : require
#include "shaders/unary/unary_apply.glsl"
#include "shaders/unary/unary_push.h"
layout(local_size_x = 128) in;
layout(constant_id = 0) const uint FN = 0;
#include "shaders/common/flat.glsl"
// v: x or y.
layout(binding = 0) readonly buffer V1 { float v1[]; };
layout(binding = 0) readonly buffer V4 { vec4 v4[]; };
layout(binding = 1) readonly buffer Dy1 { float dy1[]; };
layout(binding = 1) readonly buffer Dy4 { vec4 dy4[]; };
layout(binding = 2) writeonly buffer Dx1 { float dx1[]; };
layout(binding = 2) writeonly buffer Dx4 { vec4 dx4[]; };

void vector(uint i) {
  vec4 v = v4[i];  // one call, for the reason told in unary.comp
  vec4 slopes;
  for (uint k = 0; k < 4; ++k) slopes[k] = unary_slope(FN, v[k], p.alpha, p.beta);
  dx4[i] = dy4[i] * slopes;
}
void single(uint i) { dx1[i] = dy1[i] * unary_slope(FN, v1[i], p.alpha, p.beta); }
