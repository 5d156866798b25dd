// One step of Lion (Chen et al. 2023): the sign of a mean of gradients.
//! variant f32 :
//! variant f32_table : -DTABLE -DTABLE_BINDING=5
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/descent/lion_step_push.h"
#include "shaders/common/flat.glsl"
#include "shaders/common/step_state.h"
#include "shaders/loss_scale/update_control.h"

layout(std430, set = 0, binding = 0) buffer Param { float param[]; };
layout(std430, set = 0, binding = 0) buffer ParamVectors { vec4 param4[]; };
layout(std430, set = 0, binding = 1) readonly buffer Grad { float grad[]; };
layout(std430, set = 0, binding = 1) readonly buffer GradVectors { vec4 grad4[]; };
layout(std430, set = 0, binding = 2) buffer Mean { float mean[]; };
layout(std430, set = 0, binding = 2) buffer MeanVectors { vec4 mean4[]; };
layout(std430, set = 0, binding = 3) readonly buffer Factor { float factor[]; };
layout(std430, set = 0, binding = 4) readonly buffer State { StepState state; };

void step_of(inout vec4 x, vec4 g, inout vec4 m) {
  const float rate = state.learning_rate[p.group] * p.rate_scale;
  if (p.has_factor != 0u) g *= factor[kFactor];
  if (p.weight_decay != 0.0) x *= 1.0 - rate * p.weight_decay;
  x -= rate * sign(p.beta1 * m + p.one_minus_beta1 * g);
  m = p.beta2 * m + p.one_minus_beta2 * g;
}

void vector(uint i) {
  if (UPDATE_SKIPPED) return;
  vec4 x = param4[BASE4(0) + i];
  vec4 m = mean4[BASE4(2) + i];
  step_of(x, grad4[BASE4(1) + i], m);
  mean4[BASE4(2) + i] = m;
  param4[BASE4(0) + i] = x;
}

void single(uint i) {
  if (UPDATE_SKIPPED) return;
  vec4 x = vec4(param[BASE(0) + i]);
  vec4 m = vec4(mean[BASE(2) + i]);
  step_of(x, vec4(grad[BASE(1) + i]), m);
  mean[BASE(2) + i] = m.x;
  param[BASE(0) + i] = x.x;
}
