#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
// dy [outer, index_count, inner] -> dx [outer, rows, inner]
PUSH_BEGIN(GatherSortedSumPush)
  uint count;  // elements of dx
  uint rows;
  uint inner;
  uint index_count;
PUSH_END(GatherSortedSumPush)
