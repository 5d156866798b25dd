#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
// indices [index_count] of slices [first, first + rows) of an axis
PUSH_BEGIN(GatherSortPush)
  uint index_count;
  uint axis_size;
  uint first;
  uint rows;
PUSH_END(GatherSortPush)
