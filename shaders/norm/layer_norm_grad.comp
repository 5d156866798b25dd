// dx of layer normalisation: dx = rstd * (dy * scale - mean(dy * scale) - xhat * mean(dy * scale * xhat)).
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/common/index.glsl"
#include "shaders/norm/layer_norm_push.h"
#include "shaders/norm/sum_lanes.glsl"

layout(std430, set = 0, binding = 0) readonly buffer X { float x[]; };
layout(std430, set = 0, binding = 1) readonly buffer Scale { float scale[]; };
layout(std430, set = 0, binding = 2) readonly buffer Mean { float mean_in[]; };
layout(std430, set = 0, binding = 3) readonly buffer Rstd { float rstd_in[]; };
layout(std430, set = 0, binding = 4) readonly buffer Dy { float dy[]; };
layout(std430, set = 0, binding = 5) writeonly buffer Dx { float dx[]; };

float scaled_dy(uint base, uint col) { return p.has_scale != 0u ? dy[base + col] * scale[col] : dy[base + col]; }

void main() {
  const uint row = flat_workgroup() * (128u >> p.lane_shift) + (gl_LocalInvocationIndex >> p.lane_shift);
  const uint lanes = 1u << p.lane_shift;
  const uint first = gl_LocalInvocationIndex & (lanes - 1u);
  const bool valid = row < p.rows;
  const uint end = valid ? p.cols : 0u;  // lanes without a row still take part in the sums
  const uint base = row * p.cols;
  const float mean = valid ? mean_in[row] : 0.0;
  const float rstd = valid ? rstd_in[row] : 0.0;

  vec2 total = vec2(0.0);
  for (uint col = first; col < end; col += lanes) {
    const float d = scaled_dy(base, col);
    total += vec2(d, d * ((x[base + col] - mean) * rstd));
  }
  const vec2 m = sum_row(total, p.lane_shift) / float(p.cols);
  for (uint col = first; col < end; col += lanes) {
    dx[base + col] = rstd * (scaled_dy(base, col) - m.x - (x[base + col] - mean) * rstd * m.y);
  }
}
