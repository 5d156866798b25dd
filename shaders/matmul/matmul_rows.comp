//! variant f32 :
//! variant f32_shuffle : -DGEMM_SHUFFLE
//! variant f32_apart : -DGEMM_APART
//! requires coopmat
//! variant f32_coopmat : -DGEMM_COOPMAT
//! requires coopmat bfloat16
//! variant f32_coopmat_bf16 : -DGEMM_COOPMAT -DMATRIX_BF16
//! requires coopmat coopmat2
//! variant f32_flexible : -DGEMM_COOPMAT -DGEMM_FLEXIBLE
//! requires coopmat coopmat2 bfloat16
//! variant f32_flexible_bf16 : -DGEMM_COOPMAT -DGEMM_FLEXIBLE -DMATRIX_BF16
#version 450
#extension GL_GOOGLE_include_directive : require
// C = A W^T (+ bias): every column of C belongs to a row of W, which is read, and dequantized, four neighbours at a time.
#define WEIGHT_BY_ROWS
#include "shaders/matmul/matmul_weight.glsl"

Col b_col(uint n) { return Col(min(n, p.n - 1) * p.k); }
Ptr b_at(Col col, uint t) { return Ptr(col.base + t * p.inner); }
float b_load(Ptr ptr, uint c_index) { return weight(ptr.base + c_index); }
#ifdef GEMM_VECTORS
vec4 b_load4(Ptr ptr, uint c_index) { return whole_four(ptr.base + c_index); }
#else
vec4 b_load4(Ptr ptr, uint c_index, uint left) { return weight4(ptr.base + c_index, left); }
vec4 a_load4(Ptr ptr, uint c_index, uint left) {
  const uint at = ptr.base + c_index;
  vec4 x = vec4(a[at], 0.0, 0.0, 0.0);
  if (left > 1) x.y = a[at + 1];
  if (left > 2) x.z = a[at + 2];
  if (left > 3) x.w = a[at + 3];
  return x;
}
#endif
