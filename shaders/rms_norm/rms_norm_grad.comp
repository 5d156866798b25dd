// dx = rstd * (g - xhat * mean(g * xhat)) with g = dy * (scale + unit) and xhat = x * rstd.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/rms_norm/rms_norm_push.h"
#include "shaders/common/rows.glsl"

layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) readonly buffer Scale { float scale[]; };
layout(binding = 2) readonly buffer Rstd { float rstd_in[]; };
layout(binding = 3) readonly buffer Dy { float dy[]; };
layout(binding = 4) writeonly buffer Dx { float dx[]; };

float scaled_dy(uint base, uint col) {
  return p.has_scale != 0u ? dy[base + col] * (scale[col] + p.unit) : dy[base + col];
}

void main() {
  const bool real = row_is_real();
  const uint end = real ? p.columns : 0u;  // lanes without a row still take part in the sum
  const uint base = real ? row_start() : 0u;
  const float rstd = real ? rstd_in[row_index()] : 0.0;
  float total = 0.0;
  for (uint col = row_slice(); col < end; col += SLICES) total += scaled_dy(base, col) * (x[base + col] * rstd);
  const float along = row_sum(total) / float(p.columns);
  for (uint col = row_slice(); col < end; col += SLICES) {
    dx[base + col] = rstd * (scaled_dy(base, col) - x[base + col] * rstd * along);
  }
}
