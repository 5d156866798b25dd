// Backward: means over a group of dy * scale and of dy * scale * normalised x, from the partial sums.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/common/index.glsl"
#include "shaders/norm/norm_push.h"
#include "shaders/norm/sum_lanes.glsl"

layout(std430, set = 0, binding = 0) readonly buffer Partial { vec2 partial[]; };
layout(std430, set = 0, binding = 1) readonly buffer Scale { float scale[]; };
layout(std430, set = 0, binding = 2) writeonly buffer Moments { vec2 moments[]; };

void main() {
  const uint flat_group = flat_workgroup();
  if (flat_group >= p.batches * p.groups) return;  // the whole workgroup
  const uint batch = flat_group / p.groups;
  const uint group = flat_group % p.groups;
  vec2 total = vec2(0.0);
  for (uint i = gl_LocalInvocationIndex; i < p.chunks * p.group_cols; i += 128u) {
    const uint chunk = i / p.group_cols;
    const uint col = group * p.group_cols + i % p.group_cols;
    const vec2 part = partial[(batch * p.chunks + chunk) * p.cols + col];
    total += p.has_scale != 0u ? part * scale[col] : part;
  }
  total = sum_lanes(total, 1u);
  if (gl_LocalInvocationIndex == 0u) moments[flat_group] = total / (float(p.rows) * float(p.group_cols));
}
