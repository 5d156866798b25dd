// Second pass of mean and variance: one workgroup combines the chunks and columns of a group.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/common/index.glsl"
#include "shaders/norm/norm_push.h"
#include "shaders/norm/norm.glsl"
#include "shaders/norm/welford.glsl"

layout(std430, set = 0, binding = 0) readonly buffer Partial { float partial[]; };
layout(std430, set = 0, binding = 1) writeonly buffer Mean { float mean[]; };
layout(std430, set = 0, binding = 2) writeonly buffer Stat { float stat[]; };

void main() {
  const uint flat_group = flat_workgroup();
  if (flat_group >= p.batches * p.groups) return;  // the whole workgroup
  const uint batch = flat_group / p.groups;
  const uint group = flat_group % p.groups;
  Moments m = Moments(0.0, vec4(0.0), vec4(0.0));
  for (uint n = gl_LocalInvocationIndex; n < p.chunks * p.group_cols; n += 128u) {
    const uint chunk = n / p.group_cols;
    const uint col = group * p.group_cols + n % p.group_cols;
    const uint i = (batch * p.chunks + chunk) * p.cols + col;
    m = combine(m, Moments(float(rows_in(chunk)), vec4(partial[i]), vec4(partial[partial_plane() + i])));
  }
  m = combine_lanes(m, 1u);
  if (gl_LocalInvocationIndex != 0u) return;
  const float variance = m.m2.x / m.n;
  mean[flat_group] = m.mean.x;
  stat[flat_group] = p.stat_is_variance != 0u ? variance : inversesqrt(variance + p.epsilon);
}
