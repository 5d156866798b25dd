// Takes a chunk of logits into each row's running maximum, sum of exponentials and label's logit; after the last chunk
// the loss, log sum exp(x) - x[label], relative to the maximum because large logits would cancel. With smoothing part of
// the label's logit is the mean of all.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/linear_cross_entropy/linear_cross_entropy_push.h"
#include "shaders/common/rows.glsl"
layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 0) readonly buffer XQuads { vec4 x_quads[]; };
layout(std430, binding = 1) readonly buffer Labels { int labels[]; };
layout(std430, binding = 2) readonly buffer Order { uint order[]; };
layout(std430, binding = 3) buffer Stats { float stats[]; };  // maximum, sum, label's logit, sum of logits of each row of X
layout(std430, binding = 4) writeonly buffer Loss { float loss[]; };
layout(std430, binding = 5) writeonly buffer LogSum { float log_sum[]; };

void main() {
  const bool real = row_is_real() && row_index() < order[0];
  const uint columns = real ? p.columns : 0;
  const uint start = real ? row_start() : 0;
  float top = -inf();
  for (uint c = row_first(); c < columns; c += ROW_STEP) {
    ROW_LOAD(v, x, start, c, columns, -inf())
    for (uint i = 0; i < 4; ++i) top = max_nan(top, v[i]);
  }
  top = row_max(top);
  float sum = 0.0;
  for (uint c = row_first(); c < columns; c += ROW_STEP) {
    ROW_LOAD(v, x, start, c, columns, -inf())
    for (uint i = 0; i < 4; ++i) sum += exp_accurate(v[i] - top);
  }
  sum = row_sum(sum);
  float all = 0.0;
  if (p.smoothing != 0.0) {  // the same for all invocations
    for (uint c = row_first(); c < columns; c += ROW_STEP) {
      ROW_LOAD(v, x, start, c, columns, 0.0)
      all += sum_of(v);
    }
    all = row_sum(all);
  }
  if (!real || row_slice() != 0) return;

  const uint row = order[1 + row_index()];
  const uint at = 4 * row_index();
  const int label = labels[row];
  float label_logit = 0.0;
  if (p.first != 0) {
    const float old = stats[at];
    const float both = max_nan(old, top);
    sum = stats[at + 1] * exp_accurate(old - both) + sum * exp_accurate(top - both);
    top = both;
    label_logit = stats[at + 2];
    all += stats[at + 3];
  }
  if (label >= int(p.first) && label < int(p.first + p.columns)) label_logit = x[start + uint(label) - p.first];
  stats[at] = top;
  stats[at + 1] = sum;
  stats[at + 2] = label_logit;
  stats[at + 3] = all;
  if (p.last == 0) return;
  const bool valid = label >= 0 && label < int(p.vocabulary);
  const float log_of_sum = log_accurate(sum);
  float target = label_logit - top;
  if (p.smoothing != 0.0) target = mix(target, all / float(p.vocabulary) - top, p.smoothing);
  loss[row] = valid ? log_of_sum - target : nan();
  log_sum[row] = log_of_sum + top;
}
