//! variant f32 : -DSTORE_F32
// hits[row] = 1 where fewer than k logits go before the label's: larger ones, equal ones of lower index, and those that
// are not a number. A label that is ignored, out of range, or whose logit is not a number is no hit.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "shaders/metric/topk_rows_push.h"
layout(local_size_x = 128) in;
#include "shaders/common/rows.glsl"
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) readonly buffer Labels { int labels[]; };
layout(binding = 2) writeonly buffer Hits { float hits[]; };

void main() {
  bool real = row_is_real();
  uint start = row_start();
  int label = real ? labels[row_index()] : -1;
  bool valid = label >= 0 && label < int(p.columns) && label != p.ignore_index;
  float wanted = valid ? x[start + uint(label)] : nan();
  float before = 0.0;
  uint columns = valid ? p.columns : 0;
  for (uint c = row_slice(); c < columns; c += SLICES) {
    float other = x[start + c];
    if (is_nan(other) || other > wanted || (other == wanted && c < uint(label))) before += 1.0;
  }
  before = row_sum(before);
  if (real && row_slice() == 0) hits[row_index()] = valid && !is_nan(wanted) && before < float(p.k) ? 1.0 : 0.0;
}
