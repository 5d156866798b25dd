// First pass of mean and variance: each workgroup takes a chunk of rows for a few columns.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
layout(local_size_x = 128) in;
#include "shaders/common/index.glsl"
#include "shaders/norm/norm_push.h"
#include "shaders/norm/norm.glsl"
#include "shaders/norm/welford.glsl"

layout(std430, set = 0, binding = 0) readonly buffer X { float x[]; };
layout(std430, set = 0, binding = 0) readonly buffer XQuads { vec4 x_quads[]; };
// Means, then sums of squared deviations.
layout(std430, set = 0, binding = 1) writeonly buffer Partial { float partial[]; };
layout(std430, set = 0, binding = 1) writeonly buffer PartialQuads { vec4 partial_quads[]; };
COLUMNS_READ(x)
COLUMNS_WRITE(partial)

const uint kRun = 8;  // rows whose mean is found before their deviations: one division for all of them

void main() {
  const ColumnWalk w = column_walk();
  if (!w.valid) return;  // the whole workgroup
  Moments m = Moments(0.0, vec4(0.0), vec4(0.0));
  uint row = w.begin;
  for (; row < w.end && w.end - row > (kRun - 1u) * w.step; row += kRun * w.step) {
    vec4 run[kRun];
    vec4 mean = vec4(0.0);
    [[unroll]] for (uint k = 0; k < kRun; ++k) {
      run[k] = read_x((w.batch * p.rows + row + k * w.step) * p.cols + w.col);
      mean += run[k];
    }
    mean *= 1.0 / float(kRun);
    vec4 m2 = vec4(0.0);
    [[unroll]] for (uint k = 0; k < kRun; ++k) m2 += (run[k] - mean) * (run[k] - mean);
    m = combine(m, Moments(float(kRun), mean, m2));
  }
  for (; row < w.end; row += w.step) {
    m = combine(m, Moments(1.0, read_x((w.batch * p.rows + row) * p.cols + w.col), vec4(0.0)));
  }
  const uint lanes = 1u << p.lane_shift;
  m = combine_lanes(m, lanes);
  if (gl_LocalInvocationIndex < lanes && w.col < p.cols) {
    write_partial(partial_index(w), m.mean);
    write_partial(partial_plane() + partial_index(w), m.m2);
  }
}
