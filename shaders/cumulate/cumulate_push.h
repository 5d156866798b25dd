#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
// x and y [outer, size, inner]; a line is an element of outer and one of inner
PUSH_BEGIN(CumulatePush)
  uint lines;
  uint size;
  uint inner;
PUSH_END(CumulatePush)
