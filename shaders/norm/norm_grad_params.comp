// Backward: gradients of scale and bias from the partial sums of all batches and chunks.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/common/index.glsl"
#include "shaders/norm/norm_push.h"

layout(std430, set = 0, binding = 0) readonly buffer Partial { vec2 partial[]; };
layout(std430, set = 0, binding = 1) writeonly buffer Dscale { float dscale[]; };
layout(std430, set = 0, binding = 2) writeonly buffer Dbias { float dbias[]; };

void main() {
  const uint col = flat_invocation();
  if (col >= p.cols) return;
  vec2 total = vec2(0.0);
  for (uint i = 0u; i < p.batches * p.chunks; ++i) total += partial[i * p.cols + col];
  dbias[col] = total.x;
  dscale[col] = total.y;
}
