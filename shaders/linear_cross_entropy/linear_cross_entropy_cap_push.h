#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
PUSH_BEGIN(LinearCrossEntropyCapPush)
  uint rows;
  uint columns;
  float cap;
PUSH_END(LinearCrossEntropyCapPush)
