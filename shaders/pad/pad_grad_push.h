#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
// dy [outer, out_size, inner] -> dx [outer, in_size, inner]
PUSH_BEGIN(PadGradPush)
  uint count;  // elements of dx
  uint inner;
  uint mode;   // 1 reflect, 2 edge
  int in_size;
  int out_size;
  int before;
PUSH_END(PadGradPush)
