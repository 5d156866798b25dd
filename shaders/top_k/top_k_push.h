#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
// x [outer, size, inner] -> y [outer, k, inner]
PUSH_BEGIN(TopKPush)
  uint count;  // elements of x
  uint size;
  uint inner;
  uint k;
PUSH_END(TopKPush)
