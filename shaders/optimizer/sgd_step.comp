// One step of stochastic gradient descent with momentum, as torch.optim.SGD defines it.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/common/index.glsl"
#include "shaders/common/step_state.h"
#include "shaders/optimizer/sgd_step_push.h"

layout(std430, set = 0, binding = 0) buffer Param { float param[]; };
layout(std430, set = 0, binding = 1) readonly buffer Grad { float grad[]; };
layout(std430, set = 0, binding = 2) buffer Momentum { float velocity[]; };
layout(std430, set = 0, binding = 3) readonly buffer Factor { float factor[]; };
layout(std430, set = 0, binding = 4) readonly buffer State { StepState state; };

void main() {
  const uint i = flat_invocation();
  if (i >= p.count) return;
  const float x = param[i];
  float d = grad[i];
  if (p.has_factor != 0u) d *= factor[0];
  if (p.maximize != 0u) d = -d;
  if (p.weight_decay != 0.0) d += p.weight_decay * x;
  if (p.has_momentum != 0u) {
    // The first step takes the gradient itself, undampened.
    const float v = state.step == 0u ? d : p.momentum * velocity[i] + p.one_minus_dampening * d;
    velocity[i] = v;
    d = p.nesterov != 0u ? d + p.momentum * v : v;
  }
  param[i] = x - state.learning_rate[p.group] * d;
}
