#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
PUSH_BEGIN(LossScalePush)
  float initial;
PUSH_END(LossScalePush)
