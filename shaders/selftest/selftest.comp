//! variant f32 :
// y[i] = scale * x[i] + bias + kOffset, for i < n: exercises bindings, push constants and a specialization constant.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "shaders/selftest/selftest_push.h"

layout(local_size_x = 64) in;
layout(constant_id = 0) const int kOffset = 0;
layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) writeonly buffer Y { float y[]; };

void main() {
  const uint i = gl_GlobalInvocationID.x;
  if (i < p.n) y[i] = p.scale * x[i] + p.bias + float(kOffset);
}
