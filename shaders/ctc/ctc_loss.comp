//! variant f32 :
// The loss of each sample over the number of its labels.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "shaders/ctc/ctc_loss_push.h"
layout(local_size_x = 128) in;
layout(std430, set = 0, binding = 0) readonly buffer LogProbs { float log_probs[]; };
layout(std430, set = 0, binding = 1) readonly buffer Labels { int labels[]; };
layout(std430, set = 0, binding = 2) coherent buffer Alpha { float alpha[]; };
layout(std430, set = 0, binding = 3) writeonly buffer Loss { float loss[]; };
#include "shaders/ctc/ctc.glsl"
#include "shaders/common/nan.glsl"

void main() {
  sample_of_group = flat_workgroup();
  if (sample_of_group >= p.samples) return;  // the whole workgroup
  count_states();
  const float total = forward();
  if (gl_LocalInvocationIndex != 0u) return;
  const float none = p.zero_infinity != 0u ? 0.0 : inf();
  loss[sample_of_group] = total <= kNearZero ? none : -total / max(float(states / 2u), 1.0);
}
