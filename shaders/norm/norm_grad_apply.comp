// Backward: dx = rstd * (dy * scale - m1 - xhat * m2); without moments the statistics are constants.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/common/index.glsl"
#include "shaders/norm/norm_push.h"
#include "shaders/norm/norm.glsl"

layout(std430, set = 0, binding = 0) readonly buffer X { float x[]; };
layout(std430, set = 0, binding = 1) readonly buffer Dy { float dy[]; };
layout(std430, set = 0, binding = 2) readonly buffer Mean { float mean[]; };
layout(std430, set = 0, binding = 3) readonly buffer Stat { float stat[]; };
layout(std430, set = 0, binding = 4) readonly buffer Scale { float scale[]; };
layout(std430, set = 0, binding = 5) readonly buffer Moments { vec2 moments[]; };
layout(std430, set = 0, binding = 6) writeonly buffer Dx { float dx[]; };

void main() {
  const uint i = flat_invocation();
  if (i >= p.batches * p.rows * p.cols) return;
  const uint row = i / p.cols;
  const uint col = i - row * p.cols;
  const uint s = stat_index(row, col);
  const float rstd = rstd_of(stat[s]);
  float d = dy[i];
  if (p.has_scale != 0u) d *= scale[col];
  if (p.has_moments != 0u) {
    const vec2 m = moments[s];
    d -= m.x + (x[i] - mean[s]) * rstd * m.y;
  }
  dx[i] = d * rstd;
}
