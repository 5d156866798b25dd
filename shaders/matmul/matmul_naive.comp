//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
// One invocation per element of C = A B: the yardstick of benchmarks, used by no op. Takes matmul's push block and
// bindings, without batches, splits and bias.
layout(local_size_x = 16, local_size_y = 8) in;
#include "shaders/matmul/matmul_push.h"

layout(std430, binding = 0) readonly buffer A { float a[]; };
layout(std430, binding = 1) readonly buffer B { float b[]; };
layout(std430, binding = 2) writeonly buffer Out { float c[]; };

void main() {
  const uint n = gl_GlobalInvocationID.x;
  const uint m = gl_GlobalInvocationID.y;
  if (n >= p.n || m >= p.m) return;
  float sum = 0.0;
  for (uint k = 0; k < p.k; ++k) {
    sum += a[m * p.a_row_stride + k * p.a_k_stride] * b[k * p.b_k_stride + n * p.b_col_stride];
  }
  c[m * p.n + n] = sum;
}
