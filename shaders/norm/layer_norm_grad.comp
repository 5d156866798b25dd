// dx of layer normalisation: dx = rstd * (dy * scale - mean(dy * scale) - xhat * mean(dy * scale * xhat)).
//! variant f32 :
//! variant f32_epilogue : -DEPILOGUE=6
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/norm/layer_norm_push.h"
#include "shaders/common/rows.glsl"
#include "shaders/fused_elementwise/epilogue.glsl"

layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 0) readonly buffer XQuads { vec4 x_quads[]; };
layout(binding = 1) readonly buffer Scale { float scale[]; };
layout(binding = 1) readonly buffer ScaleQuads { vec4 scale_quads[]; };
layout(binding = 2) readonly buffer Mean { float mean_in[]; };
layout(binding = 3) readonly buffer Rstd { float rstd_in[]; };
layout(binding = 4) readonly buffer Dy { float dy[]; };
layout(binding = 4) readonly buffer DyQuads { vec4 dy_quads[]; };
layout(binding = 5) writeonly buffer Dx { float dx[]; };
layout(binding = 5) writeonly buffer DxQuads { vec4 dx_quads[]; };

vec4 scaled_dy(uint base, uint c, uint end) {
  ROW_LOAD(g, dy, base, c, end, 0.0)
  if (p.has_scale != 0u) {
    ROW_LOAD(factor, scale, 0, c, end, 0.0)
    g *= factor;
  }
  return g;
}

void main() {
  const bool real = row_is_real();
  const uint end = real ? p.columns : 0u;  // lanes without a row still take part in the sums
  const uint base = real ? row_start() : 0u;
  const float mean = real ? mean_in[row_index()] : 0.0;
  const float rstd = real ? rstd_in[row_index()] : 0.0;

  vec4 total = vec4(0.0);
  vec4 along = vec4(0.0);
  for (uint c = row_first(); c < end; c += ROW_STEP) {
    ROW_LOAD(v, x, base, c, end, mean)
    const vec4 g = scaled_dy(base, c, end);
    total += g;
    along += g * ((v - mean) * rstd);
  }
  const float mean_g = row_sum(sum_of(total)) / float(p.columns);
  const float mean_gx = row_sum(sum_of(along)) / float(p.columns);
  for (uint c = row_first(); c < end; c += ROW_STEP) {
    ROW_LOAD(v, x, base, c, end, 0.0)
    vec4 result = rstd * (scaled_dy(base, c, end) - mean_g - (v - mean) * rstd * mean_gx);
    ROW_FINISH(result, base, c, end)
    ROW_STORE(dx, base, c, end, result)
  }
}
