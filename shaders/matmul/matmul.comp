//! variant f32 :
//! variant f32_shuffle : -DGEMM_SHUFFLE
//! variant f32_apart : -DGEMM_APART
//! variant f32_epilogue : -DEPILOGUE=4
//! requires coopmat
//! variant f32_coopmat : -DGEMM_COOPMAT
//! requires coopmat bfloat16
//! variant f32_coopmat_bf16 : -DGEMM_COOPMAT -DMATRIX_BF16
//! requires coopmat coopmat2
//! variant f32_flexible : -DGEMM_COOPMAT -DGEMM_FLEXIBLE
//! requires coopmat coopmat2 bfloat16
//! variant f32_flexible_bf16 : -DGEMM_COOPMAT -DGEMM_FLEXIBLE -DMATRIX_BF16
//! requires coopmat
//! variant f32_coopmat_epilogue : -DGEMM_COOPMAT -DEPILOGUE=4
//! requires coopmat bfloat16
//! variant f32_coopmat_bf16_epilogue : -DGEMM_COOPMAT -DEPILOGUE=4 -DMATRIX_BF16
#version 450
#extension GL_GOOGLE_include_directive : require
// C = A B (+ bias) for row-major or transposed A and B, over broadcast batches.
#include "shaders/matmul/matmul_push.h"

layout(std430, binding = 0) readonly buffer A { float a[]; };
layout(std430, binding = 0) readonly buffer AVectors { vec4 a4[]; };
layout(std430, binding = 1) readonly buffer B { float b[]; };
layout(std430, binding = 1) readonly buffer BVectors { vec4 b4[]; };
layout(std430, binding = 2) readonly buffer Bias { float bias[]; };  // any buffer without bias
layout(std430, binding = 2) readonly buffer BiasVectors { vec4 bias4[]; };
layout(std430, binding = 3) writeonly buffer Out { float c[]; };
layout(std430, binding = 3) writeonly buffer OutVectors { vec4 c4[]; };

struct Row { uint base; };
struct Col { uint base; };
struct Ptr { uint base; };
#define GEMM_VECTORS
#define GEMM_STORES_FOURS
#define GEMM_TOUCHES
#define GEMM_SMALLER_GOES_BY
#include "shaders/common/gemm.glsl"
#include "shaders/fused_elementwise/epilogue.glsl"

uint a_base = 0;
uint b_base = 0;
uint c_base = 0;

Row a_row(uint m) { return Row(a_base + min(m, last_row()) * p.a_row_stride); }
Ptr a_at(Row row, uint t) { return Ptr(row.base); }
float a_load(Ptr ptr, uint c_index) { return a[ptr.base + c_index * p.a_k_stride]; }
Col b_col(uint n) { return Col(b_base + min(n, last_column()) * p.b_col_stride); }
Ptr b_at(Col col, uint t) { return Ptr(col.base); }
float b_load(Ptr ptr, uint c_index) { return b[ptr.base + c_index * p.b_k_stride]; }
vec4 a_load4(Ptr ptr, uint c_index) { return a4[(ptr.base + c_index * p.a_k_stride) / 4]; }
vec4 b_load4(Ptr ptr, uint c_index) { return b4[(ptr.base + c_index * p.b_k_stride) / 4]; }
uint out_row(uint m) { return c_base + m * p.n; }
void out_store(uint address, uint n, float value) {
  if (p.has_bias != 0) value += bias[n];
  c[address] = finished(value, address, n);
}
void out_store4(uint address, uint n, vec4 value) {
  if (p.has_bias != 0) value += bias4[n / 4];
  c4[address / 4] = finished4(value, address, n);
}

void main() {
  const Place place = gemm_place();
  if (!place.valid) return;
  uint rest = place.batch;
  [[unroll]] for (int d = 5; d > 0; --d) {
    const uint index = rest % p.batch_dims[d - 1];
    rest /= p.batch_dims[d - 1];
    a_base += index * p.a_batch_strides[d];
    b_base += index * p.b_batch_strides[d];
  }
  a_base += rest * p.a_batch_strides[0];
  b_base += rest * p.b_batch_strides[0];
  c_base = place.batch * p.m * p.n;
  const uint k_begin = place.split * p.k_per_split;
  gemm_tile(place, k_begin, min(p.k, k_begin + p.k_per_split));
}
