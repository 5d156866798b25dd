// Layer normalisation: mean, then squared deviations from it, then y; a row is read again from cache.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/common/index.glsl"
#include "shaders/norm/layer_norm_push.h"
#include "shaders/norm/sum_lanes.glsl"

layout(std430, set = 0, binding = 0) readonly buffer X { float x[]; };
layout(std430, set = 0, binding = 1) readonly buffer Scale { float scale[]; };
layout(std430, set = 0, binding = 2) readonly buffer Bias { float bias[]; };
layout(std430, set = 0, binding = 3) writeonly buffer Y { float y[]; };
layout(std430, set = 0, binding = 4) writeonly buffer Mean { float mean_out[]; };
layout(std430, set = 0, binding = 5) writeonly buffer Rstd { float rstd_out[]; };

void main() {
  const uint row = flat_workgroup() * (128u >> p.lane_shift) + (gl_LocalInvocationIndex >> p.lane_shift);
  const uint lanes = 1u << p.lane_shift;
  const uint first = gl_LocalInvocationIndex & (lanes - 1u);
  const uint end = row < p.rows ? p.cols : 0u;  // lanes without a row still take part in the sums
  const uint base = row * p.cols;

  float total = 0.0;
  for (uint col = first; col < end; col += lanes) total += x[base + col];
  const float mean = sum_row(vec2(total, 0.0), p.lane_shift).x / float(p.cols);
  float squares = 0.0;
  float drift = 0.0;  // what rounding left in the mean; corrects the variance (Chan, Golub and LeVeque 1983)
  for (uint col = first; col < end; col += lanes) {
    const float d = x[base + col] - mean;
    squares += d * d;
    drift += d;
  }
  const vec2 sums = sum_row(vec2(squares, drift), p.lane_shift) / float(p.cols);
  const float rstd = inversesqrt(max(sums.x - sums.y * sums.y, 0.0) + p.epsilon);
  if (row >= p.rows) return;
  for (uint col = first; col < end; col += lanes) {
    float value = (x[base + col] - mean) * rstd;
    if (p.has_scale != 0u) value *= scale[col];
    if (p.has_bias != 0u) value += bias[col];
    y[base + col] = value;
  }
  if (first == 0u) {
    mean_out[row] = mean;
    rstd_out[row] = rstd;
  }
}
