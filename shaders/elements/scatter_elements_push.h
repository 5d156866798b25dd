#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
// data and y [outer, axis_size, inner], indices [outer, picks, index_inner], updates [outer, picks, inner]
PUSH_BEGIN(ScatterElementsPush)
  uint count;  // elements of y
  uint axis_size;
  uint picks;
  uint inner;
  uint index_inner;  // inner, or 1: an index for each run
PUSH_END(ScatterElementsPush)
