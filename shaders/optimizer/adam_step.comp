// One step of Adam (Kingma and Ba 2015) or AdamW (Loshchilov and Hutter 2019), as torch.optim defines them.
//! variant f32 :
//! variant f32_table : -DTABLE -DTABLE_BINDING=6
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/optimizer/adam_step_push.h"
#include "shaders/common/flat.glsl"
#include "shaders/common/step_state.h"
#include "shaders/loss_scale/update_control.h"

// What is read is as it was before: devices read what nobody writes by other means than what is written.
layout(std430, set = 0, binding = 0) writeonly buffer Param { float param[]; };
layout(std430, set = 0, binding = 0) writeonly buffer ParamVectors { vec4 param4[]; };
layout(std430, set = 0, binding = 0) readonly buffer ParamBefore { float param_before[]; };
layout(std430, set = 0, binding = 0) readonly buffer ParamVectorsBefore { vec4 param4_before[]; };
layout(std430, set = 0, binding = 1) readonly buffer Grad { float grad[]; };
layout(std430, set = 0, binding = 1) readonly buffer GradVectors { vec4 grad4[]; };
layout(std430, set = 0, binding = 2) writeonly buffer First { float first[]; };
layout(std430, set = 0, binding = 2) writeonly buffer FirstVectors { vec4 first4[]; };
layout(std430, set = 0, binding = 2) readonly buffer FirstBefore { float first_before[]; };
layout(std430, set = 0, binding = 2) readonly buffer FirstVectorsBefore { vec4 first4_before[]; };
layout(std430, set = 0, binding = 3) writeonly buffer Second { float second[]; };
layout(std430, set = 0, binding = 3) writeonly buffer SecondVectors { vec4 second4[]; };
layout(std430, set = 0, binding = 3) readonly buffer SecondBefore { float second_before[]; };
layout(std430, set = 0, binding = 3) readonly buffer SecondVectorsBefore { vec4 second4_before[]; };
layout(std430, set = 0, binding = 4) readonly buffer Factor { float factor[]; };
layout(std430, set = 0, binding = 5) readonly buffer State { StepState state; };

void step_of(inout vec4 x, vec4 g, inout vec4 m, inout vec4 v) {
  const float rate = state.learning_rate[p.group] * p.rate_scale;
  float correction1 = state.bias_correction1[p.group];
  float correction2 = state.bias_correction2[p.group];
  if (p.has_factor != 0u) g *= factor[kFactor];
  if (p.has_factor == 2u) {
    correction1 = factor[kCorrection1];
    correction2 = factor[kCorrection2];
  }
  if (p.maximize != 0u) g = -g;
  if (p.weight_decay != 0.0) {
    if (p.decoupled != 0u) {
      x *= 1.0 - rate * p.weight_decay;
    } else {
      g += p.weight_decay * x;
    }
  }
  m = p.beta1 * m + p.one_minus_beta1 * g;
  v = p.beta2 * v + p.one_minus_beta2 * (g * g);
  const vec4 denominator = sqrt(v) / sqrt(correction2) + p.epsilon;
  x -= rate / correction1 * (m / denominator);
}

void vector(uint i) {
  if (UPDATE_SKIPPED) return;
  vec4 x = param4_before[BASE4(0) + i];
  vec4 m = first4_before[BASE4(2) + i];
  vec4 v = second4_before[BASE4(3) + i];
  step_of(x, grad4[BASE4(1) + i], m, v);
  first4[BASE4(2) + i] = m;
  second4[BASE4(3) + i] = v;
  param4[BASE4(0) + i] = x;
}

void single(uint i) {
  if (UPDATE_SKIPPED) return;
  vec4 x = vec4(param_before[BASE(0) + i]);
  vec4 m = vec4(first_before[BASE(2) + i]);
  vec4 v = vec4(second_before[BASE(3) + i]);
  step_of(x, vec4(grad[BASE(1) + i]), m, v);
  first[BASE(2) + i] = m.x;
  second[BASE(3) + i] = v.x;
  param[BASE(0) + i] = x.x;
}
