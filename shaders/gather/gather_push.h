#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
// data [outer, axis_size, inner], indices [index_count] -> y [outer, index_count, inner]
PUSH_BEGIN(GatherPush)
  uint count;  // elements of y
  uint axis_size;
  uint inner;
  uint index_count;
  uint miss;   // word where an index is out of range
PUSH_END(GatherPush)
