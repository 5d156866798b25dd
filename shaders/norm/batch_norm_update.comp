// Moves the running statistics of batch normalisation towards those of a batch. Statistics that are not finite (of a
// step that overflowed) leave them as they are.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/common/index.glsl"
#include "shaders/common/nan.glsl"
#include "shaders/norm/batch_norm_update_push.h"

layout(std430, set = 0, binding = 0) buffer RunningMean { float running_mean[]; };
layout(std430, set = 0, binding = 1) buffer RunningVar { float running_var[]; };
layout(std430, set = 0, binding = 2) readonly buffer Mean { float mean[]; };
layout(std430, set = 0, binding = 3) readonly buffer Var { float var[]; };

void main() {
  const uint i = flat_invocation();
  if (i >= p.count || !is_finite(mean[i]) || !is_finite(var[i])) return;
  running_mean[i] = (1.0 - p.momentum) * running_mean[i] + p.momentum * mean[i];
  running_var[i] = (1.0 - p.momentum) * running_var[i] + p.momentum * (var[i] * p.variance_factor);
}
