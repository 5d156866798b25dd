#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
PUSH_BEGIN(AccumulatePush)
  uint count;
PUSH_END(AccumulatePush)
