//! variant f32 : -DSTORE_F32
// dx = dloss (softmax(x) - (1 - s) [label] - s / C), s the smoothing, from the logits alone. A label out of range makes
// its row not-a-number; the ignored one zero.
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/cross_entropy/cross_entropy_rows.glsl"
layout(binding = 2) readonly buffer Dloss { float dloss[]; };
layout(binding = 3) writeonly buffer Dx { float dx[]; };
layout(binding = 3) writeonly buffer DxQuads { vec4 dx_quads[]; };

void main() {
  Row row = read_row();
  float scale = 0.0;
  if (row.columns != 0) scale = row.valid ? dloss[row_index()] : nan();
  for (uint c = row_first(); c < row.columns; c += ROW_STEP) {
    ROW_LOAD(v, x, row.start, c, row.columns, row.top)
    for (uint i = 0; i < 4; ++i) {
      float target = (int(row_column(c, i)) == row.label ? 1.0 - p.smoothing : 0.0) + p.smoothing / float(p.columns);
      v[i] = row.ignored ? 0.0 : scale * (exp_accurate(v[i] - row.top) / row.sum_exps - target);
    }
    ROW_STORE(dx, row.start, c, row.columns, v)
  }
}
