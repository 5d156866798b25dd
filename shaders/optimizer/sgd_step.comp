// One step of stochastic gradient descent with momentum, as torch.optim.SGD defines it.
//! variant f32 :
//! variant f32_table : -DTABLE -DTABLE_BINDING=5
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/optimizer/sgd_step_push.h"
#include "shaders/common/flat.glsl"
#include "shaders/common/step_state.h"
#include "shaders/loss_scale/update_control.h"

layout(std430, set = 0, binding = 0) writeonly buffer Param { float param[]; };
layout(std430, set = 0, binding = 0) writeonly buffer ParamVectors { vec4 param4[]; };
layout(std430, set = 0, binding = 0) readonly buffer ParamBefore { float param_before[]; };
layout(std430, set = 0, binding = 0) readonly buffer ParamVectorsBefore { vec4 param4_before[]; };
layout(std430, set = 0, binding = 1) readonly buffer Grad { float grad[]; };
layout(std430, set = 0, binding = 1) readonly buffer GradVectors { vec4 grad4[]; };
layout(std430, set = 0, binding = 2) writeonly buffer Momentum { float velocity[]; };
layout(std430, set = 0, binding = 2) writeonly buffer MomentumVectors { vec4 velocity4[]; };
layout(std430, set = 0, binding = 2) readonly buffer MomentumBefore { float velocity_before[]; };
layout(std430, set = 0, binding = 2) readonly buffer MomentumVectorsBefore { vec4 velocity4_before[]; };
layout(std430, set = 0, binding = 3) readonly buffer Factor { float factor[]; };
layout(std430, set = 0, binding = 4) readonly buffer State { StepState state; };

// The direction to step in, from the parameter and its gradient; `v` is the velocity where there is momentum.
vec4 direction(vec4 x, vec4 d, inout vec4 v) {
  if (p.has_factor != 0u) d *= factor[kFactor];
  if (p.maximize != 0u) d = -d;
  if (p.weight_decay != 0.0) d += p.weight_decay * x;
  if (p.has_momentum == 0u) return d;
  // The first step takes the gradient itself, undampened.
  const bool first = p.has_factor == 2u ? factor[kVerdict] == kVerdictFirst : state.step == 0u;
  v = first ? d : p.momentum * v + p.one_minus_dampening * d;
  return p.nesterov != 0u ? d + p.momentum * v : v;
}

void vector(uint i) {
  if (UPDATE_SKIPPED) return;
  const vec4 x = param4_before[BASE4(0) + i];
  vec4 v = vec4(0.0);
  if (p.has_momentum != 0u) v = velocity4_before[BASE4(2) + i];
  const vec4 d = direction(x, grad4[BASE4(1) + i], v);
  if (p.has_momentum != 0u) velocity4[BASE4(2) + i] = v;
  param4[BASE4(0) + i] = x - state.learning_rate[p.group] * p.rate_scale * d;
}

void single(uint i) {
  if (UPDATE_SKIPPED) return;
  const float x = param_before[BASE(0) + i];
  vec4 v = vec4(0.0);
  if (p.has_momentum != 0u) v = vec4(velocity_before[BASE(2) + i]);
  const vec4 d = direction(vec4(x), vec4(grad[BASE(1) + i]), v);
  if (p.has_momentum != 0u) velocity[BASE(2) + i] = v.x;
  param[BASE(0) + i] = x - state.learning_rate[p.group] * p.rate_scale * d.x;
}
