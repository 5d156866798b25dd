#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
// data [outer, axis_size, inner], indices [outer, picks, index_inner] -> y [outer, picks, inner]
PUSH_BEGIN(GatherElementsPush)
  uint count;  // elements of y
  uint axis_size;
  uint picks;
  uint inner;
  uint index_inner;  // inner, or 1: an index for each run
  uint miss;         // word where an index is out of range
PUSH_END(GatherElementsPush)
