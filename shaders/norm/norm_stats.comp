// First pass of mean and variance: each workgroup takes a chunk of rows for a few columns.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/common/index.glsl"
#include "shaders/norm/norm_push.h"
#include "shaders/norm/norm.glsl"
#include "shaders/norm/welford.glsl"

layout(std430, set = 0, binding = 0) readonly buffer X { float x[]; };
layout(std430, set = 0, binding = 1) writeonly buffer Partial { vec2 partial[]; };  // mean, squared deviations

void main() {
  const ColumnWalk w = column_walk();
  if (!w.valid) return;  // the whole workgroup
  Moments m = Moments(0.0, 0.0, 0.0);
  for (uint row = w.begin; row < w.end; row += w.step) {
    const float value = x[(w.batch * p.rows + row) * p.cols + w.col];
    const float delta = value - m.mean;
    m.n += 1.0;
    m.mean += delta / m.n;
    m.m2 += delta * (value - m.mean);
  }
  const uint lanes = 1u << p.lane_shift;
  m = combine_lanes(m, lanes);
  if (gl_LocalInvocationIndex < lanes && w.col < p.cols) partial[partial_index(w)] = vec2(m.mean, m.m2);
}
