// y = x * rstd * (scale + unit), rstd = 1 / sqrt(mean(x^2) + epsilon); a row is read again from cache.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/rms_norm/rms_norm_push.h"
#include "shaders/common/rows.glsl"

layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) readonly buffer Scale { float scale[]; };
layout(binding = 2) writeonly buffer Y { float y[]; };
layout(binding = 3) writeonly buffer Rstd { float rstd_out[]; };

void main() {
  const bool real = row_is_real();
  const uint end = real ? p.columns : 0u;  // lanes without a row still take part in the sum
  const uint base = real ? row_start() : 0u;
  float total = 0.0;
  for (uint col = row_slice(); col < end; col += SLICES) total += x[base + col] * x[base + col];
  const float rstd = 1.0 / sqrt(row_sum(total) / float(p.columns) + p.epsilon);
  for (uint col = row_slice(); col < end; col += SLICES) {
    const float value = x[base + col] * rstd;
    y[base + col] = p.has_scale != 0u ? value * (scale[col] + p.unit) : value;
  }
  if (real && row_slice() == 0u) rstd_out[row_index()] = rstd;
}
