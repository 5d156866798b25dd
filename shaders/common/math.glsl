// Elementary functions to a few units in the last place from +, -, * and / alone.
//
// Vulkan lets a driver's own exp be off by 3 + 2|x| ULP, log by 2^-21 near 1, sin and cos by 2^-11, asin and atan by
// 4096 ULP; expm1, log1p and erf do not exist. Polynomials are truncated Taylor series where those converge fast
// enough on the reduced range, else Chebyshev fits made for this file (mpmath.chebyfit, 40 digits; the fit's error is
// noted beside it). Infinities and not-a-number come out as IEEE 754 has them.
#ifndef GRAFT_MATH_GLSL
#define GRAFT_MATH_GLSL
#include "shaders/common/nan.glsl"

const float kLn2High = 0.693145752;      // 15 bits, so that n * kLn2High is exact for |n| < 512
const float kLn2Low = 1.42860677e-6;
const float kPi = 3.14159265;
const float kHalfPi = 1.57079633;

// 2^n for n in [-252, 254], in two factors since one exponent field does not reach.
float scale_by_power(float x, int n) {
  int half_n = n / 2;
  return x * uintBitsToFloat(uint(half_n + 127) << 23) * uintBitsToFloat(uint(n - half_n + 127) << 23);
}

// e^r - 1 for |r| <= 0.36: Taylor to r^8 / 8! (remainder below 3e-10).
float expm1_small(float r) {
  return r + r * r * (0.5 + r * (1.66666667e-1 + r * (4.16666667e-2 + r * (8.33333333e-3 + r * (1.38888889e-3 +
         r * (1.98412698e-4 + r * 2.48015873e-5))))));
}

float exp_accurate(float x) {
  float clamped = clamp(x, -110.0, 90.0);
  float n = floor(clamped * 1.44269504 + 0.5);
  precise float r = clamped - n * kLn2High;
  r = r - n * kLn2Low;
  float y = scale_by_power(1.0 + expm1_small(r), int(n));
  return is_nan(x) ? x : y;
}

float expm1_accurate(float x) { return abs(x) < 0.35 ? expm1_small(x) : exp_accurate(x) - 1.0; }

// log((1 + s) / (1 - s)) = 2 s (1 + s^2/3 + s^4/5 + ...) for |s| <= 0.1716 (remainder below 1e-10).
float log_series(float s) {
  float z = s * s;
  return s * (2.0 + z * (6.66666667e-1 + z * (0.4 + z * (2.85714286e-1 + z * (2.22222222e-1 + z * 1.81818182e-1)))));
}

// x = mantissa * 2^exponent, mantissa in [sqrt(1/2), sqrt(2)); for positive finite x.
float split_exponent(float x, out float exponent) {
  bool tiny = x < 1.17549435e-38;
  uint bits = floatBitsToUint(tiny ? x * 8388608.0 : x);
  uint shifted = bits - 0x3f3504f3u;  // sqrt(1/2)
  exponent = float(int(shifted) >> 23) - (tiny ? 23.0 : 0.0);
  return uintBitsToFloat((shifted & 0x007fffffu) + 0x3f3504f3u);
}

float log_accurate(float x) {
  float exponent;
  float m = split_exponent(x, exponent);
  float f = m - 1.0;
  float y = exponent * kLn2High + (log_series(f / (2.0 + f)) + exponent * kLn2Low);
  if (x == 0.0) y = -inf();
  if (is_inf(x)) y = inf();
  if ((floatBitsToUint(x) & 0x80000000u) != 0u && x != 0.0) y = nan();
  return is_nan(x) ? x : y;
}

float log1p_accurate(float x) {
  if (abs(x) < 1e-4) return x - 0.5 * x * x;  // half of a tiny x would be flushed to zero
  if (x > -0.29 && x < 0.41) return log_series(x / (2.0 + x));
  return log_accurate(1.0 + x);
}

float tanh_accurate(float x) {
  float t = expm1_accurate(2.0 * min(abs(x), 10.0));  // tanh(10) rounds to 1
  float y = t / (t + 2.0);
  return is_nan(x) ? x : (x < 0.0 ? -y : y);
}

float sinh_accurate(float x) {
  float a = abs(x);
  float y;
  if (a < 1.0) {
    float t = expm1_accurate(a);
    y = 0.5 * (t + t / (t + 1.0));
  } else {
    float h = exp_accurate(0.5 * a);  // half the argument: e^a may overflow where sinh does not
    y = (0.5 * h) * h - 0.5 / h / h;
  }
  return x < 0.0 ? -y : y;
}

float cosh_accurate(float x) {
  float h = exp_accurate(0.5 * abs(x));
  return (0.5 * h) * h + 0.5 / h / h;
}

float asinh_accurate(float x) {
  float a = abs(x);
  float y = a > 1e9 ? log_accurate(a) + 0.693147181 : log1p_accurate(a + a * a / (1.0 + sqrt(a * a + 1.0)));
  return x < 0.0 ? -y : y;
}

float acosh_accurate(float x) {
  float t = x - 1.0;
  if (x > 1e9) return log_accurate(x) + 0.693147181;
  return t < 0.0 ? nan() : log1p_accurate(t + sqrt(t * (t + 2.0)));
}

float atanh_accurate(float x) {
  float a = abs(x);
  if (a > 1.0) return nan();
  float y = a == 1.0 ? inf() : 0.5 * log1p_accurate(2.0 * a / (1.0 - a));
  return x < 0.0 ? -y : y;
}

// x - quadrant * pi/2, within pi/4. Cody and Waite: pi/2 in three parts, the first two short enough for exact
// products while |quadrant| < 2^13; past that the argument's own spacing (1e-3 and more) dominates all the same.
float reduce_angle(float x, out int quadrant) {
  float n = floor(x * 0.636619772 + 0.5);
  precise float r = x - n * 1.5703125;
  r = r - n * 4.83751297e-4;
  r = r - n * 7.54978995e-8;
  quadrant = int(n);
  return r;
}

// Taylor to r^9 and r^10 on |r| <= pi/4 (remainders 2e-9 and 1e-10).
float sin_small(float r) {
  float z = r * r;
  return r + r * z * (-1.66666667e-1 + z * (8.33333333e-3 + z * (-1.98412698e-4 + z * 2.75573192e-6)));
}
float cos_small(float r) {
  float z = r * r;
  return 1.0 + z * (-0.5 + z * (4.16666667e-2 + z * (-1.38888889e-3 + z * (2.48015873e-5 - z * 2.75573192e-7))));
}

float sin_shifted(float x, int shift) {
  if (is_inf(x) || is_nan(x)) return nan();
  int quadrant;
  float r = reduce_angle(x, quadrant);
  quadrant += shift;
  float y = (quadrant & 1) == 0 ? sin_small(r) : cos_small(r);
  return (quadrant & 2) == 0 ? y : -y;
}
float sin_accurate(float x) { return sin_shifted(x, 0); }
float cos_accurate(float x) { return sin_shifted(x, 1); }
float tan_accurate(float x) {
  if (is_inf(x) || is_nan(x)) return nan();
  int quadrant;
  float r = reduce_angle(x, quadrant);
  float s = sin_small(r);
  float c = cos_small(r);
  return (quadrant & 1) == 0 ? s / c : -c / s;
}

float atan_accurate(float x) {
  float a = abs(x);
  bool inverse = a > 1.0;
  if (inverse) a = 1.0 / a;
  bool upper = a > 0.41421356;  // tan(pi/8)
  if (upper) a = (a - 1.0) / (a + 1.0);
  float z = a * a;
  // atan(a)/a on |a| <= tan(pi/8); fit error 6e-10.
  float y = a + a * z * (-0.3333330689 + z * (0.1999818277 + z * (-0.1423952761 + z * (0.1056979111 -
            z * 0.06026207948))));
  if (upper) y += 0.785398163;
  if (inverse) y = kHalfPi - y;
  return is_nan(x) ? x : (x < 0.0 ? -y : y);
}

// asin(a)/a - 1 over z = a^2 on |a| <= 1/2; fit error 5e-9.
float asin_small(float a) {
  float z = a * a;
  return a + a * z * (0.1666678201 + z * (0.07494696687 + z * (0.04552063563 + z * (0.02399399965 +
         z * 0.04241737376))));
}
float asin_accurate(float x) {
  float a = abs(x);
  if (a > 1.0) return nan();
  float y = a <= 0.5 ? asin_small(a) : kHalfPi - 2.0 * asin_small(sqrt(0.5 - 0.5 * a));
  return is_nan(x) ? x : (x < 0.0 ? -y : y);
}
float acos_accurate(float x) {
  if (abs(x) <= 0.5) return kHalfPi - asin_small(x);
  if (abs(x) > 1.0 || is_nan(x)) return nan();
  float y = 2.0 * asin_small(sqrt(0.5 - 0.5 * abs(x)));
  return x > 0.0 ? y : kPi - y;
}

// erf(x) = x P(x^2) on |x| <= 1; fit error 1.3e-9.
float erf_small(float x) {
  float z = x * x;
  return x * (1.128379166 + z * (-0.3761262667 + z * (0.1128359472 + z * (-0.02685421201 + z * (0.005189087423 +
         z * (-0.0008016864287 + z * 7.875875063e-5))))));
}
// erfc(x) = t exp(-x^2) Q(t), t = 1 / (1 + 0.4 x), for x >= 1 (1 - erf where it underflows: 0); fit error 5e-10.
float erfc_large(float x) {
  float t = 1.0 / (1.0 + 0.4 * x);
  float q = 0.2256853721 + t * (0.2254386836 + t * (0.2101850065 + t * (0.1557111625 + t * (0.1828134403 +
            t * (-0.08621836126 + t * (0.2621106587 + t * (-0.2413591541 + t * 0.06566150993)))))));
  // x^2 = high^2 + (x - high)(x + high): the square's own rounding would cost 2 x^2 ULP.
  float high = uintBitsToFloat(floatBitsToUint(x) & 0xfffff000u);
  return t * q * exp_accurate(-high * high) * exp_accurate(-(x - high) * (x + high));
}
float erf_accurate(float x) {
  float a = abs(x);
  if (is_nan(x)) return x;
  float y = a <= 1.0 ? erf_small(a) : 1.0 - erfc_large(min(a, 10.0));
  return x < 0.0 ? -y : y;
}
float erfc_accurate(float x) {
  if (is_nan(x)) return x;
  if (abs(x) <= 1.0) return 1.0 - erf_small(x);
  float tail = erfc_large(min(abs(x), 11.0));
  return x > 0.0 ? tail : 2.0 - tail;
}

// a^b. Small integer exponents by repeated squaring; else 2^(b log2 a) with b's product split so that the integer
// part of log2 a costs no accuracy: the error is about (2 + |b|/16) ULP times the fraction of log2.
float pow_accurate(float a, float b) {
  if (b == 0.0 || a == 1.0) return 1.0;
  if (is_nan(a) || is_nan(b)) return nan();
  bool whole = floor(b) == b;
  bool odd = whole && abs(b) < 16777216.0 && (int(b) & 1) != 0;
  float magnitude = abs(a);
  bool negative = (floatBitsToUint(a) & 0x80000000u) != 0u;
  float y;
  if (magnitude == 0.0 || is_inf(a)) {
    y = (magnitude == 0.0) == (b > 0.0) ? 0.0 : inf();
  } else if (is_inf(b)) {
    y = magnitude == 1.0 ? 1.0 : ((magnitude > 1.0) == (b > 0.0) ? inf() : 0.0);
  } else if (whole && abs(b) <= 32.0) {
    y = 1.0;
    float square = magnitude;
    for (uint n = uint(abs(b)); n != 0u; n >>= 1) {
      if ((n & 1u) != 0u) y *= square;
      square *= square;
    }
    if (b < 0.0) y = 1.0 / y;
  } else {
    if (negative && !whole) return nan();
    float exponent;
    float f = split_exponent(magnitude, exponent) - 1.0;
    float l = log_series(f / (2.0 + f)) * 1.44269504;
    float bound = clamp(b, -1e9, 1e9);
    float b_high = uintBitsToFloat(floatBitsToUint(bound) & 0xffffe000u);
    float n = clamp(floor(bound * (exponent + l) + 0.5), -250.0, 250.0);
    precise float r = b_high * exponent - n;
    r = r + (bound - b_high) * exponent;
    r = r + bound * l;
    y = scale_by_power(exp_accurate(clamp(r, -10.0, 10.0) * 0.693147181), int(n));
  }
  return negative && odd ? -y : y;
}

float sigmoid_accurate(float x) {
  float e = exp_accurate(-abs(x));
  return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

float softplus_accurate(float x) { return max_nan(x, 0.0) + log1p_accurate(exp_accurate(-abs(x))); }

#endif
