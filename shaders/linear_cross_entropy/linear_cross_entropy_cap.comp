// The soft cap of a chunk of logits, in place: cap tanh(x / cap).
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/common/index.glsl"
#include "shaders/common/math.glsl"
#include "shaders/linear_cross_entropy/linear_cross_entropy_cap_push.h"
layout(std430, binding = 0) buffer X { float x[]; };
layout(std430, binding = 1) readonly buffer Order { uint order[]; };

void main() {
  const uint i = flat_invocation();
  if (i / p.columns >= min(p.rows, order[0])) return;
  x[i] = p.cap * tanh_accurate(x[i] / p.cap);
}
