// dx = rstd * (g - xhat * mean(g * xhat)) with g = dy * (scale + unit) and xhat = x * rstd.
//! variant f32 :
//! variant f32_epilogue : -DEPILOGUE=5
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/rms_norm/rms_norm_push.h"
#include "shaders/common/rows.glsl"
#include "shaders/fused_elementwise/epilogue.glsl"

layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 0) readonly buffer XQuads { vec4 x_quads[]; };
layout(binding = 1) readonly buffer Scale { float scale[]; };
layout(binding = 1) readonly buffer ScaleQuads { vec4 scale_quads[]; };
layout(binding = 2) readonly buffer Rstd { float rstd_in[]; };
layout(binding = 3) readonly buffer Dy { float dy[]; };
layout(binding = 3) readonly buffer DyQuads { vec4 dy_quads[]; };
layout(binding = 4) writeonly buffer Dx { float dx[]; };
layout(binding = 4) writeonly buffer DxQuads { vec4 dx_quads[]; };

vec4 scaled_dy(uint base, uint c, uint end) {
  ROW_LOAD(g, dy, base, c, end, 0.0)
  if (p.has_scale != 0u) {
    ROW_LOAD(factor, scale, 0, c, end, 0.0)
    g *= factor + p.unit;
  }
  return g;
}

void main() {
  const bool real = row_is_real();
  const uint end = real ? p.columns : 0u;  // lanes without a row still take part in the sum
  const uint base = real ? row_start() : 0u;
  const float rstd = real ? rstd_in[row_index()] : 0.0;
  vec4 total = vec4(0.0);
  for (uint c = row_first(); c < end; c += ROW_STEP) {
    ROW_LOAD(v, x, base, c, end, 0.0)
    total += scaled_dy(base, c, end) * (v * rstd);
  }
  const float along = row_sum(sum_of(total)) / float(p.columns);
  for (uint c = row_first(); c < end; c += ROW_STEP) {
    ROW_LOAD(v, x, base, c, end, 0.0)
    vec4 result = rstd * (scaled_dy(base, c, end) - v * rstd * along);
    ROW_FINISH(result, base, c, end)
    ROW_STORE(dx, base, c, end, result)
  }
}
