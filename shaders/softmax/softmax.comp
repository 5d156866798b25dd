//! variant f32 : -DSTORE_F32
// y = exp(x - max) / sum exp(x - max) along rows, or its logarithm: three passes, the maximum first, so that nothing
// overflows.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "shaders/softmax/softmax_push.h"
layout(local_size_x = 128) in;
#include "shaders/common/rows.glsl"
layout(constant_id = 3) const bool LOG = false;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 0) readonly buffer XQuads { vec4 x_quads[]; };
layout(binding = 1) writeonly buffer Y { float y[]; };
layout(binding = 1) writeonly buffer YQuads { vec4 y_quads[]; };

vec4 exp_of(vec4 v) {
  vec4 y;
  for (uint i = 0; i < 4; ++i) y[i] = exp_accurate(v[i]);  // one call, for the reason told in unary.comp
  return y;
}

void main() {
  uint columns = row_is_real() ? p.columns : 0;
  uint start = row_start();
  float top = -inf();
  for (uint c = row_first(); c < columns; c += ROW_STEP) {
    ROW_LOAD(v, x, start, c, columns, -inf())
    for (uint i = 0; i < 4; ++i) top = max_nan(top, v[i]);
  }
  top = row_max(top);
  vec4 sums = vec4(0.0);
  for (uint c = row_first(); c < columns; c += ROW_STEP) {
    ROW_LOAD(v, x, start, c, columns, top)
    vec4 terms = exp_of(v - top);
    for (uint i = 0; i < 4; ++i) sums[i] += row_column(c, i) < columns ? terms[i] : 0.0;
  }
  float sum = row_sum(sum_of(sums));
  float log_sum = LOG ? log_accurate(sum) : 0.0;
  for (uint c = row_first(); c < columns; c += ROW_STEP) {
    ROW_LOAD(v, x, start, c, columns, top)
    vec4 result = v - top;
    if (LOG) {
      result -= log_sum;
    } else {
      result = exp_of(result) / sum;
    }
    ROW_STORE(y, start, c, columns, result)
  }
}
