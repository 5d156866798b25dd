// Whether the step is taken (neither the loss nor a gradient overflowed), how gradients are scaled back, and the scale
// of the next step.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 1) in;
#include "shaders/common/math.glsl"
#include "shaders/loss_scale/loss_scale_state.h"
#include "shaders/loss_scale/loss_scale_step_push.h"
#include "shaders/loss_scale/update_control.h"

layout(binding = 0) buffer State { float state[]; };
layout(binding = 1) readonly buffer Overflow { float overflow[]; };
layout(binding = 2) readonly buffer Square { float square[]; };  // any buffer without clipping
layout(binding = 3) readonly buffer Loss { float loss[]; };      // any buffer where it is not looked at
layout(binding = 4) writeonly buffer Control { float control[]; };
layout(binding = 5) writeonly buffer Norm { float norm[]; };  // squared, of gradients without the scale

void main() {
  float scale = state[kScale] == 0.0 ? p.initial : state[kScale];
  const bool lost = p.has_loss != 0u && !is_finite(loss[0]);  // a smaller scale would not have helped
  const bool skip = lost || overflow[0] != 0.0;
  const float inverse = p.unscaled != 0u ? 1.0 : 1.0 / scale;
  float factor = inverse;
  float squared = 0.0;
  if (p.max_norm > 0.0) {
    const float length = sqrt(square[0]) * inverse;
    squared = length * length;
    factor *= min(1.0, p.max_norm / (length + 1e-6));
  }
  norm[0] = squared;
  const float taken = state[kTaken];
  control[kFactor] = skip ? 0.0 : factor;
  vec2 correction = vec2(p.corrections == kStepCount ? taken : 1.0, 1.0);
  if (p.corrections == kAdamCorrections) {
    correction = vec2(-expm1_accurate((taken + 1.0) * p.log_beta1), -expm1_accurate((taken + 1.0) * p.log_beta2));
  } else if (p.corrections == kAdafactorCorrections) {
    correction = vec2(exp_accurate(p.beta2_decay * log_accurate(taken + 1.0)), 1.0 / sqrt(taken + 1.0));
  }
  control[kCorrection1] = correction.x;
  control[kCorrection2] = correction.y;
  control[kVerdict] = skip ? kVerdictSkip : (taken == 0.0 ? kVerdictFirst : 0.0);

  float growing = skip ? min(state[kGrowing], 0.0) - 1.0 : max(state[kGrowing], 0.0) + 1.0;
  if (skip && !lost) {
    scale = max(scale * p.backoff, 1.17549435e-38);
  } else if (growing == p.interval) {
    growing = 0.0;
    if (!is_inf(scale * p.growth)) scale *= p.growth;
  }
  state[kScale] = scale;
  state[kGrowing] = growing;
  state[kTaken] = taken + (skip ? 0.0 : 1.0);
  state[kSkipped] += skip ? 1.0 : 0.0;
}
