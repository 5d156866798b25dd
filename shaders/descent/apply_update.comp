// x -= rate * scale * direction, with decoupled weight decay. Nothing where the step is skipped.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/descent/apply_update_push.h"
#include "shaders/common/flat.glsl"
#include "shaders/common/step_state.h"
#include "shaders/loss_scale/update_control.h"

layout(std430, set = 0, binding = 0) buffer Param { float param[]; };
layout(std430, set = 0, binding = 0) buffer ParamVectors { vec4 param4[]; };
layout(std430, set = 0, binding = 1) readonly buffer Direction { float direction[]; };
layout(std430, set = 0, binding = 1) readonly buffer DirectionVectors { vec4 direction4[]; };
layout(std430, set = 0, binding = 2) readonly buffer Factor { float factor[]; };
layout(std430, set = 0, binding = 4) readonly buffer State { StepState state; };
layout(std430, set = 0, binding = 3) readonly buffer Scale { float scale[]; };

vec4 stepped(vec4 x, vec4 d) {
  const float rate = state.learning_rate[p.group] * p.rate_scale;
  float size = p.has_scale != 0u ? scale[0] : 1.0;
  size *= p.absolute != 0u ? p.rate_scale : rate;
  if (p.weight_decay != 0.0) x *= 1.0 - rate * p.weight_decay;
  return x - size * d;
}

void vector(uint i) {
  if (UPDATE_SKIPPED) return;
  param4[BASE4(0) + i] = stepped(param4[BASE4(0) + i], direction4[BASE4(1) + i]);
}

void single(uint i) {
  if (UPDATE_SKIPPED) return;
  param[BASE(0) + i] = stepped(vec4(param[BASE(0) + i]), vec4(direction[BASE(1) + i])).x;
}
