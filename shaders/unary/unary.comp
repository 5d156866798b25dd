//! variant f32 : -DSTORE_F32
//! variant f32_few : -DSTORE_F32 -DFUSED_FEW
//! variant i32 : -DSTORE_I32
// y = fn(x), element by element. Words in, words out: results may be floats, integers or booleans.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "shaders/unary/unary_apply.glsl"
#include "shaders/unary/unary_push.h"
layout(local_size_x = 128) in;
layout(constant_id = 0) const uint FN = 0;
#include "shaders/common/flat.glsl"
layout(binding = 0) readonly buffer X1 { uint x1[]; };
layout(binding = 0) readonly buffer X4 { uvec4 x4[]; };
layout(binding = 1) writeonly buffer Y1 { uint y1[]; };
layout(binding = 1) writeonly buffer Y4 { uvec4 y4[]; };

int apply_int(int x) {
  switch (FN) {
    case fn_neg: return -x;
    case fn_abs: return abs(x);
    case fn_sign: return sign(x);
    case fn_affine: return p.int_alpha * x + p.int_beta;
    case fn_clip: return min(max(x, p.int_alpha), p.int_beta);
    case fn_logical_not: return x == 0 ? 1 : 0;
  }
  return x;
}

uint apply(uint x) {
#ifdef STORE_I32
  return uint(apply_int(int(x)));
#else
#ifndef FUSED_FEW
  if (FN == fn_is_nan) return is_nan_bits(x) ? 1u : 0u;
  if (FN == fn_is_inf) return (x & 0x7fffffffu) == 0x7f800000u ? 1u : 0u;
#endif
  return floatBitsToUint(unary_apply(FN, uintBitsToFloat(x), p.alpha, p.beta));
#endif
}

void vector(uint i) {
  // One call, which compilers unroll once they have thrown away all functions but FN: pipelines are made much faster.
  uvec4 x = x4[i];
  uvec4 y;
  for (uint k = 0; k < 4; ++k) y[k] = apply(x[k]);
  y4[i] = y;
}
void single(uint i) { y1[i] = apply(x1[i]); }
