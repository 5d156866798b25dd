#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
// totals [count] -> y [count]
PUSH_BEGIN(CompactPush)
  uint count;
PUSH_END(CompactPush)
