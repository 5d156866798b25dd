//! variant f32 : -DSTORE_F32
// Per row: log sum exp(x) - (1 - s) x[label] - s mean(x), s the smoothing. A label out of range makes its row
// not-a-number; the ignored one zero.
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/cross_entropy/cross_entropy_rows.glsl"
layout(binding = 2) writeonly buffer Loss { float loss[]; };

void main() {
  Row row = read_row();
  if (row.columns == 0 || row_slice() != 0) return;
  float y = nan();
  if (row.valid) {
    y = log_accurate(row.sum_exps) - (1.0 - p.smoothing) * (x[row.start + uint(row.label)] - row.top);
    if (p.smoothing != 0.0) y -= p.smoothing * (row.sum / float(p.columns));
  }
  loss[row_index()] = row.ignored ? 0.0 : y;
}
