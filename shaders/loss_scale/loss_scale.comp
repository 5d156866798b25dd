// The cotangent of the loss, scaled: y = weight * scale, and 1 / scale.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 1) in;
#include "shaders/loss_scale/loss_scale_push.h"
#include "shaders/loss_scale/loss_scale_state.h"

layout(binding = 0) readonly buffer Weight { float weight[]; };
layout(binding = 1) readonly buffer State { float state[]; };
layout(binding = 2) writeonly buffer Y { float y[]; };
layout(binding = 3) writeonly buffer Inverse { float inverse[]; };

void main() {
  const float scale = state[kScale] == 0.0 ? p.initial : state[kScale];
  y[0] = weight[0] * scale;
  inverse[0] = 1.0 / scale;
}
