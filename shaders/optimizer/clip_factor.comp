// What gradients are multiplied with so that their norm is at most max_norm.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 1) in;
#include "shaders/optimizer/clip_factor_push.h"

layout(std430, set = 0, binding = 0) readonly buffer Square { float square[]; };
layout(std430, set = 0, binding = 1) writeonly buffer Factor { float factor[]; };

void main() {
  const float f = p.max_norm / (sqrt(square[0]) + 1e-6);
  factor[0] = f > 1.0 ? 1.0 : f;  // a NaN stays one, so that it is seen
}
