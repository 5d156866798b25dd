// Backward: means over a group of dy * scale and of dy * scale * normalised x, from the partial sums.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
layout(local_size_x = 128) in;
#include "shaders/common/index.glsl"
#include "shaders/norm/norm_push.h"
#include "shaders/norm/norm.glsl"
#include "shaders/norm/sum_lanes.glsl"

layout(std430, set = 0, binding = 0) readonly buffer Partial { float partial[]; };
layout(std430, set = 0, binding = 1) readonly buffer Scale { float scale[]; };
layout(std430, set = 0, binding = 2) writeonly buffer Moments { float moments[]; };

void main() {
  const uint flat_group = flat_workgroup();
  if (flat_group >= p.batches * p.groups) return;  // the whole workgroup
  const uint batch = flat_group / p.groups;
  const uint group = flat_group % p.groups;
  vec2 total = vec2(0.0);
  for (uint n = gl_LocalInvocationIndex; n < p.chunks * p.group_cols; n += 128u) {
    const uint chunk = n / p.group_cols;
    const uint col = group * p.group_cols + n % p.group_cols;
    const uint i = (batch * p.chunks + chunk) * p.cols + col;
    const vec2 part = vec2(partial[i], partial[partial_plane() + i]);
    total += p.has_scale != 0u ? part * scale[col] : part;
  }
  const Sums sums = sum_lanes(Sums(vec4(total.x), vec4(total.y)), 1u);
  if (gl_LocalInvocationIndex != 0u) return;
  const float count = float(p.rows) * float(p.group_cols);
  moments[flat_group] = sums.first.x / count;
  moments[p.batches * p.groups + flat_group] = sums.second.x / count;
}
