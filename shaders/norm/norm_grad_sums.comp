// Backward, first pass: sums over a chunk of rows of dy and of dy times the normalised x, for each column.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/common/index.glsl"
#include "shaders/norm/norm_push.h"
#include "shaders/norm/norm.glsl"
#include "shaders/norm/sum_lanes.glsl"

layout(std430, set = 0, binding = 0) readonly buffer X { float x[]; };
layout(std430, set = 0, binding = 1) readonly buffer Dy { float dy[]; };
layout(std430, set = 0, binding = 2) readonly buffer Mean { float mean[]; };
layout(std430, set = 0, binding = 3) readonly buffer Stat { float stat[]; };
layout(std430, set = 0, binding = 4) writeonly buffer Partial { vec2 partial[]; };

void main() {
  const ColumnWalk w = column_walk();
  if (!w.valid) return;  // the whole workgroup
  vec2 total = vec2(0.0);
  uint row = w.begin;
  while (row < w.end) {
    // Runs of 16 rows are summed on their own first, so that the error grows with the number of runs.
    vec2 run = vec2(0.0);
    for (uint n = 0u; n < 16u && row < w.end; ++n, row += w.step) {
      const uint full_row = w.batch * p.rows + row;
      const uint i = full_row * p.cols + w.col;
      const uint s = stat_index(full_row, w.col);
      const float d = dy[i];
      run += vec2(d, d * ((x[i] - mean[s]) * rstd_of(stat[s])));
    }
    total += run;
  }
  const uint lanes = 1u << p.lane_shift;
  total = sum_lanes(total, lanes);
  if (gl_LocalInvocationIndex < lanes && w.col < p.cols) partial[partial_index(w)] = total;
}
