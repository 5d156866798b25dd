// The activations of feed-forward layers and their derivatives, where more than one kernel needs them.
#ifndef GRAFT_ACTIVATIONS_GLSL
#define GRAFT_ACTIVATIONS_GLSL
#include "shaders/common/math.glsl"

float silu(float x) { return is_inf(x) ? max(x, 0.0) : x * sigmoid_accurate(x); }

float silu_slope(float x) {
  float z = clamp(x, -100.0, 100.0);
  float s = sigmoid_accurate(z);
  return s + z * s * (1.0 - s);
}

float gelu(float x) { return is_inf(x) && x < 0.0 ? 0.0 : 0.5 * x * erfc_accurate(-0.70710678 * x); }

float gelu_tanh(float x) {
  if (is_inf(x)) return max(x, 0.0);
  return x * sigmoid_accurate(1.5957691216 * (x + 0.044715 * x * x * x));  // 1 + tanh(u) = 2 sigmoid(2u)
}

float gelu_slope(float x) {
  float density = 0.3989422804 * exp_accurate(-0.5 * min(x * x, 400.0));
  return 0.5 * erfc_accurate(-0.70710678 * x) + x * density;
}

float gelu_tanh_slope(float x) {
  float z = clamp(x, -20.0, 20.0);  // the slope is 0 or 1 beyond, and the cube would overflow
  float s = sigmoid_accurate(1.5957691216 * (z + 0.044715 * z * z * z));
  return s + z * s * (1.0 - s) * 1.5957691216 * (1.0 + 0.134145 * z * z);
}

#endif
