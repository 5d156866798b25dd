//! variant f32 : -DSTORE_F32
// dx = dloss (softmax(x) - (1 - s) [label] - s / C), s the smoothing, from the logits alone. A label out of range makes
// its row not-a-number; the ignored one zero.
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/cross_entropy/cross_entropy_rows.glsl"
layout(binding = 2) readonly buffer Dloss { float dloss[]; };
layout(binding = 3) writeonly buffer Dx { float dx[]; };

void main() {
  Row row = read_row();
  float scale = 0.0;
  if (row.columns != 0) scale = row.valid ? dloss[row_index()] : nan();
  for (uint c = row_slice(); c < row.columns; c += SLICES) {
    float target = (int(c) == row.label ? 1.0 - p.smoothing : 0.0) + p.smoothing / float(p.columns);
    uint at = row.start + c;
    dx[at] = row.ignored ? 0.0 : scale * (exp_accurate(x[at] - row.top) / row.sum_exps - target);
  }
}
