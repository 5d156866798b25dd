//! variant f32 : -DSTORE_F32
// dx of a reduction: x has the output's shape; the result y, dy and an auxiliary (how many ties, product of the rest)
// are broadcast to it, all three alike.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "shaders/common/math.glsl"
#include "shaders/reduce/reduce_fn.h"
layout(local_size_x = 128) in;
layout(constant_id = 0) const uint FN = 0;
#include "shaders/common/strided.glsl"
layout(constant_id = 4) const float SCALE = 1.0;  // of a mean
layout(binding = 0) readonly buffer X1 { float x1[]; };
layout(binding = 0) readonly buffer X4 { vec4 x4[]; };
layout(binding = 1) readonly buffer Y1 { float y1[]; };
layout(binding = 1) readonly buffer Y4 { vec4 y4[]; };
layout(binding = 2) readonly buffer Dy1 { float dy1[]; };
layout(binding = 2) readonly buffer Dy4 { vec4 dy4[]; };
layout(binding = 3) readonly buffer Aux1 { float aux1[]; };
layout(binding = 3) readonly buffer Aux4 { vec4 aux4[]; };
layout(binding = 4) writeonly buffer Dx1 { float dx1[]; };
layout(binding = 4) writeonly buffer Dx4 { vec4 dx4[]; };

float apply(float x, float y, float dy, float aux) {
  switch (FN) {
    case fn_max:
    case fn_min: return x == y || (is_nan(x) && is_nan(y)) ? dy / aux : 0.0;
    // aux: the product without the zero where there is one zero, 0 where there are more.
    case fn_prod: return x == 0.0 ? dy * aux : (y == 0.0 ? 0.0 : dy * (y / x));
    case fn_l2: return y == 0.0 ? 0.0 : dy * (x / y);
    case fn_logsumexp: return is_inf(y) && x == y ? (y > 0.0 ? nan() : 0.0) : dy * exp_accurate(x - y);
  }
  return dy * SCALE;
}

void vector(uint i, uvec3 at) {
  vec4 x = vec4(0);
  vec4 y = vec4(0);
  vec4 dy;
  vec4 aux = vec4(0);
  bool needs_x = FN != fn_mean && FN != fn_sum;
  if (needs_x) x = x4[at.x];
  if ((SPLAT & 2u) != 0) {
    dy = vec4(dy1[at.y]);
    if (needs_x) y = vec4(y1[at.y]);
    if (needs_x) aux = vec4(aux1[at.y]);
  } else {
    dy = dy4[at.y];
    if (needs_x) y = y4[at.y];
    if (needs_x) aux = aux4[at.y];
  }
  vec4 dx;  // one call, for the reason told in unary.comp
  for (uint k = 0; k < 4; ++k) dx[k] = apply(x[k], y[k], dy[k], aux[k]);
  dx4[i] = dx;
}
void single(uint i, uvec3 at) { dx1[i] = apply(x1[at.x], y1[at.y], dy1[at.y], aux1[at.y]); }
