#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
// rows [first, first + rows) of a table [all_rows, columns], indices [index_count] -> y [index_count, columns]
PUSH_BEGIN(GatherWeightPush)
  uint all_rows;
  uint first;
  uint rows;
  uint columns;
  uint quads;  // runs of four columns
  uint index_count;
PUSH_END(GatherWeightPush)
