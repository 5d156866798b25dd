// One step of Adagrad, as torch.optim.Adagrad defines it; the sum is kept without its initial value.
//! variant f32 :
//! variant f32_table : -DTABLE -DTABLE_BINDING=5
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/descent/adagrad_step_push.h"
#include "shaders/common/flat.glsl"
#include "shaders/common/step_state.h"
#include "shaders/loss_scale/update_control.h"

layout(std430, set = 0, binding = 0) buffer Param { float param[]; };
layout(std430, set = 0, binding = 0) buffer ParamVectors { vec4 param4[]; };
layout(std430, set = 0, binding = 1) readonly buffer Grad { float grad[]; };
layout(std430, set = 0, binding = 1) readonly buffer GradVectors { vec4 grad4[]; };
layout(std430, set = 0, binding = 2) buffer Sum { float sum[]; };
layout(std430, set = 0, binding = 2) buffer SumVectors { vec4 sum4[]; };
layout(std430, set = 0, binding = 3) readonly buffer Factor { float factor[]; };
layout(std430, set = 0, binding = 4) readonly buffer State { StepState state; };

void step_of(inout vec4 x, vec4 g, inout vec4 s) {
  const float steps = p.has_factor == 2u ? factor[kCorrection1] : float(state.step);  // that were taken before
  const float rate = state.learning_rate[p.group] * p.rate_scale / (1.0 + steps * p.lr_decay);
  if (p.has_factor != 0u) g *= factor[kFactor];
  if (p.weight_decay != 0.0) g += p.weight_decay * x;
  s += g * g;
  x -= rate * (g / (sqrt(s + p.initial) + p.epsilon));
}

void vector(uint i) {
  if (UPDATE_SKIPPED) return;
  vec4 x = param4[BASE4(0) + i];
  vec4 s = sum4[BASE4(2) + i];
  step_of(x, grad4[BASE4(1) + i], s);
  sum4[BASE4(2) + i] = s;
  param4[BASE4(0) + i] = x;
}

void single(uint i) {
  if (UPDATE_SKIPPED) return;
  vec4 x = vec4(param[BASE(0) + i]);
  vec4 s = vec4(sum[BASE(2) + i]);
  step_of(x, vec4(grad[BASE(1) + i]), s);
  sum[BASE(2) + i] = s.x;
  param[BASE(0) + i] = x.x;
}
