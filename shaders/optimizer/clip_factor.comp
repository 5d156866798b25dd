// What gradients are multiplied with so that their norm is at most max_norm; NaN where the step must not be taken, since
// its loss or its gradients are not finite. Without clipping: 1 or NaN, from the count of elements that are not finite.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 1) in;
#include "shaders/common/nan.glsl"
#include "shaders/optimizer/clip_factor_push.h"

layout(std430, set = 0, binding = 0) readonly buffer Total { float total[]; };  // squared norm, or a count
layout(std430, set = 0, binding = 1) readonly buffer Loss { float loss[]; };    // any buffer where it is not looked at
layout(std430, set = 0, binding = 2) writeonly buffer Factor { float factor[]; };

void main() {
  const bool lost = p.has_loss != 0u && !is_finite(loss[0]);
  const bool bad = p.max_norm > 0.0 ? !is_finite(total[0]) : total[0] != 0.0;
  const float f = p.max_norm > 0.0 ? p.max_norm / (sqrt(total[0]) + 1e-6) : 1.0;
  factor[0] = lost || bad ? nan() : min(f, 1.0);
}
