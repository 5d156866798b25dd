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
// C = A W, sums along the columns of W: the gradient of y = x W^T with respect to x. An invocation that owns four
// neighbouring columns dequantizes them at once.
#include "shaders/matmul/matmul_weight.glsl"

Col b_col(uint n) { return Col(n < p.n ? n : 0); }
Ptr b_at(Col col, uint t) { return Ptr(col.base); }
float b_load(Ptr ptr, uint c_index) { return weight(c_index * p.n + ptr.base); }
#ifdef GEMM_VECTORS
vec4 b_load4(Ptr ptr, uint c_index) { return whole_four(c_index * p.n + ptr.base); }
#else
vec4 b_columns(Ptr ptr, uint c_index) { return weight4(c_index * p.n + ptr.base, p.n - ptr.base); }
#endif
