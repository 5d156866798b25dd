// One step of RMSprop, as torch.optim.RMSprop defines it.
//! variant f32 :
//! variant f32_table : -DTABLE -DTABLE_BINDING=7
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/descent/rmsprop_step_push.h"
#include "shaders/common/flat.glsl"
#include "shaders/common/step_state.h"
#include "shaders/loss_scale/update_control.h"

layout(std430, set = 0, binding = 0) buffer Param { float param[]; };
layout(std430, set = 0, binding = 0) buffer ParamVectors { vec4 param4[]; };
layout(std430, set = 0, binding = 1) readonly buffer Grad { float grad[]; };
layout(std430, set = 0, binding = 1) readonly buffer GradVectors { vec4 grad4[]; };
layout(std430, set = 0, binding = 2) buffer Square { float square[]; };
layout(std430, set = 0, binding = 2) buffer SquareVectors { vec4 square4[]; };
layout(std430, set = 0, binding = 3) buffer Momentum { float velocity[]; };
layout(std430, set = 0, binding = 3) buffer MomentumVectors { vec4 velocity4[]; };
layout(std430, set = 0, binding = 4) buffer Mean { float mean[]; };
layout(std430, set = 0, binding = 4) buffer MeanVectors { vec4 mean4[]; };
layout(std430, set = 0, binding = 5) readonly buffer Factor { float factor[]; };
layout(std430, set = 0, binding = 6) readonly buffer State { StepState state; };

void step_of(inout vec4 x, vec4 g, inout vec4 s, inout vec4 v, inout vec4 m) {
  const float rate = state.learning_rate[p.group] * p.rate_scale;
  if (p.has_factor != 0u) g *= factor[kFactor];
  if (p.weight_decay != 0.0) g += p.weight_decay * x;
  s = p.alpha * s + p.one_minus_alpha * (g * g);
  vec4 spread = s;
  if (p.centered != 0u) {
    m += p.one_minus_alpha * (g - m);
    // Rounding may take it a little below 0 where gradients do not change.
    spread = max(s - m * m, vec4(0.0));
  }
  const vec4 d = g / (sqrt(spread) + p.epsilon);
  if (p.has_momentum != 0u) v = p.momentum * v + d;
  x -= rate * (p.has_momentum != 0u ? v : d);
}

void vector(uint i) {
  if (UPDATE_SKIPPED) return;
  vec4 x = param4[BASE4(0) + i];
  vec4 s = square4[BASE4(2) + i];
  vec4 v = vec4(0.0), m = vec4(0.0);
  if (p.has_momentum != 0u) v = velocity4[BASE4(3) + i];
  if (p.centered != 0u) m = mean4[BASE4(4) + i];
  step_of(x, grad4[BASE4(1) + i], s, v, m);
  square4[BASE4(2) + i] = s;
  if (p.has_momentum != 0u) velocity4[BASE4(3) + i] = v;
  if (p.centered != 0u) mean4[BASE4(4) + i] = m;
  param4[BASE4(0) + i] = x;
}

void single(uint i) {
  if (UPDATE_SKIPPED) return;
  vec4 x = vec4(param[BASE(0) + i]);
  vec4 s = vec4(square[BASE(2) + i]);
  vec4 v = vec4(0.0), m = vec4(0.0);
  if (p.has_momentum != 0u) v = vec4(velocity[BASE(3) + i]);
  if (p.centered != 0u) m = vec4(mean[BASE(4) + i]);
  step_of(x, vec4(grad[BASE(1) + i]), s, v, m);
  square[BASE(2) + i] = s.x;
  if (p.has_momentum != 0u) velocity[BASE(3) + i] = v.x;
  if (p.centered != 0u) mean[BASE(4) + i] = m.x;
  param[BASE(0) + i] = x.x;
}
