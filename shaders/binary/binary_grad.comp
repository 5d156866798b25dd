//! variant f32 : -DSTORE_F32
// The derivative of fn(a, b) by a (WRT 0) or b (WRT 1), times dy; a and b broadcast to dy's shape.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "shaders/common/math.glsl"
#include "shaders/binary/binary_fn.h"
layout(local_size_x = 128) in;
layout(constant_id = 0) const uint FN_WRT = 0;  // 2 * fn + wrt
#include "shaders/common/strided.glsl"
const uint FN = FN_WRT / 2;
const bool BY_B = FN_WRT % 2 == 1;
layout(binding = 0) readonly buffer A1 { float a1[]; };
layout(binding = 0) readonly buffer A4 { vec4 a4[]; };
layout(binding = 1) readonly buffer B1 { float b1[]; };
layout(binding = 1) readonly buffer B4 { vec4 b4[]; };
layout(binding = 2) readonly buffer Dy1 { float dy1[]; };
layout(binding = 2) readonly buffer Dy4 { vec4 dy4[]; };
layout(binding = 3) writeonly buffer Y1 { float y1[]; };
layout(binding = 3) writeonly buffer Y4 { vec4 y4[]; };

float pow_slope(float a, float b) {
  if (!BY_B) return b == 0.0 ? 0.0 : b * pow_accurate(a, b - 1.0);
  return a == 0.0 && b >= 0.0 ? 0.0 : pow_accurate(a, b) * log_accurate(a);
}

// Ties share the gradient equally; not-a-number wins, and takes it.
float choice_slope(float a, float b, bool larger) {
  if (is_nan(a) || is_nan(b)) return is_nan(BY_B ? b : a) ? 1.0 : 0.0;
  if (a == b) return 0.5;
  return ((a > b) == larger) != BY_B ? 1.0 : 0.0;
}

float slope(float a, float b) {
  switch (FN) {
    case fn_pow: return pow_slope(a, b);
    case fn_maximum: return choice_slope(a, b, true);
    case fn_minimum: return choice_slope(a, b, false);
    case fn_prelu: return BY_B ? min(a, 0.0) : (a > 0.0 ? 1.0 : b);
    case fn_div: return BY_B ? -a / (b * b) : 1.0 / b;
    case fn_floor_mod: return BY_B ? -floor(a / b) : 1.0;
    case fn_trunc_mod: return BY_B ? -trunc(a / b) : 1.0;
  }
  return 0.0;
}

void vector(uint i, uvec3 at) {
  vec4 a;
  vec4 b;
  if ((SPLAT & 1u) != 0) {
    a = vec4(a1[at.x]);
  } else {
    a = a4[at.x];
  }
  if ((SPLAT & 2u) != 0) {
    b = vec4(b1[at.y]);
  } else {
    b = b4[at.y];
  }
  vec4 slopes;  // one call, for the reason told in unary.comp
  for (uint k = 0; k < 4; ++k) slopes[k] = slope(a[k], b[k]);
  y4[i] = dy4[at.z] * slopes;
}
void single(uint i, uvec3 at) { y1[i] = dy1[at.z] * slope(a1[at.x], b1[at.y]); }
