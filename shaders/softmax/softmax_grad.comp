//! variant f32 : -DSTORE_F32
// softmax: dx = y (dy - sum y dy). log_softmax: dx = dy - exp(y) sum dy.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "shaders/softmax/softmax_push.h"
layout(local_size_x = 128) in;
#include "shaders/common/rows.glsl"
layout(constant_id = 2) const bool LOG = false;
layout(binding = 0) readonly buffer Y { float y[]; };
layout(binding = 1) readonly buffer Dy { float dy[]; };
layout(binding = 2) writeonly buffer Dx { float dx[]; };

void main() {
  uint columns = row_is_real() ? p.columns : 0;
  uint start = row_start();
  float sum = 0.0;
  for (uint c = row_slice(); c < columns; c += SLICES) {
    uint at = start + c * p.inner;
    sum += LOG ? dy[at] : y[at] * dy[at];
  }
  sum = row_sum(sum);
  for (uint c = row_slice(); c < columns; c += SLICES) {
    uint at = start + c * p.inner;
    dx[at] = LOG ? dy[at] - exp_accurate(y[at]) * sum : y[at] * (dy[at] - sum);
  }
}
