//! variant f32 : -DSTORE_F32
// softmax: dx = y (dy - sum y dy). log_softmax: dx = dy - exp(y) sum dy.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "shaders/softmax/softmax_push.h"
layout(local_size_x = 128) in;
#include "shaders/common/rows.glsl"
layout(constant_id = 3) const bool LOG = false;
layout(binding = 0) readonly buffer Y { float y[]; };
layout(binding = 0) readonly buffer YQuads { vec4 y_quads[]; };
layout(binding = 1) readonly buffer Dy { float dy[]; };
layout(binding = 1) readonly buffer DyQuads { vec4 dy_quads[]; };
layout(binding = 2) writeonly buffer Dx { float dx[]; };
layout(binding = 2) writeonly buffer DxQuads { vec4 dx_quads[]; };

void main() {
  uint columns = row_is_real() ? p.columns : 0;
  uint start = row_start();
  vec4 sums = vec4(0.0);
  for (uint c = row_first(); c < columns; c += ROW_STEP) {
    ROW_LOAD(g, dy, start, c, columns, 0.0)
    if (!LOG) {
      ROW_LOAD(v, y, start, c, columns, 0.0)
      g *= v;
    }
    sums += g;
  }
  float sum = row_sum(sum_of(sums));
  for (uint c = row_first(); c < columns; c += ROW_STEP) {
    ROW_LOAD(g, dy, start, c, columns, 0.0)
    ROW_LOAD(v, y, start, c, columns, 0.0)
    if (LOG) {
      for (uint i = 0; i < 4; ++i) g[i] -= exp_accurate(v[i]) * sum;
    } else {
      g = v * (g - sum);
    }
    ROW_STORE(dx, start, c, columns, g)
  }
}
