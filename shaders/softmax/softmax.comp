//! variant f32 : -DSTORE_F32
// y = exp(x - max) / sum exp(x - max) along rows, or its logarithm: three passes, the maximum first, so that nothing
// overflows.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "shaders/softmax/softmax_push.h"
layout(local_size_x = 128) in;
#include "shaders/common/rows.glsl"
layout(constant_id = 2) const bool LOG = false;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) writeonly buffer Y { float y[]; };

void main() {
  uint columns = row_is_real() ? p.columns : 0;
  uint start = row_start();
  float top = -inf();
  for (uint c = row_slice(); c < columns; c += SLICES) top = max_nan(top, x[start + c * p.inner]);
  top = row_max(top);
  float sum = 0.0;
  for (uint c = row_slice(); c < columns; c += SLICES) sum += exp_accurate(x[start + c * p.inner] - top);
  sum = row_sum(sum);
  float log_sum = LOG ? log_accurate(sum) : 0.0;
  for (uint c = row_slice(); c < columns; c += SLICES) {
    uint at = start + c * p.inner;
    float shifted = x[at] - top;
    y[at] = LOG ? shifted - log_sum : exp_accurate(shifted) / sum;
  }
}
