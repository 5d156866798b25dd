#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
// x [batches, rows, cols] with cols last: batch norm has one batch, group norm one for each image.
// Statistics are found at (row / stat_rows) * groups + col / group_cols, row counted over all batches.
// Columns are walked in chunks of rows, and reduced so: partial sums [2, batches, chunks, cols], then their combination.
PUSH_BEGIN(NormPush)
  uint batches;
  uint rows;
  uint cols;
  uint chunks;
  uint chunk_rows;
  uint col_tiles;
  uint lane_shift;  // a workgroup covers 2^lane_shift columns, or as many runs of four
  uint stat_rows;
  uint groups;
  uint group_cols;
  uint stat_is_variance;  // else 1 / standard deviation; flags are 0 or 1
  uint has_scale;
  uint has_bias;
  uint has_moments;
  float epsilon;
PUSH_END(NormPush)
