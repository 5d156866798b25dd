//! variant f32_rows : -DB_BY_ROWS
//! variant f32_columns :
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// C = A B (+ bias) for at most a few rows of A, where reading B is all the work: every vector of B is loaded once,
// beside its neighbours, and used for all rows.
// rows: B [n, k], rows that lie along k. A workgroup shares kSpan of them; its invocations stride along k, and their
// sums are added up in a fixed order. columns: B [k, n]. An invocation owns kSpan vectors of four columns.
layout(constant_id = 0) const uint kThreads = 64;
layout(constant_id = 1) const uint kRows = 1;
layout(constant_id = 2) const uint kSpan = 4;
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
#include "shaders/common/index.glsl"
#include "shaders/matmul/matmul_skinny_push.h"

layout(std430, binding = 0) readonly buffer A { float a[]; };
layout(std430, binding = 0) readonly buffer AVectors { vec4 a4[]; };
layout(std430, binding = 1) readonly buffer B { vec4 b4[]; };
layout(std430, binding = 2) readonly buffer Bias { float bias[]; };  // any buffer without bias
layout(std430, binding = 3) writeonly buffer Out { float c[]; };
layout(std430, binding = 3) writeonly buffer OutVectors { vec4 c4[]; };

#ifdef B_BY_ROWS

const uint kSums = kRows * kSpan;
shared float parts[kSums * kThreads];

void main() {
  if (flat_workgroup() >= p.groups) return;  // the whole workgroup
  const uint lane = gl_LocalInvocationIndex;
  const uint n0 = flat_workgroup() * kSpan;
  const uint vectors = p.k / 4;
  uint rows[kSpan];
  [[unroll]] for (uint j = 0; j < kSpan; ++j) rows[j] = min(n0 + j, p.n - 1) * vectors;
  float acc[kSums];
  [[unroll]] for (uint i = 0; i < kSums; ++i) acc[i] = 0.0;
  for (uint q = lane; q < vectors; q += kThreads) {
    vec4 left[kRows];
    [[unroll]] for (uint r = 0; r < kRows; ++r) left[r] = a4[r * vectors + q];
    [[unroll]] for (uint j = 0; j < kSpan; ++j) {
      const vec4 right = b4[rows[j] + q];
      [[unroll]] for (uint r = 0; r < kRows; ++r) acc[r * kSpan + j] += dot(left[r], right);
    }
  }
  [[unroll]] for (uint i = 0; i < kSums; ++i) parts[i * kThreads + lane] = acc[i];
  uint left_over = kThreads;
  for (; left_over > 8; left_over /= 2) {
    barrier();
    if (lane < left_over / 2) {
      [[unroll]] for (uint i = 0; i < kSums; ++i) {
        parts[i * kThreads + lane] += parts[i * kThreads + lane + left_over / 2];
      }
    }
  }
  barrier();
  for (uint i = lane; i < kSums; i += kThreads) {
    const uint n = n0 + i % kSpan;
    if (n >= p.n) continue;
    float sum = p.has_bias != 0 ? bias[n] : 0.0;
    for (uint t = 0; t < left_over; ++t) sum += parts[i * kThreads + t];
    c[i / kSpan * p.n + n] = sum;
  }
}

#else

void main() {
  const uint copy = flat_workgroup() / p.groups;
  const uint split = p.first_split + copy;
  if (split >= p.splits) return;
  const uint vectors = p.n / 4;
  const uint v0 = (flat_workgroup() - copy * p.groups) * (kThreads * kSpan) + gl_LocalInvocationIndex;
  uint columns[kSpan];
  [[unroll]] for (uint j = 0; j < kSpan; ++j) columns[j] = min(v0 + j * kThreads, vectors - 1);
  vec4 acc[kRows * kSpan];
  [[unroll]] for (uint i = 0; i < kRows * kSpan; ++i) acc[i] = vec4(0.0);
  const uint end = min(p.k, (split + 1) * p.k_per_split);
  for (uint k = split * p.k_per_split; k < end; ++k) {
    float left[kRows];
    [[unroll]] for (uint r = 0; r < kRows; ++r) left[r] = a[r * p.k + k];
    [[unroll]] for (uint j = 0; j < kSpan; ++j) {
      const vec4 right = b4[k * vectors + columns[j]];
      [[unroll]] for (uint r = 0; r < kRows; ++r) acc[r * kSpan + j] += left[r] * right;
    }
  }
  [[unroll]] for (uint j = 0; j < kSpan; ++j) {
    const uint v = v0 + j * kThreads;
    if (v >= vectors) continue;
    vec4 start = vec4(0.0);
    if (p.has_bias != 0) {
      [[unroll]] for (uint i = 0; i < 4; ++i) start[i] = bias[v * 4 + i];
    }
    [[unroll]] for (uint r = 0; r < kRows; ++r) c4[(copy * kRows + r) * vectors + v] = acc[r * kSpan + j] + start;
  }
}

#endif
