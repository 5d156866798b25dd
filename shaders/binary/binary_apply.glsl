// The binary functions of floats that give floats. `fn` is a constant where they are called.
#ifndef GRAFT_BINARY_APPLY_GLSL
#define GRAFT_BINARY_APPLY_GLSL
#include "shaders/common/math.glsl"
#include "shaders/binary/binary_fn.h"

// The remainder with the dividend's sign, exact: a / b is too coarse once |a / b| exceeds 2^24. Each turn takes away
// b times a power of two, which loses no bit.
float trunc_mod(float a, float b) {
  if (is_nan(a) || is_nan(b) || is_inf(a) || b == 0.0) return nan();
  float d = abs(b);
  float r = abs(a);
  while (r >= d) {
    int steps = (int(floatBitsToUint(r) >> 23) - int(floatBitsToUint(d) >> 23));
    float part = scale_by_power(d, steps);
    if (part > r) part *= 0.5;
    if (!(part >= d)) break;
    r -= part;
  }
  return a < 0.0 ? -r : r;
}

float floor_mod(float a, float b) {
  float r = trunc_mod(a, b);
  return r != 0.0 && (r < 0.0) != (b < 0.0) ? r + b : r;
}

// Behind a product of the same kernel these may not become one operation with it, which rounds once: fused or not, the
// bits are the same.
float separate_sum(float a, float b) {
  precise float sum = a + b;
  return sum;
}

float binary_apply(uint fn, float a, float b) {
  switch (fn) {
    case fn_add: return separate_sum(a, b);
    case fn_sub: return separate_sum(a, -b);
    case fn_mul: return a * b;
#ifndef FUSED_FEW
    case fn_div: return a / b;
    case fn_pow: return pow_accurate(a, b);
    case fn_maximum: return max_nan(a, b);
    case fn_minimum: return min_nan(a, b);
    case fn_floor_mod: return floor_mod(a, b);
    case fn_trunc_mod: return trunc_mod(a, b);
    case fn_prelu: return a < 0.0 ? a * b : a;
#endif
  }
  return a;
}

#endif
