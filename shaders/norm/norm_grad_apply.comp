// Backward: dx = rstd * (dy * scale - m1 - xhat * m2); without moments the statistics are constants.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/common/index.glsl"
#include "shaders/norm/norm_push.h"
#include "shaders/norm/norm.glsl"

layout(std430, set = 0, binding = 0) readonly buffer X { float x[]; };
layout(std430, set = 0, binding = 0) readonly buffer XQuads { vec4 x_quads[]; };
layout(std430, set = 0, binding = 1) readonly buffer Dy { float dy[]; };
layout(std430, set = 0, binding = 1) readonly buffer DyQuads { vec4 dy_quads[]; };
layout(std430, set = 0, binding = 2) readonly buffer Mean { float mean[]; };
layout(std430, set = 0, binding = 2) readonly buffer MeanQuads { vec4 mean_quads[]; };
layout(std430, set = 0, binding = 3) readonly buffer Stat { float stat[]; };
layout(std430, set = 0, binding = 3) readonly buffer StatQuads { vec4 stat_quads[]; };
layout(std430, set = 0, binding = 4) readonly buffer Scale { float scale[]; };
layout(std430, set = 0, binding = 4) readonly buffer ScaleQuads { vec4 scale_quads[]; };
layout(std430, set = 0, binding = 5) readonly buffer Moments { float moments[]; };
layout(std430, set = 0, binding = 5) readonly buffer MomentsQuads { vec4 moments_quads[]; };
layout(std430, set = 0, binding = 6) writeonly buffer Dx { float dx[]; };
layout(std430, set = 0, binding = 6) writeonly buffer DxQuads { vec4 dx_quads[]; };
COLUMNS_READ(x)
COLUMNS_READ(dy)
STATISTIC_READ(mean)
STATISTIC_READ(stat)
COLUMNS_READ(scale)
STATISTIC_READ(moments)
COLUMNS_WRITE(dx)

void main() {
  const ColumnWalk w = column_walk();
  if (!w.valid || w.begin >= w.end) return;
  const uint s = stat_index(w.batch * p.rows, w.col);  // rows of a batch share statistics
  const vec4 rstd = rstd_of(read_stat(s));
  const vec4 factor = p.has_scale != 0u ? read_scale(w.col) : vec4(1.0);
  vec4 center = vec4(0.0), m1 = vec4(0.0), m2 = vec4(0.0);
  if (p.has_moments != 0u) {
    center = read_mean(s);
    m1 = read_moments(s);
    m2 = read_moments(p.batches * p.groups + s);
  }
  for (uint row = w.begin; row < w.end; row += w.step) {
    const uint i = (w.batch * p.rows + row) * p.cols + w.col;
    vec4 d = read_dy(i) * factor;
    if (p.has_moments != 0u) d -= m1 + (read_x(i) - center) * rstd * m2;
    write_dx(i, d * rstd);
  }
}
