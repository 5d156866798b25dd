// The unary functions of floats and their derivatives. `fn` is a constant where they are called, so that compilers throw
// away all others; alpha and beta are the op's two parameters. FUSED_FEW: only those that networks are full of
// (the host: is_frequent() in runtime/ops/fused_program.cpp). Drivers inline all before they throw away.
#ifndef GRAFT_UNARY_APPLY_GLSL
#define GRAFT_UNARY_APPLY_GLSL
#include "shaders/common/activations.glsl"
#include "shaders/common/math.glsl"
#include "shaders/unary/unary_fn.h"

float mish(float x) {
  float e = exp_accurate(min(x, 20.0));  // tanh(log(1 + e)) = (e^2 + 2e) / (e^2 + 2e + 2)
  float n = e * (e + 2.0);
  return x > 20.0 || is_nan(x) ? x : x * (n / (n + 2.0));
}

float unary_apply(uint fn, float x, float alpha, float beta) {
  switch (fn) {
    case fn_tanh: return tanh_accurate(x);
    case fn_sigmoid: return sigmoid_accurate(x);
    case fn_relu: return max_nan(x, 0.0);
    case fn_gelu: return gelu(x);
    case fn_gelu_tanh: return gelu_tanh(x);
    case fn_silu: return silu(x);
    case fn_erf: return erf_accurate(x);
    case fn_affine: return alpha * x + beta;
    case fn_clip: return min_nan(max_nan(x, alpha), beta);
#ifndef FUSED_FEW
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
    case fn_asinh: return asinh_accurate(x);
    case fn_acosh: return acosh_accurate(x);
    case fn_atanh: return atanh_accurate(x);
    case fn_leaky_relu: return x < 0.0 ? alpha * x : x;
    case fn_elu:
    case fn_celu: return x < 0.0 ? alpha * expm1_accurate(x * beta) : x;
    case fn_selu: return beta * (x < 0.0 ? alpha * expm1_accurate(x) : x);
    case fn_hard_sigmoid: return min_nan(max_nan(alpha * x + beta, 0.0), 1.0);
    case fn_hard_swish: return x * min_nan(max_nan(x / 6.0 + 0.5, 0.0), 1.0);
    case fn_mish: return is_inf(x) ? max(x, 0.0) : mish(x);
    case fn_softplus: return softplus_accurate(x);
    case fn_softsign: {
      // Vulkan promises nothing of a divisor beyond 2^126, whose reciprocal is a denormal: NVIDIA gives 0.
      const float s = abs(x) > 1.0e30 ? 9.31322574615478515625e-10 : 1.0;
      return x * s / (s + abs(x) * s);
    }
    case fn_thresholded_relu: return x > alpha || is_nan(x) ? x : 0.0;
    case fn_floor: return floor(x);
    case fn_ceil: return ceil(x);
    case fn_round: return roundEven(x);
    case fn_sign: return is_nan(x) ? x : sign(x);
#endif
  }
  return x;
}

// The derivative: of the input, or of the output where the slope is written in that (runtime/ops/unary/unary_table.h).
float mish_slope(float x) {
  float e = exp_accurate(clamp(x, -100.0, 20.0));
  float n = e * (e + 2.0);
  float d = n + 2.0;
  return n / d + min(x, 20.0) * (4.0 * e * (e + 1.0)) / (d * d);
}

float unary_slope(uint fn, float v, float alpha, float beta) {
  switch (fn) {
    case fn_tanh: return (1.0 - v) * (1.0 + v);
    case fn_sigmoid: return v * (1.0 - v);
    case fn_relu: return v > 0.0 ? 1.0 : 0.0;
    case fn_gelu: return gelu_slope(v);
    case fn_gelu_tanh: return gelu_tanh_slope(v);
    case fn_silu: return silu_slope(v);
    case fn_erf: return 1.1283791671 * exp_accurate(-min(v * v, 200.0));
    case fn_affine: return alpha;
    case fn_clip: return v >= alpha && v <= beta ? 1.0 : 0.0;
#ifndef FUSED_FEW
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
    case fn_asinh: return 1.0 / sqrt(v * v + 1.0);
    case fn_acosh: return 1.0 / sqrt((v - 1.0) * (v + 1.0));
    case fn_atanh: return 1.0 / ((1.0 - v) * (1.0 + v));
    case fn_leaky_relu: return v > 0.0 ? 1.0 : alpha;
    case fn_elu:
    case fn_celu: return v > 0.0 ? 1.0 : alpha * beta * exp_accurate(v * beta);
    case fn_selu: return beta * (v > 0.0 ? 1.0 : alpha * exp_accurate(v));
    case fn_hard_sigmoid: return v > 0.0 && v < 1.0 ? alpha : 0.0;
    case fn_hard_swish: return v <= -3.0 ? 0.0 : (v >= 3.0 ? 1.0 : v / 3.0 + 0.5);
    case fn_mish: return mish_slope(v);
    case fn_softplus: return sigmoid_accurate(v);
    case fn_softsign: return 1.0 / ((1.0 + abs(v)) * (1.0 + abs(v)));
    case fn_thresholded_relu: return v > alpha ? 1.0 : 0.0;
#endif
  }
  return 0.0;
}

#endif
