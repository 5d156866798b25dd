// y = x * rstd * (scale + unit), rstd = 1 / sqrt(mean(x^2) + epsilon); a row is read again from cache.
//! variant f32 :
//! variant f32_sum : -DSUM=4
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/rms_norm/rms_norm_push.h"
#include "shaders/norm/row_sum.glsl"

layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 0) readonly buffer XQuads { vec4 x_quads[]; };
layout(binding = 1) readonly buffer Scale { float scale[]; };
layout(binding = 1) readonly buffer ScaleQuads { vec4 scale_quads[]; };
layout(binding = 2) writeonly buffer Y { float y[]; };
layout(binding = 2) writeonly buffer YQuads { vec4 y_quads[]; };
layout(binding = 3) writeonly buffer Rstd { float rstd_out[]; };

void main() {
  const bool real = row_is_real();
  const uint end = real ? p.columns : 0u;  // lanes without a row still take part in the sum
  const uint base = real ? row_start() : 0u;
  vec4 total = vec4(0.0);
  for (uint c = row_first(); c < end; c += ROW_STEP) {
    X_LOAD(v, base, c, end, 0.0)
    total += v * v;
  }
  const float rstd = 1.0 / sqrt(row_sum(sum_of(total)) / float(p.columns) + p.epsilon);
  for (uint c = row_first(); c < end; c += ROW_STEP) {
    X_LOAD(v, base, c, end, 0.0)
    X_GIVE(base, c, end, v)
    v *= rstd;
    if (p.has_scale != 0u) {
      ROW_LOAD(factor, scale, 0, c, end, 0.0)
      v *= factor + p.unit;
    }
    ROW_STORE(y, base, c, end, v)
  }
  if (real && row_slice() == 0u) rstd_out[row_index()] = rstd;
}
