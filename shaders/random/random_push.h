#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
// first: the element of the tensor that element 0 of the binding is; a multiple of 4.
PUSH_BEGIN(RandomPush)
  uint count;
  uint first;
  uint stream;
  float offset;
  float factor;
PUSH_END(RandomPush)
