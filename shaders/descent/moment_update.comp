// A running mean of x, or of its square: what optimizers made of several ops keep. Nothing where the step is skipped.
//! variant f32 :
//! variant f32_table : -DTABLE -DTABLE_BINDING=4
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/descent/moment_update_push.h"
#include "shaders/common/flat.glsl"
#include "shaders/common/step_state.h"
#include "shaders/loss_scale/update_control.h"

layout(std430, set = 0, binding = 0) buffer Mean { float mean[]; };
layout(std430, set = 0, binding = 0) buffer MeanVectors { vec4 mean4[]; };
layout(std430, set = 0, binding = 1) readonly buffer X { float x[]; };
layout(std430, set = 0, binding = 1) readonly buffer XVectors { vec4 x4[]; };
layout(std430, set = 0, binding = 2) readonly buffer Factor { float factor[]; };
layout(std430, set = 0, binding = 3) readonly buffer State { StepState state; };

vec4 moved(vec4 m, vec4 value) {
  if (p.squared != 0u) value *= value;
  const float of_step = p.has_factor == 2u ? factor[kCorrection1] : state.bias_correction1[p.group];
  const float weight = p.from_step != 0u ? of_step : p.weight;
  return p.lerp != 0u ? m + weight * (value - m) : p.decay * m + weight * value;
}

void vector(uint i) {
  if (UPDATE_SKIPPED) return;
  mean4[BASE4(0) + i] = moved(mean4[BASE4(0) + i], x4[BASE4(1) + i]);
}

void single(uint i) {
  if (UPDATE_SKIPPED) return;
  mean[BASE(0) + i] = moved(vec4(mean[BASE(0) + i]), vec4(x[BASE(1) + i])).x;
}
