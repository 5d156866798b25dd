// One step of Adam (Kingma and Ba 2015) or AdamW (Loshchilov and Hutter 2019), as torch.optim defines them.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/common/index.glsl"
#include "shaders/common/step_state.h"
#include "shaders/optimizer/adam_step_push.h"

layout(std430, set = 0, binding = 0) buffer Param { float param[]; };
layout(std430, set = 0, binding = 1) readonly buffer Grad { float grad[]; };
layout(std430, set = 0, binding = 2) buffer First { float first[]; };
layout(std430, set = 0, binding = 3) buffer Second { float second[]; };
layout(std430, set = 0, binding = 4) readonly buffer Factor { float factor[]; };
layout(std430, set = 0, binding = 5) readonly buffer State { StepState state; };

void main() {
  const uint i = flat_invocation();
  if (i >= p.count) return;
  const float rate = state.learning_rate[p.group];
  float x = param[i];
  float g = grad[i];
  if (p.has_factor != 0u) g *= factor[0];
  if (p.maximize != 0u) g = -g;
  if (p.weight_decay != 0.0) {
    if (p.decoupled != 0u) {
      x *= 1.0 - rate * p.weight_decay;
    } else {
      g += p.weight_decay * x;
    }
  }
  const float m = p.beta1 * first[i] + p.one_minus_beta1 * g;
  const float v = p.beta2 * second[i] + p.one_minus_beta2 * (g * g);
  first[i] = m;
  second[i] = v;
  const float denominator = sqrt(v) / sqrt(state.bias_correction2[p.group]) + p.epsilon;
  param[i] = x - rate / state.bias_correction1[p.group] * (m / denominator);
}
