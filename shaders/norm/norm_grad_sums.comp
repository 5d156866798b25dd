// Backward, first pass: sums over a chunk of rows of dy and of dy times the normalised x, for each column.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
layout(local_size_x = 128) in;
#include "shaders/common/index.glsl"
#include "shaders/norm/norm_push.h"
#include "shaders/norm/norm.glsl"
#include "shaders/norm/sum_lanes.glsl"

layout(std430, set = 0, binding = 0) readonly buffer X { float x[]; };
layout(std430, set = 0, binding = 0) readonly buffer XQuads { vec4 x_quads[]; };
layout(std430, set = 0, binding = 1) readonly buffer Dy { float dy[]; };
layout(std430, set = 0, binding = 1) readonly buffer DyQuads { vec4 dy_quads[]; };
layout(std430, set = 0, binding = 2) readonly buffer Mean { float mean[]; };
layout(std430, set = 0, binding = 2) readonly buffer MeanQuads { vec4 mean_quads[]; };
layout(std430, set = 0, binding = 3) readonly buffer Stat { float stat[]; };
layout(std430, set = 0, binding = 3) readonly buffer StatQuads { vec4 stat_quads[]; };
layout(std430, set = 0, binding = 4) writeonly buffer Partial { float partial[]; };
layout(std430, set = 0, binding = 4) writeonly buffer PartialQuads { vec4 partial_quads[]; };
COLUMNS_READ(x)
COLUMNS_READ(dy)
STATISTIC_READ(mean)
STATISTIC_READ(stat)
COLUMNS_WRITE(partial)

void main() {
  const ColumnWalk w = column_walk();
  if (!w.valid) return;  // the whole workgroup
  Sums total = Sums(vec4(0.0), vec4(0.0));
  vec4 center = vec4(0.0), rstd = vec4(0.0);
  uint row = w.begin;
  while (row < w.end) {
    // Runs of 16 rows are summed on their own first, so that the error grows with the number of runs.
    Sums run = Sums(vec4(0.0), vec4(0.0));
    for (uint n = 0u; n < 16u && row < w.end; ++n, row += w.step) {
      const uint full_row = w.batch * p.rows + row;
      if (row == w.begin || p.stat_rows == 1u) {  // else a batch's rows share statistics
        const uint s = stat_index(full_row, w.col);
        center = read_mean(s);
        rstd = rstd_of(read_stat(s));
      }
      const uint i = full_row * p.cols + w.col;
      const vec4 d = read_dy(i);
      run.first += d;
      run.second += d * ((read_x(i) - center) * rstd);
    }
    total.first += run.first;
    total.second += run.second;
  }
  const uint lanes = 1u << p.lane_shift;
  total = sum_lanes(total, lanes);
  if (gl_LocalInvocationIndex < lanes && w.col < p.cols) {
    write_partial(partial_index(w), total.first);
    write_partial(partial_plane() + partial_index(w), total.second);
  }
}
