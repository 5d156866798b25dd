// What the loss and its gradient both need of a row of logits, all relative to its maximum: large logits would cancel.
// Include after layout(local_size_x).
#include "shaders/cross_entropy/cross_entropy_push.h"
#include "shaders/common/rows.glsl"
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 0) readonly buffer XQuads { vec4 x_quads[]; };
layout(binding = 1) readonly buffer Labels { int labels[]; };

struct Row {
  uint start;
  uint columns;    // 0 for invocations past the last row
  float top;       // the largest logit
  float sum_exps;  // sum of exp(x - top)
  float sum;       // of x - top, where labels are smoothed
  int label;
  bool ignored;
  bool valid;      // the label names a column
};

Row read_row() {
  Row row;
  bool real = row_is_real();
  row.start = row_start();
  row.columns = real ? p.columns : 0;
  float top = -inf();
  for (uint c = row_first(); c < row.columns; c += ROW_STEP) {
    ROW_LOAD(v, x, row.start, c, row.columns, -inf())
    for (uint i = 0; i < 4; ++i) top = max_nan(top, v[i]);
  }
  row.top = row_max(top);
  float exps = 0.0;
  float sum = 0.0;
  for (uint c = row_first(); c < row.columns; c += ROW_STEP) {
    ROW_LOAD(v, x, row.start, c, row.columns, row.top)
    vec4 shifted = v - row.top;
    for (uint i = 0; i < 4; ++i) {
      if (row_column(c, i) < row.columns) {
        exps += exp_accurate(shifted[i]);
        sum += shifted[i];
      }
    }
  }
  row.sum_exps = row_sum(exps);
  row.sum = p.smoothing != 0.0 ? row_sum(sum) : 0.0;
  row.label = real ? labels[row_index()] : -1;
  row.ignored = row.label == p.ignore_index;
  row.valid = row.label >= 0 && row.label < int(p.columns);
  return row;
}
