//! variant f32 : -DSTORE_F32
// dx = dy * fn'(x), with the derivative written in x or in y = fn(x), whichever is cheaper to have (unary.cpp knows).
#version 450
#extension GL_GOOGLE_include_directive : require
#include "shaders/common/activations.glsl"
#include "shaders/common/math.glsl"
#include "shaders/unary/unary_fn.h"
#include "shaders/unary/unary_push.h"
layout(local_size_x = 128) in;
layout(constant_id = 0) const uint FN = 0;
#include "shaders/common/flat.glsl"
// v: x or y.
layout(binding = 0) readonly buffer V1 { float v1[]; };
layout(binding = 0) readonly buffer V4 { vec4 v4[]; };
layout(binding = 1) readonly buffer Dy1 { float dy1[]; };
layout(binding = 1) readonly buffer Dy4 { vec4 dy4[]; };
layout(binding = 2) writeonly buffer Dx1 { float dx1[]; };
layout(binding = 2) writeonly buffer Dx4 { vec4 dx4[]; };

float mish_slope(float x) {
  float e = exp_accurate(clamp(x, -100.0, 20.0));
  float n = e * (e + 2.0);
  float d = n + 2.0;
  return n / d + min(x, 20.0) * (4.0 * e * (e + 1.0)) / (d * d);
}

float slope(float v) {
  switch (FN) {
    case fn_neg: return -1.0;
    case fn_abs: return sign(v);
    case fn_exp: return v;
    case fn_expm1: return v + 1.0;
    case fn_log: return 1.0 / v;
    case fn_log1p: return 1.0 / (1.0 + v);
    case fn_sqrt: return 0.5 / v;
    case fn_rsqrt: return -0.5 * v * v * v;
    case fn_reciprocal: return -v * v;
    case fn_square: return 2.0 * v;
    case fn_sin: return cos_accurate(v);
    case fn_cos: return -sin_accurate(v);
    case fn_tan: return 1.0 + v * v;
    case fn_asin: return 1.0 / sqrt((1.0 - v) * (1.0 + v));
    case fn_acos: return -1.0 / sqrt((1.0 - v) * (1.0 + v));
    case fn_atan: return 1.0 / (1.0 + v * v);
    case fn_sinh: return cosh_accurate(v);
    case fn_cosh: return sinh_accurate(v);
    case fn_tanh: return (1.0 - v) * (1.0 + v);
    case fn_asinh: return 1.0 / sqrt(v * v + 1.0);
    case fn_acosh: return 1.0 / sqrt((v - 1.0) * (v + 1.0));
    case fn_atanh: return 1.0 / ((1.0 - v) * (1.0 + v));
    case fn_sigmoid: return v * (1.0 - v);
    case fn_relu: return v > 0.0 ? 1.0 : 0.0;
    case fn_leaky_relu: return v > 0.0 ? 1.0 : p.alpha;
    case fn_elu:
    case fn_celu: return v > 0.0 ? 1.0 : p.alpha * p.beta * exp_accurate(v * p.beta);
    case fn_selu: return p.beta * (v > 0.0 ? 1.0 : p.alpha * exp_accurate(v));
    case fn_gelu: return gelu_slope(v);
    case fn_gelu_tanh: return gelu_tanh_slope(v);
    case fn_silu: return silu_slope(v);
    case fn_hard_sigmoid: return v > 0.0 && v < 1.0 ? p.alpha : 0.0;
    case fn_hard_swish: return v <= -3.0 ? 0.0 : (v >= 3.0 ? 1.0 : v / 3.0 + 0.5);
    case fn_mish: return mish_slope(v);
    case fn_softplus: return sigmoid_accurate(v);
    case fn_softsign: return 1.0 / ((1.0 + abs(v)) * (1.0 + abs(v)));
    case fn_thresholded_relu: return v > p.alpha ? 1.0 : 0.0;
    case fn_erf: return 1.1283791671 * exp_accurate(-min(v * v, 200.0));
    case fn_affine: return p.alpha;
    case fn_clip: return v >= p.alpha && v <= p.beta ? 1.0 : 0.0;
  }
  return 0.0;
}

void vector(uint i) {
  vec4 v = v4[i];  // one call, for the reason told in unary.comp
  vec4 slopes;
  for (uint k = 0; k < 4; ++k) slopes[k] = slope(v[k]);
  dx4[i] = dy4[i] * slopes;
}
void single(uint i) { dx1[i] = dy1[i] * slope(v1[i]); }
