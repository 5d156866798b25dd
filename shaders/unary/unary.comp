//! variant f32 : -DSTORE_F32
//! variant i32 : -DSTORE_I32
// y = fn(x), element by element. Words in, words out: results may be floats, integers or booleans.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "shaders/common/activations.glsl"
#include "shaders/common/math.glsl"
#include "shaders/unary/unary_fn.h"
#include "shaders/unary/unary_push.h"
layout(local_size_x = 128) in;
layout(constant_id = 0) const uint FN = 0;
#include "shaders/common/flat.glsl"
layout(binding = 0) readonly buffer X1 { uint x1[]; };
layout(binding = 0) readonly buffer X4 { uvec4 x4[]; };
layout(binding = 1) writeonly buffer Y1 { uint y1[]; };
layout(binding = 1) writeonly buffer Y4 { uvec4 y4[]; };

float mish(float x) {
  float e = exp_accurate(min(x, 20.0));  // tanh(log(1 + e)) = (e^2 + 2e) / (e^2 + 2e + 2)
  float n = e * (e + 2.0);
  return x > 20.0 || is_nan(x) ? x : x * (n / (n + 2.0));
}

float apply_float(float x) {
  switch (FN) {
    case fn_neg: return -x;
    case fn_abs: return abs(x);
    case fn_exp: return exp_accurate(x);
    case fn_expm1: return expm1_accurate(x);
    case fn_log: return log_accurate(x);
    case fn_log1p: return log1p_accurate(x);
    case fn_sqrt: return x < 0.0 ? nan() : sqrt(x);
    case fn_rsqrt: return x < 0.0 ? nan() : 1.0 / sqrt(x);
    case fn_reciprocal: return 1.0 / x;
    case fn_square: return x * x;
    case fn_sin: return sin_accurate(x);
    case fn_cos: return cos_accurate(x);
    case fn_tan: return tan_accurate(x);
    case fn_asin: return asin_accurate(x);
    case fn_acos: return acos_accurate(x);
    case fn_atan: return atan_accurate(x);
    case fn_sinh: return sinh_accurate(x);
    case fn_cosh: return cosh_accurate(x);
    case fn_tanh: return tanh_accurate(x);
    case fn_asinh: return asinh_accurate(x);
    case fn_acosh: return acosh_accurate(x);
    case fn_atanh: return atanh_accurate(x);
    case fn_sigmoid: return sigmoid_accurate(x);
    case fn_relu: return max_nan(x, 0.0);
    case fn_leaky_relu: return x < 0.0 ? p.alpha * x : x;
    case fn_elu:
    case fn_celu: return x < 0.0 ? p.alpha * expm1_accurate(x * p.beta) : x;
    case fn_selu: return p.beta * (x < 0.0 ? p.alpha * expm1_accurate(x) : x);
    case fn_gelu: return gelu(x);
    case fn_gelu_tanh: return gelu_tanh(x);
    case fn_silu: return silu(x);
    case fn_hard_sigmoid: return min_nan(max_nan(p.alpha * x + p.beta, 0.0), 1.0);
    case fn_hard_swish: return x * min_nan(max_nan(x / 6.0 + 0.5, 0.0), 1.0);
    case fn_mish: return is_inf(x) ? max(x, 0.0) : mish(x);
    case fn_softplus: return softplus_accurate(x);
    case fn_softsign: return x / (1.0 + abs(x));
    case fn_thresholded_relu: return x > p.alpha || is_nan(x) ? x : 0.0;
    case fn_erf: return erf_accurate(x);
    case fn_floor: return floor(x);
    case fn_ceil: return ceil(x);
    case fn_round: return roundEven(x);
    case fn_sign: return is_nan(x) ? x : sign(x);
    case fn_affine: return p.alpha * x + p.beta;
    case fn_clip: return min_nan(max_nan(x, p.alpha), p.beta);
  }
  return x;
}

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
  if (FN == fn_is_nan) return is_nan_bits(x) ? 1u : 0u;
  if (FN == fn_is_inf) return (x & 0x7fffffffu) == 0x7f800000u ? 1u : 0u;
  return floatBitsToUint(apply_float(uintBitsToFloat(x)));
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
