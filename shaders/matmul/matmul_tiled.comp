//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// C = A B by the textbook: 64 x 64 outputs per workgroup of 256, blocks of 16 of k in shared memory, 4 x 4 outputs in
// registers of each invocation. A yardstick of benchmarks, used by no op. Takes matmul's push block and bindings,
// without batches, splits and bias.
layout(local_size_x = 16, local_size_y = 16) in;
#include "shaders/matmul/matmul_push.h"

layout(std430, binding = 0) readonly buffer A { float a[]; };
layout(std430, binding = 1) readonly buffer B { float b[]; };
layout(std430, binding = 2) writeonly buffer Out { float c[]; };
const uint kTile = 64;
const uint kBlock = 16;
const uint kThreads = 256;
shared float shared_a[kBlock][kTile];
shared float shared_b[kBlock][kTile];

void main() {
  const uint m0 = gl_WorkGroupID.y * kTile;
  const uint n0 = gl_WorkGroupID.x * kTile;
  float acc[4][4];
  [[unroll]] for (uint i = 0; i < 4; ++i) {
    [[unroll]] for (uint j = 0; j < 4; ++j) acc[i][j] = 0.0;
  }
  for (uint k0 = 0; k0 < p.k; k0 += kBlock) {
    barrier();
    for (uint i = gl_LocalInvocationIndex; i < kTile * kBlock; i += kThreads) {
      const uint k = min(k0 + i / kTile, p.k - 1);
      const uint m = min(m0 + i % kTile, p.m - 1);
      const uint n = min(n0 + i % kTile, p.n - 1);
      const bool inside = k0 + i / kTile < p.k;
      shared_a[i / kTile][i % kTile] = inside ? a[m * p.a_row_stride + k * p.a_k_stride] : 0.0;
      shared_b[i / kTile][i % kTile] = inside ? b[k * p.b_k_stride + n * p.b_col_stride] : 0.0;
    }
    barrier();
    for (uint k = 0; k < kBlock; ++k) {
      float left[4];
      float right[4];
      [[unroll]] for (uint i = 0; i < 4; ++i) left[i] = shared_a[k][gl_LocalInvocationID.y * 4 + i];
      [[unroll]] for (uint j = 0; j < 4; ++j) right[j] = shared_b[k][gl_LocalInvocationID.x * 4 + j];
      [[unroll]] for (uint i = 0; i < 4; ++i) {
        [[unroll]] for (uint j = 0; j < 4; ++j) acc[i][j] += left[i] * right[j];
      }
    }
  }
  for (uint i = 0; i < 4; ++i) {
    for (uint j = 0; j < 4; ++j) {
      const uint m = m0 + gl_LocalInvocationID.y * 4 + i;
      const uint n = n0 + gl_LocalInvocationID.x * 4 + j;
      if (m < p.m && n < p.n) c[m * p.n + n] = acc[i][j];
    }
  }
}
