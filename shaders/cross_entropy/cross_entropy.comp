//! variant f32 : -DSTORE_F32
//! variant grad_f32 : -DSTORE_F32 -DGRAD
// Per row: log sum exp(x) - (1 - s) x[label] - s mean(x); with GRAD its gradient, from the logits alone:
// dloss (softmax(x) - (1 - s) [label] - s / C). A label out of range makes its row not-a-number; the ignored one zero.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "shaders/cross_entropy/cross_entropy_push.h"
layout(local_size_x = 128) in;
#include "shaders/common/rows.glsl"
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) readonly buffer Labels { int labels[]; };
#ifdef GRAD
layout(binding = 2) readonly buffer Dloss { float dloss[]; };
layout(binding = 3) writeonly buffer Dx { float dx[]; };
#else
layout(binding = 2) writeonly buffer Loss { float loss[]; };
#endif

void main() {
  bool real = row_is_real();
  uint columns = real ? p.columns : 0;
  uint start = row_start();
  uint slice = row_slice();
  // Logits are taken relative to the maximum throughout: large ones would cancel.
  float top = -inf();
  for (uint c = slice; c < columns; c += SLICES) top = max_nan(top, x[start + c]);
  top = row_max(top);
  float exps = 0.0;
  float total = 0.0;
  for (uint c = slice; c < columns; c += SLICES) {
    float shifted = x[start + c] - top;
    exps += exp_accurate(shifted);
    total += shifted;
  }
  exps = row_sum(exps);
  if (p.smoothing != 0.0) total = row_sum(total);
  int label = real ? labels[row_index()] : -1;
  bool ignored = label == p.ignore_index;
  bool valid = label >= 0 && label < int(p.columns);
#ifdef GRAD
  float scale = real ? (ignored ? 0.0 : (valid ? dloss[row_index()] : nan())) : 0.0;
  for (uint c = slice; c < columns; c += SLICES) {
    float target = (int(c) == label ? 1.0 - p.smoothing : 0.0) + p.smoothing / float(p.columns);
    dx[start + c] = ignored ? 0.0 : scale * (exp_accurate(x[start + c] - top) / exps - target);
  }
#else
  if (!real || slice != 0) return;
  float y = nan();
  if (valid) {
    y = log_accurate(exps) - (1.0 - p.smoothing) * (x[start + uint(label)] - top);
    if (p.smoothing != 0.0) y -= p.smoothing * (total / float(p.columns));
  }
  loss[row_index()] = ignored ? 0.0 : y;
#endif
}
