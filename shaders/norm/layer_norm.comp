// Layer normalisation: mean, then squared deviations from it, then y; a row is read again from cache.
//! variant f32 :
//! variant f32_sum : -DSUM=6
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/norm/layer_norm_push.h"
#include "shaders/norm/row_sum.glsl"

layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 0) readonly buffer XQuads { vec4 x_quads[]; };
layout(binding = 1) readonly buffer Scale { float scale[]; };
layout(binding = 1) readonly buffer ScaleQuads { vec4 scale_quads[]; };
layout(binding = 2) readonly buffer Bias { float bias[]; };
layout(binding = 2) readonly buffer BiasQuads { vec4 bias_quads[]; };
layout(binding = 3) writeonly buffer Y { float y[]; };
layout(binding = 3) writeonly buffer YQuads { vec4 y_quads[]; };
layout(binding = 4) writeonly buffer Mean { float mean_out[]; };
layout(binding = 5) writeonly buffer Rstd { float rstd_out[]; };

void main() {
  const bool real = row_is_real();
  const uint end = real ? p.columns : 0u;  // lanes without a row still take part in the sums
  const uint base = real ? row_start() : 0u;

  vec4 total = vec4(0.0);
  for (uint c = row_first(); c < end; c += ROW_STEP) {
    X_LOAD(v, base, c, end, 0.0)
    total += v;
  }
  const float mean = row_sum(sum_of(total)) / float(p.columns);
  vec4 squares = vec4(0.0);
  vec4 drift = vec4(0.0);  // what rounding left in the mean; corrects both (Chan, Golub and LeVeque 1983)
  for (uint c = row_first(); c < end; c += ROW_STEP) {
    X_LOAD(v, base, c, end, mean)
    const vec4 d = v - mean;
    squares += d * d;
    drift += d;
  }
  const float variance = row_sum(sum_of(squares)) / float(p.columns);
  const float off = row_sum(sum_of(drift)) / float(p.columns);
  const float rstd = inversesqrt(max(variance - off * off, 0.0) + p.epsilon);
  for (uint c = row_first(); c < end; c += ROW_STEP) {
    X_LOAD(v, base, c, end, 0.0)
    X_GIVE(base, c, end, v)
    v = ((v - mean) - off) * rstd;
    if (p.has_scale != 0u) {
      ROW_LOAD(factor, scale, 0, c, end, 0.0)
      v *= factor;
    }
    if (p.has_bias != 0u) {
      ROW_LOAD(offset, bias, 0, c, end, 0.0)
      v += offset;
    }
    ROW_STORE(y, base, c, end, v)
  }
  if (real && row_slice() == 0u) {
    mean_out[row_index()] = mean + off;
    rstd_out[row_index()] = rstd;
  }
}
